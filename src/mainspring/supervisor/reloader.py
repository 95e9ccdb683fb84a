"""Reloader: keeps one process of its own command running, and restarts it when a file that it imported changes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from ..clock import Clock
from .command_line import CommandLine
from .imported_files import FOREIGN_FOLDERS, ImportedFiles
from .signals import on_stop

_logger = logging.getLogger("mainspring")

# Set in the process that is to work, so that it does not start another one. It names the ends of two pipes: one that
# closes when the reloader is gone, and one for the files that the process imports.
VARIABLE = "MAINSPRING_RELOADED"
LOOK_SECONDS = 0.25
# A burst of changes, as of a checkout or a formatter, is over when no file has changed for this long.
QUIET_SECONDS = 0.4
MAX_BURST_SECONDS = 10.0
# A process that has not reported its files by then is watched as one that cannot be imported.
REPORT_SECONDS = 15.0
# More files are not looked at: a folder with as many is not one application.
MAX_FILES = 10_000

Files = dict[str, int]


def sources(folder: Path) -> Files:
    """Python files below the folder, and when each was last written."""
    found: Files = {}
    for path in _walk(folder):
        if (written := _written(path)) is not None:
            found[path] = written
        if len(found) == MAX_FILES:
            break
    return found


def _written(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _walk(folder: Path) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in FOREIGN_FOLDERS and not name.startswith(".")]
        yield from (os.path.join(here, name) for name in files if name.endswith(".py"))


class _Watched:
    """The files of one process, as they were when it started or was first seen to import them."""

    def __init__(self, folder: Path, imported: ImportedFiles) -> None:
        self._folder = folder
        self._imported = imported
        self._before = sources(folder)

    @property
    def reported(self) -> bool:
        return self._imported.files is not None

    def changed(self, *, everything: bool = False) -> list[str]:
        """Of the files that it imported, those that are not as they were; or of all below the folder."""
        if everything:
            now = sources(self._folder)
            return sorted(path for path in {**self._before, **now} if self._before.get(path) != now.get(path))
        return sorted(path for path in self._imported.files or () if self._is_changed(path))

    def _is_changed(self, path: str) -> bool:
        written = _written(path)
        return self._before.setdefault(path, written or 0) != (written or 0)


class Reloader:
    """Until it is stopped. A process that ends by itself is started again when something has changed."""

    def __init__(self, program: CommandLine, folder: Path, clock: Clock, *, patience: float) -> None:
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
        (alive, ours), (reports, theirs) = os.pipe(), os.pipe()
        imported = ImportedFiles(reports)
        watched = _Watched(self._folder, imported)
        environ = self._program.environ | {VARIABLE: f"{alive},{theirs}"}
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._program.argv, cwd=self._program.folder, env=environ, start_new_session=True,
                pass_fds=[alive, theirs],
            )  # fmt: skip
            return await self._watch(process, watched)
        finally:
            imported.close()
            for end in (alive, ours, reports, theirs):
                os.close(end)

    async def _watch(self, process: asyncio.subprocess.Process, watched: _Watched) -> int:
        ended = asyncio.create_task(process.wait())
        changed = await self._change(watched, until=ended.done)
        if not ended.done():
            await self._end(process, ended)
        elif not self._stops and not changed:
            _logger.warning("the process has ended with %s; it starts again when a file changes", ended.result())
            changed = await self._change(watched)
        if changed and not self._stops:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            _logger.info("restarting: %s%s changed", changed[0].removeprefix(f"{self._folder}{os.sep}"), more)
        return ended.result()

    async def _change(self, watched: _Watched, until: Callable[[], bool] | None = None) -> list[str]:
        """The files that are not as they were, after a burst; none, if it was stopped or `until` holds.

        While a process runs, those count that it imported. One that has ended, or reports none, may be mended by any.
        """
        began = self._clock.monotonic()
        while not self._stops and not (until and until()):
            await self._clock.sleep(LOOK_SECONDS)
            late = not watched.reported and self._clock.monotonic() - began > REPORT_SECONDS
            everything = until is None or late
            if watched.changed(everything=everything) and (changed := await self._burst(watched, everything)):
                return changed
        return []

    async def _burst(self, watched: _Watched, everything: bool) -> list[str]:
        """Waits until no file changes any more."""
        began = self._clock.monotonic()
        before, now = Files(), sources(self._folder)
        while before != now and self._clock.monotonic() - began < MAX_BURST_SECONDS and not self._stops:
            await self._clock.sleep(QUIET_SECONDS)
            before, now = now, sources(self._folder)
        return watched.changed(everything=everything)

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """By a signal; and by force, when its time is over."""
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
