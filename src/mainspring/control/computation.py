"""Calculations that may take long: in threads of their own, a few at once, each up to a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Literal, TypeVar

from ..clock import Clock
from ..errors import BadInput, MainspringError

T = TypeVar("T")
# What is calculated: ticks to come, or records that are checked, compared and shown. Each has threads of its own, so
# that previews, which anyone who may read can ask for, keep no job from being enqueued.
Kind = Literal["previews", "records"]
# Calculations of a kind at once: more would take the processor from those who wait for something else.
MAX_AT_ONCE = 2
# Seconds from the request for a calculation to its end, the wait for others included.
DEADLINE_SECONDS = 5.0


class Busy(MainspringError):
    """Others are calculated, for so long that this one was never begun: the same call may succeed later."""


class Computation:
    """One calculation. It looks at its deadline itself, since a thread cannot be stopped from outside."""

    def __init__(
        self, clock: Clock, what: str, seconds: float = DEADLINE_SECONDS, *, kind: Kind = "records"
    ) -> None:  # fmt: skip
        self._clock = clock
        self._what, self._seconds, self._kind = what, seconds, kind
        self._ends_at = clock.monotonic() + seconds

    def check(self) -> None:
        """Gives the calculation up if it has taken too long."""
        if self._clock.monotonic() > self._ends_at:
            raise BadInput(
                f"{self._what} took more than {self._seconds:g} s and was given up: ask for less, or for a simpler rule"
            )

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """The values, with a look at the deadline before each."""
        for value in values:
            self.check()
            yield value

    async def run(self, calculate: Callable[[], T]) -> T:
        """What it returns; it must not touch what other threads change.

        On a virtual clock it is calculated at once, so that a test runs in one order.
        """

        def work() -> T:
            if self._clock.monotonic() > self._ends_at:
                raise Busy(f"{self._what} waited {self._seconds:g} s for others and was not begun: ask again")
            try:
                return calculate()
            except OverflowError:
                raise BadInput(f"{self._what} goes beyond the last year there is, 9999: say earlier instants") from None

        if not self._clock.real:
            return work()
        with self._clock.outside():
            return await asyncio.get_running_loop().run_in_executor(_threads(self._kind), copy_context().run, work)


@cache
def _threads(kind: Kind) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix=f"mainspring-{kind}")
