"""How the memory store claims jobs for a worker.

A claim takes, up to its limits of jobs and bytes: first one probe for each half-open circuit, then one suspect (a job
that crashed its workers) if the worker runs none, then due jobs in order of priority, run_at and id. All of them become
running under one new lease, which fences their outcomes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import datetime
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...ids import JobId, Lease, WorkerId
from ...records.circuit import Circuit
from ...records.job import POISON_SUSPECT_CRASHES, Job, State
from ..rules import size_of
from .jobs import Group, JobTable
from .ledger import RunLedger

GroupFilter = Callable[[str, str], bool]
"""Whether the worker serves that queue and task."""


def claim(
    jobs: JobTable,
    ledger: RunLedger,
    paused: Collection[str],
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: datetime,
) -> tuple[list[Job], datetime | None]:
    """The claimed jobs in order, and when to claim again (None: when something changes)."""

    def serves(queue: str, task: str) -> bool:
        return task in tasks and (queues is None or queue in queues) and queue not in paused

    wanted = [group for group in jobs.ready if serves(group[0], group[1])]
    suspects = _suspects(jobs, worker, serves)
    lease = os.urandom(8).hex()
    circuits = [circuit for circuit in ledger.circuits.values() if circuit.open_until is not None]
    probes = _probes(jobs, ledger, circuits, wanted, suspects, limit, now)
    taken = [_start(jobs, job, worker, lease, now) for job in probes]
    left = CLAIM_BYTES - sum(map(size_of, taken))
    open = {circuit.task for circuit in circuits}
    first = [job for job in suspects if job.task not in open and job.run_at <= now]
    if len(taken) < limit and left > 0 and first and not any(job.crashes >= POISON_SUSPECT_CRASHES for job in taken):
        taken.append(_start(jobs, first[0], worker, lease, now))
        left -= size_of(first[0])
    free = [group for group in wanted if group[1] not in open]
    rest, left = _take_in_order(jobs, free, worker, lease, limit - len(taken), left, now)
    taken = sorted([*taken, *rest], key=_claim_order)
    if len(taken) == limit or left <= 0:
        return taken, now
    return taken, _next_at(jobs, ledger, wanted, _suspects(jobs, worker, serves))


def _suspects(jobs: JobTable, worker: WorkerId, serves: GroupFilter) -> list[Job]:
    """The suspects that this worker may claim, in order; none while it runs one."""
    if any(jobs[id].crashes >= POISON_SUSPECT_CRASHES for id in jobs.running.get(worker, ())):
        return []
    found = [job for job in (jobs[id] for id in jobs.suspects) if serves(job.queue, job.task)]
    return sorted(found, key=_claim_order)


def _probes(
    jobs: JobTable,
    ledger: RunLedger,
    circuits: list[Circuit],
    wanted: list[Group],
    suspects: list[Job],
    limit: int,
    now: datetime,
) -> list[Job]:
    """The first due job of each task whose circuit is half open; it becomes the circuit's probe."""
    probes: list[Job] = []
    for circuit in sorted(circuits, key=lambda circuit: circuit.task):
        if circuit.probe is not None or circuit.open_until is None or circuit.open_until > now:
            continue
        heads = (head for group in wanted if group[1] == circuit.task and (head := jobs.head(group)))
        waiting = [jobs[id] for _, id in heads]
        if not any(job.crashes >= POISON_SUSPECT_CRASHES for job in probes):
            waiting += [job for job in suspects if job.task == circuit.task]
        due = [job for job in waiting if job.run_at <= now]
        if due and len(probes) < limit and sum(map(size_of, probes)) < CLAIM_BYTES:
            probes.append(min(due, key=_claim_order))
            ledger.probe(probes[-1])
    return probes


def _take_in_order(
    jobs: JobTable, wanted: list[Group], worker: WorkerId, lease: Lease, limit: int, left: int, now: datetime
) -> tuple[list[Job], int]:
    """The due jobs in claim order, and the bytes that are left of the claim's budget."""
    heads = [(-group[2], *head, group) for group in wanted if (head := jobs.head(group)) and head[0] <= now]
    heapify(heads)
    taken: list[Job] = []
    while heads and len(taken) < limit and left > 0:
        _, _, id, group = heappop(heads)
        heappop(jobs.ready[group])
        left -= size_of(jobs[id])
        taken.append(_start(jobs, jobs[id], worker, lease, now))
        if (head := jobs.head(group)) and head[0] <= now:
            heappush(heads, (-group[2], *head, group))
    return taken, left


def _start(jobs: JobTable, job: Job, worker: WorkerId, lease: Lease, now: datetime) -> Job:
    job = replace(
        job,
        state=State.RUNNING,
        worker=worker,
        lease=lease,
        started_at=now,
        attempt=job.attempt + 1,
        runs=job.runs + 1,
    )
    jobs.put(job)
    return job


def _next_at(jobs: JobTable, ledger: RunLedger, wanted: list[Group], suspects: list[Job]) -> datetime | None:
    due = [(group[1], head[0]) for group in wanted if (head := jobs.head(group))]
    due += [(job.task, job.run_at) for job in suspects]
    instants = [_claimable_at(ledger.circuits.get(task), run_at) for task, run_at in due] + [jobs.next_expiry()]
    return min((at for at in instants if at is not None), default=None)


def _claimable_at(circuit: Circuit | None, run_at: datetime) -> datetime | None:
    """When the task's circuit allows a claim of a job due at `run_at`; None while a probe is running."""
    if circuit is None or circuit.open_until is None:
        return run_at
    return None if circuit.probe is not None else max(run_at, circuit.open_until)


def _claim_order(job: Job) -> tuple[int, datetime, JobId]:
    return -job.priority, job.run_at, job.id
