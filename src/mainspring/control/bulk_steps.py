"""How many jobs one step of a bulk change has: as many as the store changes in a short time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection

from msgspec.structs import replace

from ..clock import Clock
from ..ids import JobId
from ..records.query import Changed, Filter

Act = Callable[[Filter, JobId | None, int], Awaitable[Changed]]
"""One step: those of a filter from beyond an id, up to a number."""

# Jobs of the first step, and of one at least and at most.
FIRST_STEP_JOBS, MIN_STEP_JOBS, MAX_STEP_JOBS = 50, 10, 1000
# Seconds that a step shall take: meanwhile a store may keep other writers waiting.
STEP_SECONDS = 0.05


class BulkSteps:
    """The first step is small, since jobs may be large; the next ones follow from how long each took."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock, self._most = clock, most
        self._began = 0.0
        self._jobs = FIRST_STEP_JOBS

    def begin(self, left: int) -> int:
        """The number of jobs of the next step."""
        self._began = self._clock.monotonic()
        return min(self._jobs, self._most, left)

    def end(self) -> None:
        took = self._clock.monotonic() - self._began
        if took < STEP_SECONDS / 2:
            self._jobs = min(2 * self._jobs, self._most)
        elif took > STEP_SECONDS:
            self._jobs = max(self._jobs // 2, MIN_STEP_JOBS)


def in_parts(ids: Collection[JobId], act: Act) -> Act:
    """The same for a filter with these ids, where each step asks the store for its own ids only."""
    ordered = sorted(set(ids))

    async def step(which: Filter, after: JobId | None, limit: int) -> Changed:
        start = 0 if after is None else bisect_right(ordered, after)
        some, more = ordered[start : start + limit], start + limit < len(ordered)
        changed = await act(replace(which, ids=tuple(some)), None, max(1, len(some)))
        return replace(changed, next=some[-1] if more else None)

    return step
