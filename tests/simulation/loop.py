"""An event loop with virtual time: it jumps to the next timer as soon as every task waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta

from mainspring.clock import Timer
from mainspring.testing.clock import START

# Loop iterations without time passing after which a task is assumed to spin.
MAX_IDLE_STEPS = 50_000


class Stuck(Exception):
    """The simulation cannot go on: every task waits and no timer is set, or a task spins."""


class _JumpSelector(selectors.SelectSelector):
    """A selector that never waits: it adds the timeout to the virtual time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.micros = 0
        self._steps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("every task waits, and nothing is due")
        if timeout > 0:
            self.micros += max(1, round(timeout * 1_000_000))
            self._steps = 0
        self._steps += 1
        if self._steps > MAX_IDLE_STEPS:
            raise Stuck(f"{MAX_IDLE_STEPS} steps without time passing")
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """One thread, no sockets, no system calls. asyncio's own timeouts are virtual too."""

    def __init__(self) -> None:
        self._selector = _JumpSelector()
        super().__init__(self._selector)

    def time(self) -> float:
        return self._selector.micros / 1_000_000

    def elapsed(self) -> timedelta:
        return timedelta(microseconds=self._selector.micros)

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread that could wake the loop."""


class TrueClock:
    """The true time; it is also the store's clock."""

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
