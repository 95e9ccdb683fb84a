"""A clock that tests own: time stands still until it is moved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ..clock import SystemClock
from ..errors import BadInput
from ..span import Span, seconds
from ..suggest import did_you_mean
from ..task.context import Context, running

START = datetime(2030, 1, 1, tzinfo=UTC)
# How long, in real seconds, a step waits for a task in another thread before time goes on without it; and for one call
# that needs no time to pass, such as one of a store on a busy machine.
PATIENCE, TRUST = 0.5, 10.0
# Between two looks whether either is over.
LOOK_SECONDS = 0.005
_real = SystemClock()


class _Timer:
    """Something to do at an instant, in the event loop that asked for it; by which run, if one did."""

    __slots__ = ("_ended", "act", "loop", "run", "task")

    def __init__(self, act: Callable[[], object], ended: Callable[[_Timer, Context], object]) -> None:
        """`ended` is called once, when a run's timer has fired or was cancelled."""
        self.act: Callable[[], object] | None = act
        self.loop = _running_loop()
        self.run = running.get()
        self.task = _current_task() if self.run is not None else None
        self._ended = ended

    def cancel(self) -> None:
        if self.act is not None and self.run is not None:
            self._ended(self, self.run)
        self.act = None

    def fire(self) -> None:
        act = self.act
        self.cancel()
        if act is None or (self.loop is not None and self.loop.is_closed()):
            return
        if self.loop is None or self.loop is _running_loop():
            act()
        else:
            self.loop.call_soon_threadsafe(act)


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
        self._lock = threading.RLock()
        self._waits: dict[Context, set[_Timer]] = {}
        self._listeners: list[Callable[[Context, bool], object]] = []
        self._elapsing = 0
        self._outside: dict[object, _Outside] = {}
        self._hopeless: set[object] = set()
        self._settling = asyncio.Lock()
        self._settler: asyncio.Future[None] | None = None
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
        timer = _Timer(act, self._waits_no_more)
        with self._lock:
            self._count += 1
            heappush(self._timers, (self._now + _later(seconds), self._count, timer))
        if timer.run is not None:
            self._waits_now(timer, timer.run)
        if self._autojump and (self._jumper is None or self._jumper.done()):
            self._jumper = asyncio.get_running_loop().create_task(self._jump())
        return timer

    def _waits_now(self, timer: _Timer, run: Context) -> None:
        with self._lock:
            first = run not in self._waits
            self._waits.setdefault(run, set()).add(timer)
        if first:
            self._tell(run, True)
        self._rouse()

    def _waits_no_more(self, timer: _Timer, run: Context) -> None:
        with self._lock:
            timers = self._waits[run]
            timers.discard(timer)
            if timers:
                return
            del self._waits[run]
        self._tell(run, False)

    def _tell(self, run: Context, waits: bool) -> None:
        for listener in tuple(self._listeners):
            listener(run, waits)

    @contextmanager
    def _working(self, task: bool) -> Iterator[None]:
        token = object()
        self._outside[token] = _Outside(task, running.get(), _current_task(), _real.monotonic())
        try:
            yield
        finally:
            del self._outside[token]
            self._hopeless.discard(token)
            self._rouse()

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return self._working(task)

    # what tests use

    def advance(self, span: Span | None = None, **parts: float) -> None:
        """Moves time at once: advance(minutes=5). What was due on the way is due now."""
        self.set(self._now + span_of(span, parts))

    def set(self, instant: datetime) -> None:
        """Moves time to an instant, not back."""
        if instant < self._now:
            raise BadInput(f"a clock does not go back: it is {self._now}, not {instant}")
        self._now = instant
        while self._timers and self._timers[0][0] <= instant:
            self._fire()

    async def elapse(self, span: Span | None = None, **parts: float) -> None:
        """Lets time pass: every timer on the way fires at its own instant, and what it wakes runs first."""
        end = self._now + span_of(span, parts)
        self._elapsing += 1
        try:
            await self.settle()
            while self._timers and self._timers[0][0] <= end:
                self._now = max(self._now, self._timers[0][0])
                self._fire()
                await self.settle()
        finally:
            self._elapsing -= 1
        self._now = end

    async def settle(self) -> None:
        """Until every task in this loop waits for time, for other threads or for nothing."""
        async with self._settling:
            await self._settle()

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0)
            if self._working_outside():
                await self._roused()
                quiet = 0
                self._give_up()
            else:
                # asyncio's own list of what is ready to run: empty, if only we are.
                quiet = 0 if getattr(loop, "_ready", ()) else quiet + 1

    async def _roused(self) -> None:
        """Until other threads may have done their work, or it is time to look whether one takes too long."""
        loop = asyncio.get_running_loop()
        settler = self._settler = loop.create_future()
        timer = loop.call_later(LOOK_SECONDS, _end, settler)
        try:
            await settler
        finally:
            timer.cancel()
            self._settler = None

    def _rouse(self) -> None:
        """From whatever thread."""
        if (settler := self._settler) is None:
            return
        loop = settler.get_loop()
        if loop is _running_loop():
            _end(settler)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_end, settler)

    def _working_outside(self) -> bool:
        """Whether another thread works, and neither waits for time nor was given up."""
        if not self._outside:
            return False
        with self._lock:
            return any(
                token not in self._hopeless and not any(timer.task is not work.task for timer in self._timers_of(work))
                for token, work in self._outside.items()
            )

    def _timers_of(self, work: _Outside) -> Collection[_Timer]:
        return () if work.run is None else self._waits.get(work.run, ())

    def _give_up(self) -> None:
        """On each that takes too long by itself: a step may take many calls of a store, one after the other.

        What a store does may wait for a task, which has its lock.
        """
        limit = PATIENCE if any(work.of_task for work in self._outside.values()) else TRUST
        began = _real.monotonic() - limit
        self._hopeless |= {token for token, work in self._outside.items() if work.began < began}

    async def _jump(self) -> None:
        while self._timers:
            await self.settle()
            if self._timers and not self._outside:
                self._now = max(self._now, self._timers[0][0])
                self._fire()

    def _fire(self) -> None:
        with self._lock:
            _, _, timer = heappop(self._timers)
        timer.fire()

    # what the harness uses

    @property
    def elapsing(self) -> bool:
        """Whether elapse() lets time pass now."""
        return self._elapsing > 0

    @property
    def next_timer(self) -> datetime | None:
        """When the next timer fires."""
        while self._timers and self._timers[0][2].act is None:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def waits(self, run: Context) -> bool:
        """Whether this run of a task waits for time to pass."""
        return run in self._waits

    def wake(self, run: Context) -> None:
        """Ends all that this run waits for, as if its time had come."""
        with self._lock:
            timers = list(self._waits.get(run, ()))
        for timer in timers:
            timer.fire()

    @contextmanager
    def listening(self, listener: Callable[[Context, bool], object]) -> Iterator[None]:
        """Calls `listener`, in whatever thread, with each run that begins (True) or ceases (False) to wait for time."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


class _Outside(NamedTuple):
    """Work in another thread."""

    of_task: bool
    run: Context | None
    task: asyncio.Task[Any] | None
    """What waits for the work. A timer of the same run that another one waits for is the work's own."""
    began: float
    """In real seconds."""


def _end(settler: asyncio.Future[None]) -> None:
    if not settler.done():
        settler.set_result(None)


def _current_task() -> asyncio.Task[Any] | None:
    return None if _running_loop() is None else asyncio.current_task()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _later(seconds: float) -> timedelta:
    """Whole microseconds, at least one for any wait at all: who waits for a moment must not wait for ever."""
    return timedelta(microseconds=max(1, round(seconds * 1_000_000))) if seconds > 0 else timedelta(0)


def span_of(span: Span | None, parts: dict[str, float]) -> timedelta:
    given = timedelta(seconds=seconds(span, "it")) if isinstance(span, int | float | str) else span
    try:
        total = (given or timedelta(0)) + timedelta(**parts)
    except TypeError as bad:
        names = ["weeks", "days", "hours", "minutes", "seconds"]
        raise BadInput(f"{bad}; {next(did_you_mean(part, names) for part in parts)}") from None
    if total < timedelta(0):
        raise BadInput(f"time passes forward only, got {total}")
    return total
