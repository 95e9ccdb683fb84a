"""Reading jobs, runs, queues, workers and statistics from the store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ..ids import JobId
from ..records.job import Job
from ..records.query import Cursor, Filter, Sort
from ..records.queue import DeadGroup, Overview
from ..records.run import Execution, LogLine, OutputChunk
from ..records.tally import Span, Tally
from ..records.worker import WorkerRow


class QueryStore(Protocol):
    """Reading jobs, runs, queues, workers and statistics."""

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        """J1. Matching jobs after `after`, oldest first or `newest` first.

        J2. A job matches if it matches every field of the filter that is set: one of its values, or all of its tags. An
            empty field, other than tags, matches no job.
        J3. The states of a filter are shown states at `now`.

        J4. Sort orders: "created" is by id; "due" has pending jobs only, by run_at and id; "finished" has final jobs
            only, by finished_at and id.

        J5. With `brief`, a payload, a result and the options together are left out if they are longer than
            job.BRIEF_CHARACTERS: a payload or result is then an empty text; of the options only tags, schedule and tick
            remain, and metadata is job.LEFT_OUT. So a page is small however large its jobs are, and a store loads at
            most one of them whole at a time.
        """
        ...

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        """X1. The finished runs of the job, or of these jobs, by id and number: at most `limit`, numbered above
        `after`.

        X2. A run has its number among all runs of the job, its attempt, worker, lease, times, ending, failure and
            notes, and the size of its result in bytes of UTF-8.
        """
        ...

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        """LG1. The job's log lines in order of run and n, after the run and n in `after`."""
        ...

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        """OC1. The chunks of the job's output in order of n, beyond `after`: the first `limit` of them, or the last
        ones if `newest`.
        """
        ...

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        """Jobs by shown state, queues, and circuits.

        OV1. States without jobs are left out.
        OV2. Queues are those that have unfinished jobs or are paused, in order of name.
        OV3. Counts are exact up to some ten thousand jobs; a store with more jobs may estimate large counts.
        OV4. Circuits are those of tasks with a breaker that have failed since their last success, by task.
        OV5. A job is counted in the state that is shown at `now`, also in its queue.
        OV6. Without `finished`, finished jobs may be left out of the states, for a store in which they cost much.
        """
        ...

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        """WR1. The workers whose lease has not lapsed, by id."""
        ...

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        """TA1. The tallies of spans that began at `since` or later, by start, queue and task.

        TA2. Runs are counted by run.outcome_of(), except snoozed and released ones; items of these are counted too.
        TA3. `tally.RETENTION` has the minimum time that the tallies of each span are kept.
        TA4. A tally has the sums of tally.RunSums: durations, waits, items, failures by kind with the latest message,
            retried and dead jobs, and the last run.
        """
        ...

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        """DG1. Dead jobs grouped by task and Failure.kind, largest group first, then by task and kind.

        DG2. `newest` is the job of the group that finished last. A dead job without a failure is in no group. Large
            counts may be estimates, as in `overview`.
        """
        ...
