"""The steps of a bulk change: each has as many jobs as the store changes in a short time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection

from msgspec.structs import replace

from ..clock import Clock
from ..ids import JobId
from ..records.query import Changed, Filter

BulkStep = Callable[[Filter, JobId | None, int], Awaitable[Changed]]
"""One step: changes the jobs of a filter beyond an id, up to a number."""

FIRST_STEP_JOBS = 50
MIN_STEP_JOBS = 10
MAX_STEP_JOBS = 1000
# Target duration of a step, during which a store may keep other writers waiting.
STEP_SECONDS = 0.05


class BulkSteps:
    """Adapts the size to the duration of the last step. The first one is small, since jobs may be large."""

    def __init__(self, clock: Clock, max_jobs: int) -> None:
        self._clock, self._max_jobs = clock, max_jobs
        self._began = 0.0
        self._jobs = FIRST_STEP_JOBS

    def begin(self, left: int) -> int:
        """Returns the number of jobs of the next step."""
        self._began = self._clock.monotonic()
        return min(self._jobs, self._max_jobs, left)

    def end(self) -> None:
        took = self._clock.monotonic() - self._began
        if took < STEP_SECONDS / 2:
            self._jobs = min(2 * self._jobs, self._max_jobs)
        elif took > STEP_SECONDS:
            self._jobs = max(self._jobs // 2, MIN_STEP_JOBS)


def split_ids(ids: Collection[JobId], act: BulkStep) -> BulkStep:
    """The same step for a filter with these ids, passing only the step's own ids to the store."""
    ordered = sorted(set(ids))

    async def step(which: Filter, after: JobId | None, limit: int) -> Changed:
        start = 0 if after is None else bisect_right(ordered, after)
        some, more = ordered[start : start + limit], start + limit < len(ordered)
        changed = await act(replace(which, ids=tuple(some)), None, max(1, len(some)))
        return replace(changed, next=some[-1] if more else None)

    return step
