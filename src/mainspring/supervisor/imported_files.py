"""The source files that a process has imported from below a folder, reported to the process that reloads it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from ..clock import Clock

# Seconds between two looks for modules that were imported meanwhile.
LOOK_SECONDS = 1.0
# Folders below it that hold other people's code, or none that is written by hand.
FOREIGN_FOLDERS = {"__pycache__", "node_modules", "site-packages", "venv", "env"}


def imported_files(folder: Path) -> set[str]:
    """Of every module that is loaded: its source file, if that is below the folder."""
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
    """Writes new files to a pipe, one JSON list a line."""

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
        with suppress(BrokenPipeError):  # the reloader is gone, and this process is about to end
            for line in (msgspec.json.encode([path]) + b"\n" for path in paths or [""]):
                os.write(self._pipe, line)

    async def keep(self, clock: Clock) -> None:
        """Reports what is imported later, until it is cancelled."""
        while True:
            await clock.sleep(LOOK_SECONDS)
            if len(sys.modules) != self._modules:
                self.send()


class ImportedFiles:
    """The other end: the files that the process has reported so far; None: nothing yet."""

    def __init__(self, pipe: int) -> None:
        self.files: set[str] | None = None
        self._pipe = pipe
        self._rest = b""
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
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = {path for line in lines for path in msgspec.json.decode(line, type=list[str]) if path}
        self.files = (self.files or set()) | found

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
