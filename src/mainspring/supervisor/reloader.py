"""Reloader: runs its own command as a child process, and restarts it when a file that it imported changes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ..clock import Clock
from .command_line import CommandLine
from .signals import on_stop

_logger = logging.getLogger("mainspring")

# Set in the child process, so that it does not start another one. It names the ends of two pipes: one that closes when
# the reloader ends, and one for the files that the process imports.
VARIABLE = "MAINSPRING_RELOADED"
# Interval at which files are checked for changes.
POLL_SECONDS = 0.25
# Interval at which the child process looks for new imports.
IMPORT_POLL_SECONDS = 1.0
# A burst of changes, as by a checkout or a formatter, is over when no file has changed for this long.
QUIET_SECONDS = 0.4
MAX_BURST_SECONDS = 10.0
# If the process has not reported its files by then, all files are watched, as if it could not be imported.
REPORT_SECONDS = 15.0
# Files watched: a folder with more is not one application.
MAX_FILES = 10_000
# Folders with third-party or generated code.
FOREIGN_FOLDERS = {"__pycache__", "node_modules", "site-packages", "venv", "env"}

ModifiedTimes = dict[str, int]


def imported_files(folder: Path) -> set[str]:
    """The source files of all loaded modules that are below the folder."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {file for file in files if isinstance(file, str) and _is_own(file, folder)}


def _is_own(file: str, folder: Path) -> bool:
    if not file.endswith(".py"):
        return False
    path = Path(os.path.abspath(file))
    if not path.is_relative_to(folder):
        return False
    return not any(part in FOREIGN_FOLDERS or part.startswith(".") for part in path.relative_to(folder).parts[:-1])


class ImportReport:
    """Reports the files that this process imports to the reloader, as lines of JSON through a pipe."""

    def __init__(self, pipe: int, folder: Path) -> None:
        self._pipe = pipe
        self._folder = folder
        self._known: set[str] = set()
        self._modules = 0

    def send(self) -> None:
        self._modules = len(sys.modules)
        new = imported_files(self._folder) - self._known
        self._known |= new
        paths = sorted(os.path.abspath(file) for file in new)
        with suppress(BrokenPipeError):  # the reloader is gone, and this process will end, too
            for line in (msgspec.json.encode([path]) + b"\n" for path in paths or [""]):
                os.write(self._pipe, line)

    async def watch(self, clock: Clock) -> None:
        """Reports later imports until cancelled."""
        while True:
            await clock.sleep(IMPORT_POLL_SECONDS)
            if len(sys.modules) != self._modules:
                self.send()


class ImportedFiles:
    """The reloader's end of the pipe: the files reported so far, None before the first report."""

    def __init__(self, pipe: int) -> None:
        self.files: set[str] | None = None
        self._pipe = pipe
        self._partial = b""
        os.set_blocking(pipe, False)
        asyncio.get_running_loop().add_reader(pipe, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        found = {path for line in lines for path in msgspec.json.decode(line, type=list[str]) if path}
        self.files = (self.files or set()) | found

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)


def sources(folder: Path) -> ModifiedTimes:
    """The Python files below the folder with their modification times."""
    found: ModifiedTimes = {}
    for path in _walk(folder):
        if (modified := _modified_at(path)) is not None:
            found[path] = modified
        if len(found) == MAX_FILES:
            break
    return found


def _modified_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _walk(folder: Path) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in FOREIGN_FOLDERS and not name.startswith(".")]
        yield from (os.path.join(here, name) for name in files if name.endswith(".py"))


class _WatchedFiles:
    """The files of one process, with their times at its start or when it was first seen to import them."""

    def __init__(self, folder: Path, imported: ImportedFiles) -> None:
        self._folder = folder
        self._imported = imported
        self._before = sources(folder)

    @property
    def reported(self) -> bool:
        return self._imported.files is not None

    def changed(self, *, everything: bool = False) -> list[str]:
        """The imported files that have changed; with `everything`, all changed files below the folder."""
        if everything:
            now = sources(self._folder)
            return sorted(path for path in {**self._before, **now} if self._before.get(path) != now.get(path))
        return sorted(path for path in self._imported.files or () if self._is_changed(path))

    def _is_changed(self, path: str) -> bool:
        modified = _modified_at(path)
        return self._before.setdefault(path, modified or 0) != (modified or 0)


class Reloader:
    """Runs the command until it is stopped. If the process ends by itself, the next change starts it again."""

    def __init__(self, command_line: CommandLine, folder: Path, clock: Clock, *, kill_after: float) -> None:
        self._command_line = command_line
        self._folder = folder
        self._clock = clock
        self._kill_after = kill_after
        self._stops = 0
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        """Returns the exit code of the last process."""
        with on_stop(self._stop):
            code = 0
            while not self._stops:
                code = await self._run_process()
            return code

    async def _run_process(self) -> int:
        (alive, ours), (reports, theirs) = os.pipe(), os.pipe()
        imported = ImportedFiles(reports)
        watched = _WatchedFiles(self._folder, imported)
        environ = self._command_line.environ | {VARIABLE: f"{alive},{theirs}"}
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command_line.argv,
                cwd=self._command_line.folder,
                env=environ,
                start_new_session=True,
                pass_fds=[alive, theirs],
            )
            return await self._watch(process, watched)
        finally:
            imported.close()
            for end in (alive, ours, reports, theirs):
                os.close(end)

    async def _watch(self, process: asyncio.subprocess.Process, watched: _WatchedFiles) -> int:
        ended = asyncio.create_task(process.wait())
        changed = await self._await_change(watched, until=ended.done)
        if not ended.done():
            await self._end(process, ended)
        elif not self._stops and not changed:
            _logger.warning("the process has ended with %s; it starts again when a file changes", ended.result())
            changed = await self._await_change(watched)
        if changed and not self._stops:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            _logger.info("restarting: %s%s changed", changed[0].removeprefix(f"{self._folder}{os.sep}"), more)
        return ended.result()

    async def _await_change(self, watched: _WatchedFiles, until: Callable[[], bool] | None = None) -> list[str]:
        """Returns the changed files after a burst of changes; empty if it was stopped or `until()` is true.

        Watches the files that a running process has imported, but all files if it has ended or reports none: a
        change of any of them may repair it.
        """
        began = self._clock.monotonic()
        while not self._stops and not (until and until()):
            await self._clock.sleep(POLL_SECONDS)
            late = not watched.reported and self._clock.monotonic() - began > REPORT_SECONDS
            everything = until is None or late
            if watched.changed(everything=everything):
                await self._wait_until_quiet()
                if changed := watched.changed(everything=everything):
                    return changed
        return []

    async def _wait_until_quiet(self) -> None:
        """Waits until no more files change."""
        began = self._clock.monotonic()
        before, now = ModifiedTimes(), sources(self._folder)
        while before != now and self._clock.monotonic() - began < MAX_BURST_SECONDS and not self._stops:
            await self._clock.sleep(QUIET_SECONDS)
            before, now = now, sources(self._folder)

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Stops the process by SIGTERM, and kills it after `kill_after` seconds."""
        if not self._stops:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait([ended], timeout=self._kill_after)
        if not ended.done():
            process.kill()
            await ended

    def _stop(self) -> None:
        self._stops += 1
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM if self._stops < 3 else signal.SIGKILL)
