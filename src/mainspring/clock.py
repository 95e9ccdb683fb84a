"""The only file that reads the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time as the engine sees it: now, and waiting for later."""

    real: bool
    """False: a test owns it; nothing may wait for the machine's own time."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...
    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer: ...
    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        """Held while another thread works for us, so that a virtual clock does not run ahead of it.

        What works there ends by itself; a `task` may wait for time to pass.
        """
        ...


class SystemClock:
    """The machine's own."""

    real = True

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, seconds), act)

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return _NOTHING


class StoreClock:
    """Another clock, corrected to the store's: leases and ticks follow one time, whatever this machine's says."""

    # A round trip is not exact; a difference within this is noise.
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
        return self._clock.now() + self.skew if self.skew else self._clock.now()

    async def learn(self, time: Callable[[], Awaitable[datetime]]) -> None:
        """Compares with the store's time, taken to be that of the middle of the call."""
        before = self._clock.now()
        theirs = await time()
        after = self._clock.now()
        skew = theirs - (before + (after - before) / 2)
        # A long call says little: the store may have looked at its clock at either end of it. Nor does one
        # during which our own clock was set, be it back.
        if abs(skew - self.skew) > self.TOLERANCE + abs(after - before) / 2:
            self.skew = skew if abs(skew) > self.TOLERANCE else timedelta(0)


_NOTHING: AbstractContextManager[None] = nullcontext()


def micros(at: datetime) -> int:
    """Whole microseconds since 1970, as stores keep instants."""
    delta = at - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def instant(us: int) -> datetime:
    """The way back from micros()."""
    if abs(us) < 2**33 * 10**6:  # a float is exact to the microsecond until the year 2242, and twice as fast
        return datetime.fromtimestamp(us / 1_000_000, UTC)
    return EPOCH + timedelta(microseconds=us)


def nearest_instant(us: int) -> datetime:
    """The same; the first or the last of the calendar for one beyond it, which an index may have of a broken record."""
    try:
        return instant(us)
    except (OverflowError, ValueError, OSError):
        return (datetime.min if us < 0 else datetime.max).replace(tzinfo=UTC)


def is_instant(value: object) -> bool:
    """Whether it is a datetime with its time zone, and within the calendar in UTC too, as stores keep it."""
    try:
        return isinstance(value, datetime) and value.tzinfo is not None and bool(value.astimezone(UTC))
    except OverflowError:
        return False


class Alarm:
    """An event that can also be set by time: wait until rung, or until `seconds` have passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, seconds: float | None) -> None:
        """Returns at once if it was rung since the last wait."""
        timer = None if seconds is None else self._clock.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            self._event.clear()
            if timer is not None:
                timer.cancel()
