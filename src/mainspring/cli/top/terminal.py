"""The terminal while the view is on: keys one by one without waiting for them, and all as it was afterwards."""

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

# Arrows and the like: an escape and what belongs to it.
_ESCAPED = re.compile(r"\x1b(?:[\[O][0-9;]*.?)?")
QUIT = "q"


class Terminal:
    """Takes the screen and the keyboard; `with` gives both back whatever happens inside.

    `pressed` gets each key, and QUIT when the terminal is gone or the process is asked to end. `resized` is
    called when the window has another size.
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
            self._take()
            self._listen()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ignore()
        self._give_back()

    def show(self, frame: RenderableType) -> None:
        if self._live is not None:
            self._live.update(frame, refresh=True)

    # screen and keyboard

    def _take(self) -> None:
        if self._fd is not None:
            with suppress(ImportError):  # Windows: no keys, Ctrl-C ends it
                import termios
                import tty

                self._before = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._live.start()

    def _give_back(self) -> None:
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

    # what comes from outside

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # Windows has none of this
            if self._before is not None and self._fd is not None:
                loop.add_reader(self._fd, self._read)
            for number, act in self._signals().items():
                loop.add_signal_handler(number, act)

    def _ignore(self) -> None:
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
        """Ctrl-Z: the shell gets its terminal as it was; `fg` comes back to the view."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._resized()

    def _read(self) -> None:
        assert self._fd is not None
        try:
            keys = os.read(self._fd, 1024).decode(errors="ignore")
        except OSError:
            keys = ""
        # Nothing to read although something came: the terminal is closed.
        for key in _ESCAPED.sub("", keys) if keys else QUIT:
            self._pressed(key)
