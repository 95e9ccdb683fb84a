"""A copy of the tree in which one mutation at a time is played."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

PACKAGE = "src/mainspring"
UNMUTATED_LIMIT_SECONDS = 1800.0
# Servers that see pytest die remove their shared memory before they end; then whatever is left is killed.
GRACE_SECONDS, SWEEP_SECONDS = 1.0, 10.0


class Mutation(Protocol):
    """One fence to remove: `old` becomes `new` in `file`, and one of the tests in `judges` must fail."""

    @property
    def name(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...
    @property
    def judges(self) -> tuple[str, ...]: ...


class Played(NamedTuple):
    code: int | None
    """pytest's exit code; None: it was ended at the time limit."""
    failed: list[str]
    seconds: float

    @property
    def reason(self) -> str:
        """Why it has proved nothing."""
        known = {None: f"did not end within {self.seconds:.0f} s", 5: "had no test to run"}
        return known.get(self.code, f"ended with {self.code}")


class Copy:
    """The tree in a folder of its own, with its own TMPDIR; servers of its tests get free ports from the kernel.

    A real copy, not hard links: it is 10 MB, made once a job, and no test can write through it to the original.
    """

    def __init__(self, original: Path, root: Path, folder: Path) -> None:
        self._home, self.tree, self._temporary = folder, folder / "tree", folder / "tmp"
        self._python = root / ".venv" / "bin" / "python"
        self._writes = 0
        for part in (name for name in ("src", "tests", "examples") if (original / name).exists()):
            shutil.copytree(original / part, self.tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(original / "pyproject.toml", self.tree)
        (root / ".cache").mkdir(exist_ok=True)
        (self.tree / ".cache").symlink_to(root / ".cache")  # programs of servers
        # Byte code may be kept: every text that a file has is given a time of its own, by which Python knows it.
        self._environ = {
            **os.environ,
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "",
            "TMPDIR": str(self._temporary),
        }

    async def check(self) -> None:
        """Raises RuntimeError if its tests would import another tree."""
        await self._run("-c", "import mainspring; print(mainspring.__file__)", limit=UNMUTATED_LIMIT_SECONDS)
        if not self._said().startswith(str(self.tree)):
            raise RuntimeError(f"the tests would import {self._said().strip()}, not the copy in {self.tree}")

    async def play(self, tests: tuple[str, ...], *options: str, limit: float) -> Played:
        begun = time.monotonic()
        code = await self._run("-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *options, *tests, limit=limit)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self._said(), re.MULTILINE)
        return Played(code, failed, round(time.monotonic() - begun, 1))

    async def play_mutated(self, mutation: Mutation, *options: str, limit: float) -> Played:
        path = self.tree / PACKAGE / mutation.file
        text, then = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
        self._writes += 1
        self._write(path, text.replace(mutation.old, mutation.new), then + self._writes * 10**9)
        try:
            return await self.play(mutation.judges, *options, limit=limit)
        finally:
            self._write(path, text, then)

    def _write(self, path: Path, text: str, modified_ns: int) -> None:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(modified_ns, modified_ns))

    def _said(self) -> str:
        return (self._home / "output").read_text(encoding="utf-8", errors="replace")

    async def _run(self, *arguments: str, limit: float) -> int | None:
        """The exit code, or None if it was ended at the limit. Nothing that it has started outlives it."""
        self._empty()
        with (self._home / "output").open("wb") as output:  # a pipe would stay open as long as a stray process
            process = await asyncio.create_subprocess_exec(
                self._python, *arguments, cwd=self.tree, env=self._environ, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            return await asyncio.wait_for(process.wait(), limit)
        except TimeoutError:
            return None
        finally:
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        begun = time.monotonic()
        while (strays := self._strays()) and (waited := time.monotonic() - begun) < SWEEP_SECONDS:
            for stray in strays if waited > GRACE_SECONDS else ():
                with suppress(ProcessLookupError):
                    os.kill(stray, signal.SIGKILL)
            await asyncio.sleep(0.05)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def _strays(self) -> list[int]:
        """What its tests have left, also in other sessions: processes whose environment names this folder."""
        mark, found = f"{self._home}/".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found

    def _empty(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(exist_ok=True)
        for folder in (self._home, self._temporary):
            folder.chmod(0o755)  # the servers have a user of their own
