"""The channel between a supervisor and one of its processes: carries status messages, and reveals the peer's death."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

import msgspec

from ..counters import CounterSnapshot
from ..errors import BadSetting

# Number of the process and file descriptor of its end of the channel: "2:7".
VARIABLE = "MAINSPRING_SUPERVISED"
# Exit code of a process that recycles itself.
RECYCLED_EXIT_CODE = 75


class StatusMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process reports to its supervisor, as one line of JSON."""

    up: bool = False
    """The process claims jobs now."""
    recycling: str = ""
    """Why it is about to recycle; empty if it is not."""
    ended: dict[str, int] = {}
    """Runs by the state in which they left their job."""
    counts: CounterSnapshot | None = None
    """What it has counted since its last message."""


class SupervisorChannel:
    """The process's end of the channel."""

    def __init__(self, number: int, end: socket.socket) -> None:
        self.number = number
        self._socket = end
        self._unsent = b""
        end.setblocking(False)
        end.set_inheritable(False)

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str] = os.environ) -> SupervisorChannel | None:
        """This process's channel, None without a supervisor. Removes the variable, so that its children have none."""
        text = environ.pop(VARIABLE, "")
        if not text:
            return None
        try:
            number, descriptor = map(int, text.split(":"))
            return cls(number, socket.socket(fileno=descriptor))
        except (ValueError, OSError):
            raise BadSetting(f"{VARIABLE}={text} is set by a supervisor for its own processes only: unset it") from None

    def send(self, message: StatusMessage) -> None:
        """Keeps bytes that the socket does not accept for the next call: half a message would garble all later ones."""
        self._unsent += msgspec.json.encode(message) + b"\n"
        with suppress(OSError):  # the supervisor is gone, which `watch` notices, or does not read just now
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    @property
    def has_unsent(self) -> bool:
        """Whether an earlier message is not sent completely: what can wait should."""
        return bool(self._unsent)

    def watch(self, on_lost: Callable[[], object]) -> None:
        """Calls `on_lost` once, when the supervisor has died."""
        loop = asyncio.get_running_loop()

        def check_peer() -> None:
            with suppress(BlockingIOError):
                try:
                    alive = bool(self._socket.recv(64))
                except ConnectionError:
                    alive = False
                if not alive:
                    loop.remove_reader(self._socket)
                    on_lost()

        loop.add_reader(self._socket, check_peer)
