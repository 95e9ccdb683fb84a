"""Calculations that may take long: in threads of their own, few at once, each with a deadline."""

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
# Previews compute future ticks; records are checked, compared and rendered. Each kind has its own threads, so that
# previews, which every reader may request, do not keep jobs from being enqueued.
ComputationKind = Literal["previews", "records"]
# Calculations of one kind that run at once: more would take the processor from other requests.
MAX_CONCURRENT = 2
# Time from the request of a calculation to its end, including the wait for others.
DEADLINE_SECONDS = 5.0


class Busy(MainspringError):
    """The calculation was not started, because others took too long: the same call may succeed later."""


class Computation:
    """One calculation. It checks its deadline itself, since a thread cannot be stopped from outside."""

    def __init__(
        self, clock: Clock, what: str, seconds: float = DEADLINE_SECONDS, *, kind: ComputationKind = "records"
    ) -> None:
        self._clock = clock
        self._what, self._seconds, self._kind = what, seconds, kind
        self._ends_at = clock.monotonic() + seconds

    def check(self) -> None:
        """Raises BadInput if the calculation has taken too long."""
        if self._clock.monotonic() > self._ends_at:
            raise BadInput(
                f"{self._what} took more than {self._seconds:g} s and was given up: ask for less, or for a simpler rule"
            )

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """Yields the values, and checks the deadline before each."""
        for value in values:
            self.check()
            yield value

    async def run(self, calculate: Callable[[], T]) -> T:
        """Returns what `calculate` returns, which must not touch data that other threads change.

        On a virtual clock it is called directly, so that tests are deterministic.
        """

        def work() -> T:
            if self._clock.monotonic() > self._ends_at:
                raise Busy(f"{self._what} waited {self._seconds:g} s for others and was not started: try again")
            try:
                return calculate()
            except OverflowError:
                raise BadInput(f"{self._what} goes beyond the year 9999: give earlier instants") from None

        if not self._clock.real:
            return work()
        with self._clock.outside():
            return await asyncio.get_running_loop().run_in_executor(_threads(self._kind), copy_context().run, work)


@cache
def _threads(kind: ComputationKind) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix=f"mainspring-{kind}")
