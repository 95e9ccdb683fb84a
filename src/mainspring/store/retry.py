"""The retry of store calls: a temporary failure is waited out, every other error is raised."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from ..clock import Clock
from ..errors import StoreUnavailable
from ..events import Bus, StoreTrouble
from ..retry import Backoff

T = TypeVar("T")
_BACKOFF = Backoff(initial=0.1, max=2.0, jitter=0.5)


class StoreRetry:
    """Repeats a call of the store while it raises StoreUnavailable."""

    def __init__(self, clock: Clock, bus: Bus, name: str) -> None:
        """`name` seeds the jitter of the delays, so that many processes do not retry together."""
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
                trouble = store_trouble(error, failures, doing=doing, at=self._clock.now(), seed=f"{self._name}{doing}")
                self._bus.emit(trouble)
                await self._clock.sleep(trouble.again)


class StoreOnce(StoreRetry):
    """Makes each call once: the caller decides about every error."""

    async def __call__(self, doing: str, act: Callable[[], Awaitable[T]]) -> T:
        return await act()


def store_trouble(
    error: StoreUnavailable, failures: int, *, doing: str, at: datetime, seed: str = "", most: float = math.inf
) -> StoreTrouble:
    """The event of the n-th failure in a row. Its `again` is the delay before the next try, in seconds."""
    return StoreTrouble(at=at, doing=doing, error=str(error), again=min(_BACKOFF.delay(failures, seed), most))
