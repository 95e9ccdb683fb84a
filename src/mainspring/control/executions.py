"""app.executions: the runs of a job."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import micros
from ..handle import missing
from ..job import Execution, JobId
from ..stats import Figures, figures
from ..tally import NOT_COUNTED, Sums
from .ground import Ground
from .jobs import checked_id


class Executions:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self, *, job_id: JobId) -> Sequence[Execution]:
        """The runs of a job that have ended, first to last."""
        return await (await self._ground.opened()).executions(checked_id(job_id))

    async def get(self, job_id: JobId, number: int) -> Execution:
        """One of them, by its number."""
        for execution in await self.list(job_id=job_id):
            if execution.number == number:
                return execution
        raise missing(f"{job_id} with a run {number}")

    async def stats(self, job_id: JobId) -> Figures:
        """How the runs of a job have gone so far."""
        sums = Sums()
        for run in await self.list(job_id=job_id):
            if run.ending not in NOT_COUNTED:
                sums.count(run.outcome, [run.duration])
                sums.last = max(sums.last, micros(run.finished_at))
        return figures(sums)
