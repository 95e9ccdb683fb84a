"""The rule of carrying on: a worker that ends runs gets the jobs which these have made due in flows, without a claim.

It gets no job that a claim would not give it. What a claim takes first (probes and suspects) is left to claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...bounds import CLAIM_BYTES
from ...ids import JobId
from ...records.job import Job, State
from ...records.worker import CarryOn
from .claim import GroupFilter, claim_order, new_lease, start_job
from .conflict import size_of
from .tables import JobTables


def request_filter(request: CarryOn, paused: Collection[str], open_tasks: Collection[str]) -> GroupFilter:
    """Whether a claim of the worker takes jobs of that queue and task in order. `open_tasks` have an open circuit."""
    tasks = frozenset(request.tasks)
    queues = None if request.queues is None else frozenset(request.queues)

    def serves(queue: str, task: str) -> bool:
        wanted = task in tasks and (queues is None or queue in queues)
        return wanted and queue not in paused and task not in open_tasks

    return serves


def carry_on(
    tables: JobTables, ids: Iterable[JobId], request: CarryOn, serves: GroupFilter, first: int | None
) -> list[Job]:
    """Starts these jobs, which have become due, in claim order.

    `first` is the highest priority among the other due jobs that a claim would take in order; None if there are none.
    """
    found = sorted((job for id in ids if (job := tables.job(id)) is not None), key=claim_order)
    started: list[Job] = []
    lease, left = new_lease(), CLAIM_BYTES
    for job in found:
        if len(started) >= request.limit or left <= 0 or (first is not None and job.priority < first):
            break
        if _is_due(job, request) and serves(job.queue, job.task):
            left -= size_of(job)
            started.append(start_job(tables, job, request.worker, lease, request.now))
    return started


def _is_due(job: Job, request: CarryOn) -> bool:
    if job.state is not State.PENDING or job.crashes or job.run_at > request.now or job.limit_key is not None:
        return False
    return job.expires_at is None or job.expires_at > request.now
