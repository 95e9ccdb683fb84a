"""The command as a user runs it: in a directory with an app, and as a process."""

from __future__ import annotations

import asyncio
import importlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mainspring import Mainspring
from mainspring.cli import main
from mainspring.cli.app_loader import load_app
from mainspring.testing import VirtualClock

TIMEOUT_SECONDS = 30.0
LOOK_SECONDS = 0.03

SHOP = """
import asyncio
from datetime import datetime
from mainspring import Context, Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task(queue="mail")
async def add(a: int, b: int = 2) -> int:
    return a + b

@app.task
async def greet(name: str, loud: bool = False, at: datetime | None = None, ids: list[int] | None = None) -> str:
    return f"{name} {loud} {at} {ids}"

@app.task(max_retries=0)
async def fail(why: str) -> None:
    raise ValueError(why)

@app.task
async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"

@app.task(max_retries=0)
async def talk(ctx: Context, say: list[str], rows: int = 0, fail: bool = False) -> None:
    for text in say:
        level, bar, rest = text.partition("|")
        getattr(ctx.log, level if bar else "info")(rest or text)
    if rows:
        ctx.progress(rows, 2 * rows, "rows")
        ctx.items(success=rows, skipped=1)
        ctx.note(source="list")
    if fail:
        raise ValueError("said it all")
"""

Cli = Callable[..., Result]
# Behind the real clock, which other tests here use: ids of a process only ever grow.
PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory and no MAINSPRING_* variables."""
    for name in os.environ:
        if name.startswith("MAINSPRING_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(PAST)


@pytest.fixture
def shop(here: Path) -> str:
    """The name of an app in the current directory."""
    here.joinpath("shop.py").write_text(SHOP)
    return "shop:app"


@pytest.fixture
def store(here: Path) -> str:
    """The URL of that app's store."""
    return "sqlite:///jobs.db"


@pytest.fixture
def cli() -> Cli:
    def invoke(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, args, input=input, prog_name="mainspring")

    return invoke


@pytest.fixture
def enqueued(cli: Cli, shop: str) -> Callable[..., str]:
    """Enqueues a job of the shop; returns its id."""

    def enqueue(*args: str) -> str:
        done = cli("enqueue", "--app", shop, *args)
        assert done.exit_code == 0, done.stderr
        return done.stdout.split()[0]

    return enqueue


@pytest.fixture
def inside(shop: str) -> Callable[[Callable[[Mainspring], Coroutine[Any, Any, Any]]], Any]:
    """Runs a coroutine function of the shop's app, opened."""

    def run(act: Callable[[Mainspring], Coroutine[Any, Any, Any]]) -> Any:
        app = load_app(shop)

        async def opened() -> Any:
            async with app:
                return await act(app)

        return asyncio.run(opened())

    return run


@pytest.fixture
def work(inside: Callable[..., int]) -> Callable[[], int]:
    """Runs the shop's due jobs; returns how many runs that took."""
    return lambda: inside(lambda app: app.drain())


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Repeats a check until it holds; a check may be a whole command, and the observed process needs time too."""

    def ask(holds: Callable[[], object]) -> None:
        for _ in range(1000):
            if holds():
                return
            time.sleep(LOOK_SECONDS)
        raise AssertionError(f"it never came to {holds}")

    return ask


class Process:
    """The command in its own process, never for longer than TIMEOUT_SECONDS."""

    def __init__(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "mainspring.cli", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | env,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.seen: list[str] = []
        self._errors: list[str] = []
        self._unread: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read, args=(self.popen.stderr, self._keep_error), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_stdout(self) -> None:
        self._read(self.popen.stdout, self._lines.put)
        self._lines.put(None)

    def _keep_error(self, line: str) -> None:
        self._errors.append(line)
        self._unread.put(line)

    @staticmethod
    def _read(stream: Any, keep: Callable[[str], object]) -> None:
        with stream:
            for line in stream:
                keep(line.rstrip("\n"))

    def line(self, containing: str) -> str:
        """Waits for a line of stdout that contains this text."""
        while True:
            line = self._lines.get(timeout=TIMEOUT_SECONDS)
            assert line is not None, f"ended without saying {containing!r}: {self._errors}"
            self.seen.append(line)
            if containing in line:
                return line

    def logged(self, containing: str) -> str:
        """Waits for the next line of stderr that contains this text."""
        while containing not in (line := self._unread.get(timeout=TIMEOUT_SECONDS)):
            pass
        return line

    def errors(self) -> list[str]:
        """The lines of stderr so far."""
        return list(self._errors)

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, once it has ended."""
        code = self.popen.wait(TIMEOUT_SECONDS)
        for reader in self._readers:
            reader.join(TIMEOUT_SECONDS)
        while not self._lines.empty():
            line = self._lines.get()
            self.seen += [] if line is None else [line]
        return code, "\n".join(self.seen), "\n".join(self._errors)


@pytest.fixture
def process() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(*args: str, **env: str) -> Process:
        started.append(Process(args, env))
        return started[-1]

    yield start
    for one in started:
        if one.popen.poll() is None:
            one.popen.kill()
        one.end()
