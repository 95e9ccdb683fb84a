"""A clock that tests own: time stands still until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

from ..errors import BadInput

START = datetime(2030, 1, 1, tzinfo=UTC)
# How long, in real seconds, a step waits for tasks in other threads before time goes on without them; and for what
# needs no time to pass, such as a store on a busy machine.
PATIENCE, TRUST = 0.5, 10.0


class _Timer:
    """Something to do at an instant."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act: Callable[[], object] | None = act

    def cancel(self) -> None:
        self.act = None


class VirtualClock:
    """Drives every loop of the engine.

    `advance()` moves time at once, as if the machine had slept; `await elapse()` lets it pass, stopping at
    every timer on the way; with `autojump=True` time passes by itself whenever everything waits for it.
    """

    real = False

    def __init__(self, start: datetime = START, *, autojump: bool = False) -> None:
        self._now = start
        self._start = start
        self._timers: list[tuple[datetime, int, _Timer]] = []
        self._count = 0
        self._outside: dict[object, bool] = {}
        self._hopeless: set[object] = set()
        self._settling = asyncio.Lock()
        self._autojump = autojump
        self._jumper: asyncio.Task[None] | None = None

    # what the engine uses

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, act: Callable[[], object]) -> _Timer:
        timer = _Timer(act)
        self._count += 1
        heappush(self._timers, (self._now + _later(seconds), self._count, timer))
        if self._autojump and (self._jumper is None or self._jumper.done()):
            self._jumper = asyncio.get_running_loop().create_task(self._jump())
        return timer

    @contextmanager
    def _working(self, task: bool) -> Iterator[None]:
        token = object()
        self._outside[token] = task
        try:
            yield
        finally:
            del self._outside[token]
            self._hopeless.discard(token)

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return self._working(task)

    # what tests use

    def advance(self, span: timedelta | None = None, **parts: float) -> None:
        """Moves time at once: advance(minutes=5). What was due on the way is due now."""
        self.set(self._now + span_of(span, parts))

    def set(self, instant: datetime) -> None:
        """Moves time to an instant, not back."""
        if instant < self._now:
            raise BadInput(f"a clock does not go back: it is {self._now}, not {instant}")
        self._now = instant
        while self._timers and self._timers[0][0] <= instant:
            self._fire()

    async def elapse(self, span: timedelta | None = None, **parts: float) -> None:
        """Lets time pass: every timer on the way fires at its own instant, and what it wakes runs first."""
        end = self._now + span_of(span, parts)
        await self.settle()
        while self._timers and self._timers[0][0] <= end:
            self._now = max(self._now, self._timers[0][0])
            self._fire()
            await self.settle()
        self._now = end

    async def settle(self) -> None:
        """Until every task in this loop waits for time, for other threads or for nothing."""
        async with self._settling:
            await self._settle()

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        quiet, began = 0, loop.time()
        while quiet < 3:
            await asyncio.sleep(0)
            if self._outside.keys() - self._hopeless:
                await asyncio.sleep(0.0005)
                quiet = 0
                self._give_up(loop.time() - began)
            else:
                # asyncio's own list of what is ready to run: empty, if only we are.
                quiet = 0 if getattr(loop, "_ready", ()) else quiet + 1

    def _give_up(self, spent: float) -> None:
        """On all of them: what a store does may wait for a task, which has its lock."""
        if spent > (PATIENCE if any(self._outside.values()) else TRUST):
            self._hopeless |= self._outside.keys()

    async def _jump(self) -> None:
        while self._timers:
            await self.settle()
            if self._timers and not self._outside:
                self._now = max(self._now, self._timers[0][0])
                self._fire()

    def _fire(self) -> None:
        _, _, timer = heappop(self._timers)
        if timer.act is not None:
            timer.act()


def _later(seconds: float) -> timedelta:
    """Whole microseconds, at least one for any wait at all: who waits for a moment must not wait for ever."""
    return timedelta(microseconds=max(1, round(seconds * 1_000_000))) if seconds > 0 else timedelta(0)


def span_of(span: timedelta | None, parts: dict[str, float]) -> timedelta:
    total = (span or timedelta(0)) + timedelta(**parts)
    if total < timedelta(0):
        raise BadInput(f"time passes forward only, got {total}")
    return total
