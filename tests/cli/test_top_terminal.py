"""mainspring top at a real terminal: keys, sizes, signals, and its restoration."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest

TIMEOUT_SECONDS = 30.0


class Session:
    """A command in its own terminal, never for longer than TIMEOUT_SECONDS."""

    def __init__(self, *args: str) -> None:
        self.parent, self.child = pty.openpty()
        termios.tcsetwinsize(self.child, (24, 80))
        self.before = termios.tcgetattr(self.child)
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.popen = subprocess.Popen(
            [sys.executable, *args], stdin=self.child, stdout=self.child, stderr=self.child,
            env=env | {"TERM": "xterm-256color"}, start_new_session=True, preexec_fn=self._own_terminal,
        )  # fmt: skip
        self.shown = ""

    def _own_terminal(self) -> None:
        import fcntl

        fcntl.ioctl(self.child, termios.TIOCSCTTY, 0)

    def read(self) -> bool:
        ready, _, _ = select.select([self.parent], [], [], 0.1)
        if not ready:
            return False
        self.shown += os.read(self.parent, 65536).decode(errors="replace")
        return True

    def until(self, text: str) -> None:
        """Waits until the text is shown, and forgets what was shown up to it."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline, f"never showed {text!r}: {self.shown[-3000:]!r}"
            self.read()
        self.shown = self.shown.partition(text)[2]

    def press(self, keys: str) -> None:
        os.write(self.parent, keys.encode())

    def end(self) -> int:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.popen.poll() is None:
            assert time.monotonic() < deadline, "has not ended"
            self.read()
        while self.read():
            pass
        return self.popen.returncode

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.child) == self.before

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(TIMEOUT_SECONDS)
        os.close(self.parent)
        os.close(self.child)


@pytest.fixture
def session(shop: str, enqueued: Any) -> Iterator[Session]:
    enqueued("add", "a=1")
    session = Session("-m", "mainspring.cli", "top", "--app", shop, "--interval", "200ms")
    yield session
    session.close()


def test_top_follows_pressed_keys_new_jobs_and_resizes_of_the_terminal(session, enqueued):
    session.until("\x1b[?1049h")
    session.until("[1 running 0]")
    assert not session.restored  # keys come one by one
    session.press("2")
    session.until("[2 failures 0]")
    session.press("\x1b[A")  # arrow keys are ignored
    session.press("\t")
    session.until("[3 dead 0]")
    enqueued("add", "a=2")
    session.until("○ 2 pending")
    session.press("p")
    session.until("‖ paused")
    enqueued("add", "a=3")
    session.press("p")
    session.until("○ 3 pending")
    termios.tcsetwinsize(session.parent, (30, 160))
    session.until("◇ 0 waiting")
    session.press("q")
    assert session.end() == 0
    assert "\x1b[?1049l" in session.shown
    assert "Traceback" not in session.shown
    assert session.restored


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_signal_restores_the_terminal(session, number, code):
    session.until("[1 running 0]")
    session.popen.send_signal(number)
    assert session.end() == code
    assert "\x1b[?1049l" in session.shown
    assert "Traceback" not in session.shown
    assert session.restored


def test_ctrl_c_ends_top(session):
    session.until("[1 running 0]")
    session.press("\x03")
    assert session.end() == 130
    assert session.restored


def test_ctrl_z_restores_the_terminal_until_fg(session):
    session.until("[1 running 0]")
    session.press("\x1a")
    session.until("\x1b[?1049l")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while os.waitpid(session.popen.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline
        session.read()
    assert session.restored
    session.popen.send_signal(signal.SIGCONT)
    session.until("\x1b[?1049h")
    session.until("[1 running 0]")
    session.press("q")
    assert session.end() == 0
    assert session.restored


def test_top_recovers_when_the_store_is_available_again(here, shop):
    session = Session("-m", "mainspring.cli", "top", "--store", "sqlite:///later/jobs.db", "--interval", "200ms")
    try:
        session.until("the store is in trouble")
        (here / "later").mkdir()
        session.until("✓ ready")
        session.press("q")
        assert session.end() == 0
    finally:
        session.close()


def test_top_exits_with_an_error_if_the_store_never_answered(here, shop):
    session = Session("-m", "mainspring.cli", "top", "--store", "sqlite:///never/jobs.db", "--interval", "200ms")
    try:
        session.until("the store is in trouble")
        session.press("q")
        assert session.end() == 1
        assert "error:" in session.shown
        assert session.restored
    finally:
        session.close()


RAISES = """
import asyncio
from rich.console import Console
from mainspring.cli.top.terminal import Terminal
async def main():
    with Terminal(Console(), print, print) as terminal:
        terminal.show("inside")
        raise RuntimeError("a bug")
asyncio.run(main())
"""


def test_exception_restores_the_terminal():
    session = Session("-c", RAISES)
    try:
        session.until("inside")
        assert session.end() == 1
        # Newer Python releases colour tracebacks, so "RuntimeError: a bug" is not found.
        assert session.shown.index("\x1b[?1049l") < session.shown.index("a bug")
        assert session.restored
    finally:
        session.close()


def test_closed_terminal_ends_top(session):
    session.until("[1 running 0]")
    os.close(session.child)
    os.close(session.parent)
    session.parent, session.child = os.pipe()
    assert session.popen.wait(TIMEOUT_SECONDS) is not None
