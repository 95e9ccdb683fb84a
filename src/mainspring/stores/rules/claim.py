"""The rule of claim: which due jobs a worker gets.

A claim takes, up to its limits of jobs and bytes: first one probe for each half-open circuit, then one suspect (a job
that crashed its workers) if the worker runs none, then due jobs in order of priority, run_at and id. All of them become
running under one new lease, which fences their outcomes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Protocol

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...ids import JobId, Lease, WorkerId
from ...records.circuit import Circuit
from ...records.job import POISON_SUSPECT_CRASHES, Job, State
from .claim_index import ClaimIndex, Group
from .conflict import size_of
from .job_ends import write_job
from .limit_gates import LimitGates, LimitRows
from .tables import JobTables

GroupFilter = Callable[[str, str], bool]
"""Whether the worker serves that queue and task."""


class ClaimTables(JobTables, Protocol):
    """Everything that a claim reads and writes."""

    index: ClaimIndex

    @property
    def limits(self) -> LimitRows: ...

    def circuits(self) -> Iterable[Circuit]:
        """The circuits of all tasks."""
        ...

    def circuit(self, task: str) -> Circuit | None: ...

    def put_circuit(self, task: str, circuit: Circuit | None) -> None: ...


def expire_due(tables: ClaimTables, now: datetime) -> list[JobId]:
    """Ends the pending jobs whose expires_at has passed, and returns their ids."""
    expired: list[JobId] = []
    while (job := tables.index.pop_expired(now)) is not None:
        write_job(tables, job, replace(job, state=State.EXPIRED, finished_at=now))
        expired.append(job.id)
    return sorted(expired)


def claim(
    tables: ClaimTables,
    paused: Collection[str],
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: datetime,
) -> tuple[list[Job], datetime | None]:
    """The claimed jobs in order, and when to claim again (None: when something changes)."""
    # The names of tasks are a list here, and a worker may serve thousands.
    served, wanted_queues = frozenset(tasks), None if queues is None else frozenset(queues)

    def serves(queue: str, task: str) -> bool:
        return task in served and (wanted_queues is None or queue in wanted_queues) and queue not in paused

    wanted = [group for group in tables.index.groups() if serves(group[0], group[1])]
    suspects = _suspects(tables, worker, serves)
    gates = LimitGates(tables.limits, tables.index.limited, now)
    lease = new_lease()
    circuits = [circuit for circuit in tables.circuits() if circuit.open_until is not None]
    probes = _probes(tables, circuits, wanted, suspects, gates, limit)
    taken = [start_job(tables, job, worker, lease, now) for job in probes] if probes else []
    left = CLAIM_BYTES - sum(map(size_of, taken))
    open = {circuit.task for circuit in circuits}
    first: list[Job] = []
    if suspects:
        first = [job for job in suspects if job.task not in open and gates.is_open(job.limit_key, job.run_at)]
    if len(taken) < limit and left > 0 and first and not any(job.crashes >= POISON_SUSPECT_CRASHES for job in taken):
        gates.note_start(first[0])
        taken.append(start_job(tables, first[0], worker, lease, now))
        left -= size_of(first[0])
    free = [group for group in wanted if group[1] not in open] if open else wanted
    if tables.index.has_limited:
        in_order = _jobs_by_turns(tables, free, gates)
        while len(taken) < limit and left > 0 and (job := next(in_order, None)) is not None:
            left -= size_of(job)
            taken.append(start_job(tables, job, worker, lease, now))
    else:
        rest, left = _take_in_order(tables, free, worker, lease, limit - len(taken), left, now)
        taken += rest
    taken.sort(key=claim_order)
    if len(taken) == limit or left <= 0:
        return taken, now
    return taken, _next_at(tables, wanted, _suspects(tables, worker, serves), gates)


def _suspects(tables: ClaimTables, worker: WorkerId, serves: GroupFilter) -> list[Job]:
    """The suspects that this worker may claim, in order; none while it runs one."""
    if not tables.index.suspects():
        return []
    if any(job.crashes >= POISON_SUSPECT_CRASHES for job in _jobs(tables, tables.index.running(worker))):
        return []
    found = [job for job in _jobs(tables, tables.index.suspects()) if serves(job.queue, job.task)]
    return sorted(found, key=claim_order)


def _jobs(tables: ClaimTables, ids: Iterable[JobId]) -> list[Job]:
    return [job for id in ids if (job := tables.job(id)) is not None]


def _probes(
    tables: ClaimTables,
    circuits: list[Circuit],
    wanted: list[Group],
    suspects: list[Job],
    gates: LimitGates,
    limit: int,
) -> list[Job]:
    """The first due job of each task whose circuit is half open; it becomes the circuit's probe."""
    probes: list[Job] = []
    if not circuits:
        return probes
    for circuit in sorted(circuits, key=lambda circuit: circuit.task):
        if circuit.probe is not None or circuit.open_until is None or circuit.open_until > gates.now:
            continue
        heads = (head for group in wanted if group[1] == circuit.task and (head := tables.index.head(group)))
        waiting = _jobs(tables, (id for _, id in heads))
        if not any(job.crashes >= POISON_SUSPECT_CRASHES for job in probes):
            waiting += [job for job in suspects if job.task == circuit.task]
        due = [job for job in waiting if gates.is_open(job.limit_key, job.run_at)]
        if due and len(probes) < limit and sum(map(size_of, probes)) < CLAIM_BYTES:
            probes.append(min(due, key=gates.order))
            gates.note_start(probes[-1])
            tables.put_circuit(circuit.task, replace(circuit, probe=probes[-1].id))
    return probes


