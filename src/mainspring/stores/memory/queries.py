"""The memory store's queries, each a walk over the jobs in the requested states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from ...clock import EPOCH
from ...ids import JobId
from ...records.job import UNFINISHED, Job, Shown, State
from ...records.query import Cursor, Filter, Sort
from ...records.queue import DeadGroup, Overview, Queue
from ...records.run import Execution, LogLine, OutputChunk
from ...records.tally import Span, Tally
from ...records.worker import WorkerRow
from ..rules import brief_job, unique_ids
from .handle import MemoryHandle


class MemoryQueries(MemoryHandle):
    """The verbs that read."""

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
        with self._locked():
            found = self._tables.jobs.page(which, now, limit, after, newest, sort)
            return [brief_job(job) for job in found] if brief else found

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        with self._locked():
            runs = self._tables.ledger.executions
            found = (run for id in sorted(unique_ids(job_id)) for run in runs.get(id, ()))
            return [run for run in found if run.number > after][:limit]

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        with self._locked():
            lines = self._tables.ledger.lines.get(job_id, {})
            return [lines[key] for key in sorted(lines) if key > after][:limit]

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        with self._locked():
            chunks = self._tables.ledger.chunks.get(job_id, {})
            numbers = sorted(n for n in chunks if n > after)
            return [chunks[n] for n in (numbers[-limit:] if newest else numbers[:limit])]

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        with self._locked():
            jobs = self._tables.jobs
            tally: dict[str, Counter[Shown]] = {name: Counter() for name in self._paused}
            for job in jobs.in_states(UNFINISHED):
                tally.setdefault(job.queue, Counter())[job.shown(now)] += 1
            states = sum(tally.values(), Counter[Shown]())
            states.update({state.value: len(ids) for state in State if state.final and (ids := jobs.in_state(state))})
            circuits = [circuit for _, circuit in sorted(self._tables.ledger.circuits.items())]
            return Overview(dict(states), _queues(tally, self._paused), circuits)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        with self._locked():
            return self._tables.workers.live(now)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        with self._locked():
            return self._tables.ledger.tallies(span, since)

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        with self._locked():
            groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
            for job in self._tables.jobs.in_states([State.DEAD]):
                if job.failure is not None:
                    groups[job.task, job.failure.kind].append(job)
            found = [_dead_group(task, error, some) for (task, error), some in groups.items()]
            return sorted(found, key=lambda group: (-group.count, group.task, group.error))[:limit]


def _queues(tally: Mapping[str, Counter[Shown]], paused: Collection[str]) -> list[Queue]:
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=count["pending"],
            scheduled=count["scheduled"],
            retrying=count["retrying"],
            running=count["running"],
        )
        for name, count in sorted(tally.items())
    ]


def _dead_group(task: str, error: str, jobs: list[Job]) -> DeadGroup:
    newest = max(jobs, key=lambda job: (job.finished_at or EPOCH, job.id))
    last_at = newest.finished_at or EPOCH
    return DeadGroup(task=task, error=error, count=len(jobs), newest=newest.id, last_at=last_at)
