"""A virtual clock for tests: time stands still until the test moves it."""

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
# Real time that settle() waits for a task in another thread before it goes on without it.
THREAD_WAIT_SECONDS = 0.5
# Real time that settle() waits for one call outside the loop while no task is outside, such as a slow store call.
CALL_WAIT_SECONDS = 10.0
# Real time between two checks whether either wait is over.
POLL_SECONDS = 0.005
_real = SystemClock()


class _Timer:
    """A callback for a virtual instant, called in the event loop that made the timer.

    `run` is the task run that made it, None if it was made outside of a run.
    """

    __slots__ = ("_on_end", "act", "loop", "run", "task")

    def __init__(self, act: Callable[[], object], on_end: Callable[[_Timer, Context], object]) -> None:
        """`on_end` is called once, when a run's timer has fired or was cancelled."""
        self.act: Callable[[], object] | None = act
        self.loop = _running_loop()
        self.run = running.get()
        self.task = _current_task() if self.run is not None else None
        self._on_end = on_end

    def cancel(self) -> None:
        if self.act is not None and self.run is not None:
            self._on_end(self, self.run)
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
    """The clock of an app under test; every loop of the engine waits on it.

    `advance()` jumps, as if the machine had slept. `await elapse()` lets time pass and fires every timer on the way at
    its own instant. With `autojump=True` time passes by itself whenever all tasks wait for it.
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
        self._outside: dict[object, _OutsideWork] = {}
        self._given_up: set[object] = set()
        self._settling = asyncio.Lock()
        self._settler: asyncio.Future[None] | None = None
        self._autojump = autojump
        self._jumper: asyncio.Task[None] | None = None

    # the Clock protocol, used by the engine

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
        timer = _Timer(act, self._end_wait)
        with self._lock:
            self._count += 1
            heappush(self._timers, (self._now + _later(seconds), self._count, timer))
        if timer.run is not None:
            self._begin_wait(timer, timer.run)
        if self._autojump and (self._jumper is None or self._jumper.done()):
            self._jumper = asyncio.get_running_loop().create_task(self._jump())
        return timer

    def _begin_wait(self, timer: _Timer, run: Context) -> None:
        with self._lock:
            first = run not in self._waits
            self._waits.setdefault(run, set()).add(timer)
        if first:
            self._notify(run, True)
        self._wake_settler()

    def _end_wait(self, timer: _Timer, run: Context) -> None:
        with self._lock:
            timers = self._waits[run]
            timers.discard(timer)
            if timers:
                return
            del self._waits[run]
        self._notify(run, False)

    def _notify(self, run: Context, waits: bool) -> None:
        for listener in tuple(self._listeners):
            listener(run, waits)

    @contextmanager
    def _working(self, task: bool) -> Iterator[None]:
        token = object()
        self._outside[token] = _OutsideWork(task, running.get(), _current_task(), _real.monotonic())
        try:
            yield
        finally:
            del self._outside[token]
            self._given_up.discard(token)
            self._wake_settler()

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return self._working(task)

    # used by tests

    def advance(self, span: Span | None = None, **parts: float) -> None:
        """Jumps forward: advance(minutes=5). Timers that came due on the way fire now, late."""
        self.set(self._now + span_of(span, parts))

    def set(self, instant: datetime) -> None:
        """Jumps to an instant. Raises BadInput if it is in the past."""
        if instant < self._now:
            raise BadInput(f"a clock does not go back: it is {self._now}, not {instant}")
        self._now = instant
        while self._timers and self._timers[0][0] <= instant:
            self._fire()

    async def elapse(self, span: Span | None = None, **parts: float) -> None:
        """Lets time pass: each timer on the way fires at its instant, and the tasks it wakes run before the next."""
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
        """Waits until every task in this event loop waits for time or for another thread."""
        async with self._settling:
            await self._settle()

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0)
            if self._working_outside():
                await self._until_woken()
                quiet = 0
                self._give_up()
            else:
                # asyncio's own list of ready callbacks; empty if only this coroutine runs.
                quiet = 0 if getattr(loop, "_ready", ()) else quiet + 1

    async def _until_woken(self) -> None:
        """Waits for a signal from another thread, at most POLL_SECONDS: then the waits are checked for timeouts."""
        loop = asyncio.get_running_loop()
        settler = self._settler = loop.create_future()
        timer = loop.call_later(POLL_SECONDS, _end, settler)
        try:
            await settler
        finally:
            timer.cancel()
            self._settler = None

    def _wake_settler(self) -> None:
        """Wakes settle(); callable from any thread."""
        if (settler := self._settler) is None:
            return
        loop = settler.get_loop()
        if loop is _running_loop():
            _end(settler)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_end, settler)

    def _working_outside(self) -> bool:
        """Whether work outside of the loop is under way that neither waits for virtual time nor was given up."""
        if not self._outside:
            return False
        with self._lock:
            return any(
                token not in self._given_up and not any(timer.task is not work.task for timer in self._timers_of(work))
                for token, work in self._outside.items()
            )

    def _timers_of(self, work: _OutsideWork) -> Collection[_Timer]:
        return () if work.run is None else self._waits.get(work.run, ())

    def _give_up(self) -> None:
        """Stops waiting for work that takes too long. Each call has its own limit: one step may make many store calls.

        The short limit holds for store calls too while a task is outside: a call may wait for a lock of the task.
        """
        limit = THREAD_WAIT_SECONDS if any(work.of_task for work in self._outside.values()) else CALL_WAIT_SECONDS
        began = _real.monotonic() - limit
        self._given_up |= {token for token, work in self._outside.items() if work.began < began}

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

    # used by the harness

    @property
    def elapsing(self) -> bool:
        """Whether an elapse() call is under way."""
        return self._elapsing > 0

    @property
    def next_timer(self) -> datetime | None:
        """The instant of the next timer, None if there is none."""
        while self._timers and self._timers[0][2].act is None:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def waits(self, run: Context) -> bool:
        """Whether this task run waits for virtual time."""
        return run in self._waits

    def wake(self, run: Context) -> None:
        """Fires all timers of this run now."""
        with self._lock:
            timers = list(self._waits.get(run, ()))
        for timer in timers:
            timer.fire()

    @contextmanager
    def listening(self, listener: Callable[[Context, bool], object]) -> Iterator[None]:
        """Calls `listener(run, waits)`, from any thread, when a run begins (True) or stops (False) waiting for time."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


class _OutsideWork(NamedTuple):
    """Work in another thread, or another process, that settle() waits for."""

    of_task: bool
    run: Context | None
    task: asyncio.Task[Any] | None
    """The asyncio task that waits for the work. A timer of the same run in another task was made by the work itself."""
    began: float
    """Real seconds."""


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
    """Whole microseconds, at least one for a positive wait: rounded to zero, a short sleep would never advance time."""
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
