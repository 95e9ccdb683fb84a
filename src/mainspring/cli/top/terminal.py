"""Terminal: takes the screen and the keyboard, and restores both at the end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

# Escape sequences, such as those of arrow keys.
_ESCAPED = re.compile(r"\x1b(?:[\[O][0-9;]*.?)?")
QUIT = "q"


class Terminal:
    """A context manager that shows frames on the alternate screen and reads single keys.

    Calls `pressed` with each key, and with QUIT if the terminal is closed or on SIGTERM and SIGHUP. Calls `resized` if
    the size of the window changes.
    """

    def __init__(self, console: Console, pressed: Callable[[str], object], resized: Callable[[], object]) -> None:
        self._console = console
        self._pressed = pressed
        self._resized = resized
        self._fd = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: list[Any] | None = None
        self._live: Live | None = None

    def __enter__(self) -> Terminal:
        try:
            self._acquire()
            self._listen()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unlisten()
        self._restore()

    def show(self, frame: RenderableType) -> None:
        if self._live is not None:
            self._live.update(frame, refresh=True)

    # screen and keyboard

    def _acquire(self) -> None:
        if self._fd is not None:
            with suppress(ImportError):  # Windows: no keys, only Ctrl-C
                import termios
                import tty

                self._before = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._live.start()

    def _restore(self) -> None:
        live, self._live = self._live, None
        before, self._before = self._before, None
        try:
            if live is not None:
                live.stop()
        finally:
            if before is not None and self._fd is not None:
                import termios

                with suppress(termios.error):  # the terminal itself is gone
                    termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    # keys and signals

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # Windows has no readers and no such signals
            if self._before is not None and self._fd is not None:
                loop.add_reader(self._fd, self._read)
            for number, act in self._signals().items():
                loop.add_signal_handler(number, act)

    def _unlisten(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):
            if self._fd is not None:
                loop.remove_reader(self._fd)
            for number in self._signals():
                loop.remove_signal_handler(number)

    def _signals(self) -> dict[int, Callable[[], object]]:
        if not hasattr(signal, "SIGWINCH"):
            return {}
        return {
            signal.SIGTERM: lambda: self._pressed(QUIT),
            signal.SIGHUP: lambda: self._pressed(QUIT),
            signal.SIGWINCH: self._resized,
            signal.SIGTSTP: self._suspend,
        }

    def _suspend(self) -> None:
        """Ctrl-Z: restores the terminal for the shell; `fg` continues the view."""
        self._restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._acquire()
        self._resized()

    def _read(self) -> None:
        assert self._fd is not None
        try:
            keys = os.read(self._fd, 1024).decode(errors="ignore")
        except OSError:
            keys = ""
        # Readable, but nothing to read: the terminal is closed.
        for key in _ESCAPED.sub("", keys) if keys else QUIT:
            self._pressed(key)
