"""Reloader: keeps one process of its own command running, and starts it anew when source files change."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from .clock import Clock
from .program import Program
from .signals import on_stop

_logger = logging.getLogger("mainspring")

# Set in the process that is to work, so that it does not start another one: the end of a pipe that closes with us.
VARIABLE = "MAINSPRING_RELOADED"
# Seconds between two looks at the files.
LOOK = 0.5
# Folders that hold nothing one writes by hand.
_STRANGE = {"__pycache__", "node_modules", "site-packages", "venv", "env"}
# More files than this are not looked at: whoever starts it in such a folder does not mean all of them.
MOST = 10_000

Files = dict[str, int]


def sources(folder: Path) -> Files:
    """Python files below the folder, and when each was last written."""
    found: Files = {}
    for path in _walk(folder):
        try:
            found[path] = os.stat(path).st_mtime_ns
        except FileNotFoundError:
            continue
        if len(found) == MOST:
            break
    return found


def _walk(folder: Path) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _STRANGE and not name.startswith(".")]
        yield from (os.path.join(here, name) for name in files if name.endswith(".py"))


class Reloader:
    """Until it is told to stop. A process that ends by itself is started again when something has changed."""

    def __init__(self, program: Program, folder: Path, clock: Clock, *, patience: float) -> None:
        self._program = program
        self._folder = folder
        self._clock = clock
        self._patience = patience
        self._stops = 0
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        """The exit code of the last process."""
        with on_stop(self._stop):
            code = 0
            while not self._stops:
                code = await self._once()
            return code

    async def _once(self) -> int:
        before, (far, near) = sources(self._folder), os.pipe()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._program.argv, cwd=self._program.folder, env=self._program.environ | {VARIABLE: str(far)},
                start_new_session=True, pass_fds=[far],
            )  # fmt: skip
            return await self._watch(process, before)
        finally:
            os.close(far)
            os.close(near)

    async def _watch(self, process: asyncio.subprocess.Process, before: Files) -> int:
        ended = asyncio.create_task(process.wait())
        changed = await self._change(before, until=ended.done)
        if not ended.done():
            await self._end(process, ended)
        elif not self._stops and not changed:
            _logger.warning("the process has ended with %s; it starts again when a file changes", ended.result())
            changed = await self._change(before)
        if changed and not self._stops:
            _logger.info("%s has changed: starting anew", changed)
        return ended.result()

    async def _change(self, before: Files, until: Callable[[], bool] = lambda: False) -> str:
        """A file that is not as it was; none, if it was told to stop or `until` holds."""
        while not self._stops and not until():
            await self._clock.sleep(LOOK)
            now = sources(self._folder)
            if now != before:
                return sorted(path for path in {**before, **now} if before.get(path) != now.get(path))[0]
        return ""

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Asked, and then, when its patience is over or somebody has none left, made to."""
        if not self._stops:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait([ended], timeout=self._patience)
        if not ended.done():
            process.kill()
            await ended

    def _stop(self) -> None:
        self._stops += 1
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM if self._stops < 3 else signal.SIGKILL)
