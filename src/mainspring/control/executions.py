"""app.executions: the runs of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..clock import micros
from ..errors import BadInput
from ..ids import JobId
from ..insight.stats import Figures, figures
from ..records.run import Execution
from ..records.tally import NOT_COUNTED, RunSums
from ..task.handle import job_not_found
from .checks import MAX_COUNT, checked_id, checked_limit

if TYPE_CHECKING:
    from ..engine import Engine

# Runs read per store call; the event loop serves others in between.
PAGE_RUNS = 200


class Executions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, *, job_id: JobId, after: int = 0, limit: int | None = None) -> Sequence[Execution]:
        """The ended runs of a job, first to last, with numbers above `after`, at most `limit` of them."""
        _check_number(after)
        if limit is not None:
            checked_limit(limit, MAX_COUNT)
        return await (await self._engine.connect()).executions(checked_id(job_id), after=after, limit=limit)

    async def get(self, job_id: JobId, number: int) -> Execution:
        """One run of a job, by its number."""
        if 0 < number <= MAX_COUNT:
            for execution in await self.list(job_id=job_id, after=number - 1, limit=1):
                if execution.number == number:
                    return execution
        raise job_not_found(f"{job_id} with a run {number}")

    async def stats(self, job_id: JobId) -> Figures:
        """Statistics of a job's runs so far."""
        sums, after = RunSums(), 0
        while runs := await self.list(job_id=job_id, after=after, limit=PAGE_RUNS):
            for run in runs:
                if run.ending not in NOT_COUNTED:
                    sums.count(run.outcome, [run.duration])
                    sums.last = max(sums.last, micros(run.finished_at))
            after = runs[-1].number
            if len(runs) < PAGE_RUNS:
                break
        return figures(sums)


def _check_number(after: object) -> None:
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= MAX_COUNT:
        raise BadInput(f"after= takes the number of a run, from 0 to {MAX_COUNT}; got {after!r:.80}")
