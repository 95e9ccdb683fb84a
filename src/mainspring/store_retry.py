"""Store calls that are repeated: passing trouble is waited out, everything else is raised."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from .clock import Clock
from .errors import StoreUnavailable
from .events import Bus, StoreTrouble
from .retry import Backoff

T = TypeVar("T")
_BACKOFF = Backoff(initial=0.1, max=2.0, jitter=0.5)


class StoreRetry:
    """The one place that repeats store calls."""

    def __init__(self, clock: Clock, bus: Bus, name: str) -> None:
        """`name` spreads the waits, so that many who were failed together do not return together."""
        self._clock = clock
        self._bus = bus
        self._name = name

    async def __call__(self, doing: str, act: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                failures += 1
                told = store_trouble(error, failures, doing=doing, at=self._clock.now(), seed=f"{self._name}{doing}")
                self._bus.emit(told)
                await self._clock.sleep(told.again)


def store_trouble(
    error: StoreUnavailable, failures: int, *, doing: str, at: datetime, seed: str = "", most: float = math.inf
) -> StoreTrouble:
    """What to tell of so many failures in a row, and how long to wait before trying again."""
    return StoreTrouble(at=at, doing=doing, error=str(error), again=min(_BACKOFF.delay(failures, seed), most))
