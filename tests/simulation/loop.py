"""An event loop whose time is virtual: it jumps to the next timer as soon as everything waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta

from mainspring.clock import Timer
from mainspring.testing.clock import START

# Steps at one instant after which something is taken to spin.
SPIN = 50_000


class Stuck(Exception):
    """The world cannot go on: everything waits for nothing, or something spins."""


class _Jumper(selectors.SelectSelector):
    """Never waits: what the loop would wait for is added to its time."""

    def __init__(self) -> None:
        super().__init__()
        self.micros = 0
        self._steps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("everything waits, and nothing is due")
        if timeout > 0:
            self.micros += max(1, round(timeout * 1_000_000))
            self._steps = 0
        self._steps += 1
        if self._steps > SPIN:
            raise Stuck(f"{SPIN} steps without time passing")
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """One thread, no sockets. asyncio's own timeouts are virtual here too, and no step costs a system call."""

    def __init__(self) -> None:
        self._jumper = _Jumper()
        super().__init__(self._jumper)

    def time(self) -> float:
        return self._jumper.micros / 1_000_000

    def elapsed(self) -> timedelta:
        return timedelta(microseconds=self._jumper.micros)

    def _write_to_self(self) -> None:
        """Nobody has to be woken: there is no other thread."""


class TrueClock:
    """The time of the world, which the store tells everybody."""

    real = False

    def __init__(self, loop: VirtualLoop, begin: datetime = START) -> None:
        self._loop = loop
        self._begin = begin

    def now(self) -> datetime:
        return self._begin + self._loop.elapsed()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return self._loop.call_later(max(0.0, seconds), act)

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return nullcontext()
