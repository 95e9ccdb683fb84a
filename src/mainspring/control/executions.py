"""app.executions: the runs of a job."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import micros
from ..errors import BadInput
from ..ids import JobId
from ..insight.stats import Figures, figures
from ..records.run import Execution
from ..records.tally import NOT_COUNTED, RunSums
from ..task.handle import job_not_found
from .ground import Ground
from .jobs import MOST, checked_id, checked_limit

# Runs of one job that are read together: others have their turn in between.
RUNS_AT_ONCE = 200


class Executions:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self, *, job_id: JobId, after: int = 0, limit: int | None = None) -> Sequence[Execution]:
        """The runs of a job that have ended, first to last: from beyond the number `after`, and at most `limit`."""
        _check_number(after)
        if limit is not None:
            checked_limit(limit, MOST)
        return await (await self._ground.opened()).executions(checked_id(job_id), after=after, limit=limit)

    async def get(self, job_id: JobId, number: int) -> Execution:
        """One of them, by its number."""
        if 0 < number <= MOST:
            for execution in await self.list(job_id=job_id, after=number - 1, limit=1):
                if execution.number == number:
                    return execution
        raise job_not_found(f"{job_id} with a run {number}")

    async def stats(self, job_id: JobId) -> Figures:
        """How the runs of a job have gone so far."""
        sums, after = RunSums(), 0
        while runs := await self.list(job_id=job_id, after=after, limit=RUNS_AT_ONCE):
            for run in runs:
                if run.ending not in NOT_COUNTED:
                    sums.count(run.outcome, [run.duration])
                    sums.last = max(sums.last, micros(run.finished_at))
            after = runs[-1].number
            if len(runs) < RUNS_AT_ONCE:
                break
        return figures(sums)


def _check_number(after: object) -> None:
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= MOST:
        raise BadInput(f"after= takes the number of a run, from 0 to {MOST}; got {after!r:.80}")
