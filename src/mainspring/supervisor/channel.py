"""The line between a supervisor and one of its processes: words go up it, and each end notices the other's death."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

import msgspec

from ..counters import CounterSnapshot
from ..errors import BadSetting

# The process's number and the descriptor of its end: "2:7".
VARIABLE = "MAINSPRING_SUPERVISED"
# The exit code of a process that gives way to a fresh one.
RECYCLED = 75


class StatusMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process tells its supervisor, as one line of JSON."""

    up: bool = False
    """It takes jobs now."""
    recycling: str = ""
    """Why it is about to leave by itself."""
    ended: dict[str, int] = {}
    """How many runs left their job in which state."""
    counts: CounterSnapshot | None = None
    """What it has counted since it last told."""


class SupervisorChannel:
    """The process's end of the line."""

    def __init__(self, number: int, line: socket.socket) -> None:
        self.number = number
        self._line = line
        self._left = b""
        line.setblocking(False)
        line.set_inheritable(False)

    @classmethod
    def grasp(cls, environ: MutableMapping[str, str] = os.environ) -> SupervisorChannel | None:
        """This process's line, if it has a supervisor; processes that it starts itself have none."""
        text = environ.pop(VARIABLE, "")
        if not text:
            return None
        try:
            number, descriptor = map(int, text.split(":"))
            return cls(number, socket.socket(fileno=descriptor))
        except (ValueError, OSError):
            raise BadSetting(f"{VARIABLE}={text} is set by a supervisor for its own processes only: unset it") from None

    def say(self, word: StatusMessage) -> None:
        """What the line does not take at once goes with the next word; half a one would garble all that follow."""
        self._left += msgspec.json.encode(word) + b"\n"
        with suppress(OSError):  # nobody is there to hear it; `watch` has noticed. Or nobody listens just now
            self._left = self._left[self._line.send(self._left) :]

    @property
    def full(self) -> bool:
        """Whether something said has not gone yet: what can wait had better."""
        return bool(self._left)

    def watch(self, gone: Callable[[], object]) -> None:
        """Calls `gone` once, when the supervisor has died without a word."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            with suppress(BlockingIOError):
                try:
                    alive = bool(self._line.recv(64))
                except ConnectionError:
                    alive = False
                if not alive:
                    loop.remove_reader(self._line)
                    gone()

        loop.add_reader(self._line, look)