_Place = tuple[int, datetime, JobId, Group]
"""The place of a group in the order of claims: that of its first job."""


def _take_in_order(
    tables: ClaimTables, wanted: list[Group], worker: WorkerId, lease: Lease, limit: int, left: int, now: datetime
) -> tuple[list[Job], int]:
    """The due jobs in claim order, if none has a limit, and the bytes that are left of the claim's budget."""
    heads = [(-group[2], *head, group) for group in wanted if (head := tables.index.head(group)) and head[0] <= now]
    heapify(heads)
    taken: list[Job] = []
    while heads and len(taken) < limit and left > 0:
        _, _, id, group = heappop(heads)
        tables.index.pop(group)
        if (job := tables.job(id)) is not None:
            left -= size_of(job)
            taken.append(start_job(tables, job, worker, lease, now))
        if (head := tables.index.head(group)) and head[0] <= now:
            heappush(heads, (-group[2], *head, group))
    return taken, left


def _jobs_by_turns(tables: ClaimTables, wanted: list[Group], gates: LimitGates) -> Iterator[Job]:
    """The jobs that may start now, in claim order. The caller starts each before it asks for the next one."""
    places = [place for group in wanted if (place := _place_of(tables, group, gates)) is not None]
    heapify(places)
    while places:
        place = heappop(places)
        group = place[3]
        # Another line of the same limit may have been served since: then the place is a later one, or none.
        current = place if group[3] is None else _place_of(tables, group, gates)
        if current == place:
            tables.index.pop(group)
            if (job := tables.job(place[2])) is not None:
                if job.limit_key is not None:
                    gates.note_start(job)
                yield job
            current = _place_of(tables, group, gates)
        if current is not None:
            heappush(places, current)


def _place_of(tables: ClaimTables, group: Group, gates: LimitGates) -> _Place | None:
    """None if no job of the group may start now."""
    key = group[3]
    if (head := tables.index.head(group)) is None or head[0] > gates.now:
        return None
    if key is None:  # hot
        return -group[2], *head, group
    return (-group[2], gates.turn(key, head[0]), head[1], group) if gates.is_open(key, head[0]) else None


def new_lease() -> Lease:
    return os.urandom(8).hex()


def start_job(tables: JobTables, job: Job, worker: WorkerId, lease: Lease, now: datetime) -> Job:
    """The job, running from now on."""
    started = replace(
        job,
        state=State.RUNNING,
        worker=worker,
        lease=lease,
        started_at=now,
        attempt=job.attempt + 1,
        runs=job.runs + 1,
    )
    write_job(tables, job, started)
    return started


def _next_at(tables: ClaimTables, wanted: list[Group], suspects: list[Job], gates: LimitGates) -> datetime | None:
    due = [(group[1], group[3], head[0]) for group in wanted if (head := tables.index.head(group))]
    due += [(job.task, job.limit_key, job.run_at) for job in suspects]
    if tables.index.has_limited:
        opening = [(task, key, gates.opens_at(key, run_at)) for task, key, run_at in due]
        due = [(task, key, opens) for task, key, opens in opening if opens is not None]
    instants = [_claimable_at(tables.circuit(task), at) for task, _, at in due] + [tables.index.next_expiry()]
    return min((at for at in instants if at is not None), default=None)


def _claimable_at(circuit: Circuit | None, run_at: datetime) -> datetime | None:
    """When the task's circuit allows a claim of a job due at `run_at`; None while a probe is running."""
    if circuit is None or circuit.open_until is None:
        return run_at
    return None if circuit.probe is not None else max(run_at, circuit.open_until)


def claim_order(job: Job) -> tuple[int, datetime, JobId]:
    return -job.priority, job.run_at, job.id
