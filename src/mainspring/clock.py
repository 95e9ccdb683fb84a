"""Clocks: the system's, and one that is corrected to the store's. No other file reads the time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time for the engine: reading it, and waiting for it to pass."""

    real: bool
    """False if a test controls the clock: nothing may wait for the machine's own time then."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...
    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer: ...
    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        """A context for work in another thread: a virtual clock does not advance until it ends.

        Such work must end by itself. A `task` may wait for time to pass, so the clock may advance for it.
        """
        ...


class SystemClock:
    """The machine's own clock."""

    real = True

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(max(0.0, seconds), act)

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return _NOTHING


class StoreClock:
    """A clock that is corrected to the store's: leases and ticks follow one time, whatever the machine's clock says."""

    # The measurement takes a round trip, so a smaller difference is noise.
    TOLERANCE = timedelta(milliseconds=100)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.real = clock.real
        self.skew = timedelta(0)
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self.call_later = clock.call_later
        self.outside = clock.outside

    def now(self) -> datetime:
        now = self._clock.now()
        return now + self.skew if self.skew else now

    async def learn(self, time: Callable[[], Awaitable[datetime]]) -> None:
        """Measures the skew: the store's time is compared with ours at the middle of the call."""
        before = self._clock.now()
        store_time = await time()
        after = self._clock.now()
        skew = store_time - (before + (after - before) / 2)
        # A long call measures little, since the store may have read its clock at either end of it. So does a call
        # during which our own clock was set, even if it was set back.
        if abs(skew - self.skew) > self.TOLERANCE + abs(after - before) / 2:
            self.skew = skew if abs(skew) > self.TOLERANCE else timedelta(0)


_NOTHING: AbstractContextManager[None] = nullcontext()


def micros(at: datetime) -> int:
    """Microseconds since 1970, as stores keep instants."""
    delta = at - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def instant(us: int) -> datetime:
    """The instant of microseconds since 1970: the inverse of micros()."""
    if abs(us) < 2**33 * 10**6:  # a float is exact to the microsecond until the year 2242, and twice as fast
        return datetime.fromtimestamp(us / 1_000_000, UTC)
    return EPOCH + timedelta(microseconds=us)


def nearest_instant(us: int) -> datetime:
    """As instant(), but the first or last instant of the calendar if it is beyond: an index may have a broken value."""
    try:
        return instant(us)
    except (OverflowError, ValueError, OSError):
        return (datetime.min if us < 0 else datetime.max).replace(tzinfo=UTC)


def is_instant(value: object) -> bool:
    """Whether the value is a datetime with a time zone that is within the calendar in UTC too, as stores keep it."""
    try:
        return isinstance(value, datetime) and value.tzinfo is not None and bool(value.astimezone(UTC))
    except OverflowError:
        return False


class Alarm:
    """An event with a timeout on the clock: wait() returns when it rings, or after some seconds."""

    def __init__(self, clock: Clock) -> None:
        import asyncio

        self._clock = clock
        self._event = asyncio.Event()

    @property
    def rung(self) -> bool:
        """Whether it has rung since the last wait."""
        return self._event.is_set()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, seconds: float | None) -> None:
        """Waits for ring(), at most `seconds`. Returns at once if it has rung since the last wait."""
        timer = None if seconds is None else self._clock.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            self._event.clear()
            if timer is not None:
                timer.cancel()
