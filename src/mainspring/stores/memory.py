"""The memory store: the contract as plain Python, lost with the process."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec.structs import replace

from ..clock import EPOCH, Clock, SystemClock
from ..errors import BadInput, ShuttingDown
from ..finding import Finding
from ..job import (
    ALLOWED,
    IDEMPOTENT,
    SUSPECT,
    UNFINISHED,
    Action,
    Beat,
    Changed,
    Circuit,
    Claim,
    Cursor,
    DeadGroup,
    Enqueued,
    Execution,
    Filter,
    Job,
    JobId,
    Lease,
    LiveWorker,
    LogLine,
    NewJob,
    Orders,
    Queue,
    Refusal,
    Report,
    Shown,
    Sort,
    State,
    Update,
    WorkerId,
    WorkerInfo,
)
from ..outcome import Outcome
from ..store import Store
from ..tally import Span, Tally
from .bell import Bell
from .ledger import Ledger
from .rules import LONG_SILENT, act, admit, lapsed, matches, meet, newer, settle

Entry = tuple[datetime, JobId]


class MemoryStore:
    """The executable specification. One lock makes every verb atomic, from any thread or loop."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._closed = False
        self._jobs: dict[JobId, Job] = {}
        # (queue, task, priority) -> heap of (run_at, id); entries that no longer fit are dropped when met.
        self._ready: dict[tuple[str, str, int], list[Entry]] = {}
        self._suspects: set[JobId] = set()
        self._expiring: list[Entry] = []
        self._running: dict[WorkerId, set[JobId]] = defaultdict(set)
        self._unique: dict[str, JobId] = {}
        self._idempotent: dict[str, JobId] = {}
        self._ledger = Ledger()
        self._workers: dict[WorkerId, LiveWorker] = {}
        self._paused: set[str] = set()
        self._undo: dict[JobId, Job | None] | None = None
        self._new, self._final = Bell(self._clock), Bell(self._clock)

    # life

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    def beside(self) -> Store:
        return self

    async def schema(self) -> tuple[int, int]:
        self._check()
        return 1, 1

    async def migrate(self, target: int | None = None) -> list[int]:
        self._check()
        if target not in (None, 1):
            raise BadInput(f"the memory store has one schema, 1; cannot migrate to {target}")
        return []

    async def time(self) -> datetime:
        self._check()
        return self._clock.now()

    async def diagnose(self) -> list[Finding]:
        self._check()
        return [Finding("memory", "warn", "jobs are lost with this process", "sqlite:///jobs.db keeps them in a file")]

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        self._check()
        await self._new.wait(timeout)

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        self._check()
        await self._final.wait(timeout)

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._check()
        if within is not None:
            raise BadInput("the memory store has no transactions to enqueue within")
        with self._lock:
            answers = self._admit_all(jobs, now)
        self._new.ring()
        return answers

    def _admit_all(self, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        # Only a job that may be refused makes the others worth remembering.
        self._undo = {} if any(job.on_conflict == "raise" for job in jobs) else None
        answers: list[Enqueued] = []
        for n, job in enumerate(jobs):
            answers.append(self._admit(job, now))
            if answers[n].status == "refused":
                self._roll_back()
                return [answers[n] if i == n else Enqueued(other.id, "refused") for i, other in enumerate(jobs)]
        self._undo = None
        return answers

    def _roll_back(self) -> None:
        """Everything as it was when the call began."""
        undo, self._undo = self._undo or {}, None
        for id, old in reversed(undo.items()):
            if old is None:
                self._drop(self._jobs[id])
            else:
                self._put(old)

    def _admit(self, new: NewJob, now: datetime) -> Enqueued:
        if new.id in self._jobs:
            return Enqueued(new.id)
        if new.unique_key is not None or new.idempotency_key is not None:
            key, held = self._holder(new)
            while held is not None and held.shown(now) == "expired":
                self._put(replace(held, state=State.EXPIRED, finished_at=now))
                key, held = self._holder(new)
            if held is not None and new.on_conflict == "raise":
                return Enqueued(held.id, "refused", key)
            if held is not None:
                changed, status = meet(held, new, now)
                self._put(changed)
                return Enqueued(held.id, status, key)
        self._put(admit(new, now))
        return Enqueued(new.id)

    def _holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The job that keeps this one's key from being used, if any."""
        for key, holders in ((job.unique_key, self._unique), (job.idempotency_key, self._idempotent)):
            if key is not None and key in holders:
                return key, self._jobs[holders[key]]
        return None, None

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        self._check()
        with self._lock:
            expired = self._expire(now)
            live = self._workers.get(worker)
            if live is None or live.until <= now:
                return Claim([], None, expired)
            wanted = [
                key
                for key in list(self._ready)
                if key[1] in tasks and (queues is None or key[0] in queues) and key[0] not in self._paused
            ]
            suspects = self._free_suspects(worker, queues, tasks)
            lease = os.urandom(8).hex()
            circuits = [circuit for circuit in self._ledger.circuits.values() if circuit.open_until is not None]
            jobs = [
                self._start(job, worker, lease, now) for job in self._probes(circuits, wanted, suspects, limit, now)
            ]
            open = {circuit.task for circuit in circuits}
            first = [job for job in suspects if job.task not in open and job.run_at <= now]
            if len(jobs) < limit and first and not any(job.crashes >= SUSPECT for job in jobs):
                jobs.append(self._start(first[0], worker, lease, now))
            free = [key for key in wanted if key[1] not in open]
            jobs += self._take(free, worker, lease, limit - len(jobs), now)
            jobs.sort(key=_order)
            if len(jobs) == limit:
                return Claim(jobs, now, expired)
            suspects = self._free_suspects(worker, queues, tasks)
            return Claim(jobs, self._next_at(wanted, suspects), expired)

    def _probes(
        self,
        circuits: list[Circuit],
        wanted: list[tuple[str, str, int]],
        suspects: list[Job],
        limit: int,
        now: datetime,
    ) -> list[Job]:
        """The first job of each task whose circuit is half open."""
        probes: list[Job] = []
        for circuit in sorted(circuits, key=lambda circuit: circuit.task):
            if circuit.probe is not None or circuit.open_until is None or circuit.open_until > now:
                continue
            heads = (head for key in wanted if key[1] == circuit.task and (head := self._head(key)))
            waiting = [self._jobs[id] for _, id in heads]
            if not any(job.crashes >= SUSPECT for job in probes):
                waiting += [job for job in suspects if job.task == circuit.task]
            due = [job for job in waiting if job.run_at <= now]
            if due and len(probes) < limit:
                probes.append(min(due, key=_order))
                self._ledger.probe(probes[-1])
        return probes

    def _free_suspects(self, worker: WorkerId, queues: Collection[str] | None, tasks: Collection[str]) -> list[Job]:
        """The suspects this worker may take, in order: none while it runs one."""
        if any(self._jobs[id].crashes >= SUSPECT for id in self._running.get(worker, ())):
            return []
        found = [
            job
            for job in (self._jobs[id] for id in self._suspects)
            if job.task in tasks and (queues is None or job.queue in queues) and job.queue not in self._paused
        ]
        return sorted(found, key=_order)

    def _start(self, job: Job, worker: WorkerId, lease: Lease, now: datetime) -> Job:
        job = replace(
            job, state=State.RUNNING, worker=worker, lease=lease, started_at=now,
            attempt=job.attempt + 1, runs=job.runs + 1,
        )  # fmt: skip
        self._put(job)
        return job

    def _take(
        self, wanted: list[tuple[str, str, int]], worker: WorkerId, lease: Lease, limit: int, now: datetime
    ) -> list[Job]:
        heads = [(-key[2], *head, key) for key in wanted if (head := self._head(key)) and head[0] <= now]
        heapify(heads)
        jobs: list[Job] = []
        while heads and len(jobs) < limit:
            _, _, id, key = heappop(heads)
            heappop(self._ready[key])
            jobs.append(self._start(self._jobs[id], worker, lease, now))
            if (head := self._head(key)) and head[0] <= now:
                heappush(heads, (-key[2], *head, key))
        return jobs

    def _head(self, key: tuple[str, str, int]) -> Entry | None:
        """The first entry of a heap that still tells the truth."""
        heap = self._ready.get(key, [])
        while heap:
            run_at, id = heap[0]
            job = self._jobs.get(id)
            if job and job.state is State.PENDING and job.crashes < SUSPECT and _place(job) == (*key, run_at):
                return heap[0]
            heappop(heap)
        self._ready.pop(key, None)
        return None

    def _next_at(self, wanted: list[tuple[str, str, int]], suspects: list[Job]) -> datetime | None:
        while self._expiring and not self._expires(*self._expiring[0]):
            heappop(self._expiring)
        due = [(key[1], head[0]) for key in wanted if (head := self._head(key))]
        due += [(job.task, job.run_at) for job in suspects]
        instants = [at for task, run_at in due if (at := self._opens(task, run_at)) is not None]
        return min(instants + [at for at, _ in self._expiring[:1]], default=None)

    def _opens(self, task: str, run_at: datetime) -> datetime | None:
        """When a job due at `run_at` can be claimed, as far as its task's circuit is concerned."""
        circuit = self._ledger.circuits.get(task)
        if circuit is None or circuit.open_until is None:
            return run_at
        return None if circuit.probe is not None else max(run_at, circuit.open_until)

    def _expires(self, at: datetime, id: JobId) -> bool:
        job = self._jobs.get(id)
        return job is not None and job.state is State.PENDING and job.expires_at == at

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> Beat:
        self._check()
        with self._lock:
            for id in [id for id, row in self._workers.items() if row.until <= now - LONG_SILENT]:
                del self._workers[id]
            orders = self._workers[worker.id].orders if worker.id in self._workers else Orders()
            if until > now:
                self._workers[worker.id] = LiveWorker(worker, until, orders)
            else:
                self._workers.pop(worker.id, None)
            mine = [self._jobs[id] for id in self._running.get(worker.id, ())]
            return Beat(
                {job.id: job.lease or "" for job in mine},
                {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None},
                orders,
            )

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        self._check()
        with self._lock:
            lost = [id for worker, ids in self._running.items() if not self._alive(worker, now) for id in ids]
            return [self._jobs[id] for id in sorted(lost)[:limit]]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        self._check()
        with self._lock:
            accepted = [outcome for outcome in outcomes if self._settle(outcome)]
            # Told a second time it stands; another ending of the same run (it was given up, then came back) does not.
            stands = {outcome.id for outcome in outcomes if self._ledger.told(outcome)}
            self._ledger.count(accepted)
        self._final.ring()
        if any(outcome.then or outcome.breaker for outcome in accepted):
            self._new.ring()
        return stands

    def _settle(self, outcome: Outcome) -> bool:
        job = self._jobs.get(outcome.id)
        if job is None or job.state is not State.RUNNING or job.lease != outcome.lease:
            return False
        if outcome.silent and self._alive(job.worker or "", outcome.finished_at):
            return False
        self._ledger.accept(job, outcome)
        self._put(settle(job, outcome))
        self._admit_all(outcome.then, outcome.finished_at)
        return True

    async def report(self, reports: Sequence[Report]) -> set[JobId]:
        self._check()
        stands: set[JobId] = set()
        with self._lock:
            for report in reports:
                job = self._jobs.get(report.id)
                if job is None or job.state is not State.RUNNING or job.lease != report.lease:
                    continue
                lines = self._ledger.lines[job.id]
                for line in report.lines:
                    lines.setdefault((line.run, line.n), line)
                if newer(report.progress, job.progress):
                    self._jobs[job.id] = replace(job, progress=report.progress)
                stands.add(job.id)
        self._final.ring()
        return stands

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Update | None = None,
        after: JobId | None = None,
    ) -> Changed:
        self._check()
        done: list[JobId] = []
        refused: dict[JobId, Refusal] = {}
        with self._lock:
            chosen = [job for job in self._matching(which, now) if after is None or job.id > after][:limit]
            for job in chosen:
                met = lapsed(job, now)
                refusal = self._refusal(action, met)
                if refusal is not None:
                    refused[job.id] = refusal
                    continue
                if action is Action.DELETE:
                    self._drop(job)
                else:
                    self._put(act(action, met, now, reason, update))
                done.append(job.id)
        self._new.ring()
        self._final.ring()
        return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)

    def _refusal(self, action: Action, job: Job) -> Refusal | None:
        if job.state not in ALLOWED[action]:
            return Refusal(job.state)
        if action is Action.RETRY:
            key, holder = self._holder(job)
            if holder is not None and holder.id != job.id:
                return Refusal(job.state, key, holder.id)
        return None

    async def pause_queue(self, name: str, paused: bool) -> None:
        self._check()
        with self._lock:
            (self._paused.add if paused else self._paused.discard)(name)
        self._new.ring()

    async def order(self, workers: Collection[WorkerId] | None, orders: Orders, *, now: datetime) -> list[WorkerId]:
        self._check()
        with self._lock:
            found = [id for id in sorted(self._workers) if self._alive(id, now) and (workers is None or id in workers)]
            for id in found:
                self._workers[id] = replace(self._workers[id], orders=orders)
        return found

    # reading

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
    ) -> list[Job]:
        self._check()
        with self._lock:
            found = [(key, job) for job in self._matching(which, now) if (key := _key(job, sort)) is not None]
        found.sort(key=lambda pair: pair[0], reverse=newest)
        if after is not None:
            end = (EPOCH if sort == "created" else after.at or EPOCH, after.id)
            found = [(key, job) for key, job in found if (key < end if newest else key > end)]
        return [job for _, job in found[:limit]]

    async def executions(self, job_id: JobId) -> list[Execution]:
        self._check()
        return list(self._ledger.executions.get(job_id, ()))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        self._check()
        with self._lock:
            lines = self._ledger.lines.get(job_id, {})
            return [lines[key] for key in sorted(lines) if key > after][:limit]

    async def queues(self, *, now: datetime) -> list[Queue]:
        self._check()
        with self._lock:
            tally: dict[str, Counter[str]] = {name: Counter() for name in self._paused}
            for job in self._jobs.values():
                if job.state in UNFINISHED:
                    tally.setdefault(job.queue, Counter())[job.shown(now)] += 1
            return [
                Queue(
                    name=name, paused=name in self._paused, pending=count["pending"], scheduled=count["scheduled"],
                    retrying=count["retrying"], running=count["running"],
                )
                for name, count in sorted(tally.items())
            ]  # fmt: skip

    async def workers(self, *, now: datetime) -> list[LiveWorker]:
        self._check()
        with self._lock:
            return [row for _, row in sorted(self._workers.items()) if row.until > now]

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        self._check()
        with self._lock:
            return dict(Counter(job.shown(now) for job in self._jobs.values()))

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        self._check()
        with self._lock:
            return self._ledger.tallies(span, since)

    async def circuits(self) -> list[Circuit]:
        self._check()
        return [circuit for _, circuit in sorted(self._ledger.circuits.items())]

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        self._check()
        groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
        with self._lock:
            for job in self._jobs.values():
                if job.state is State.DEAD and job.failure is not None:
                    groups[job.task, job.failure.kind].append(job)
        found = []
        for (task, error), jobs in groups.items():
            newest = max(jobs, key=lambda job: (job.finished_at or EPOCH, job.id))
            last_at = newest.finished_at or EPOCH
            found.append(DeadGroup(task=task, error=error, count=len(jobs), newest=newest.id, last_at=last_at))
        return sorted(found, key=lambda group: (-group.count, group.task, group.error))[:limit]

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        self._check()
        with self._lock:
            return sorted({(job.state, job.task) for job in self._jobs.values() if job.state.final})

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        which = Filter(states=(state.value,), tasks=(task,))
        found = await self.jobs(which, now=EPOCH, limit=len(self._jobs), sort="finished")
        old = [job for job in found[: max(0, len(found) - keep)] if (job.finished_at or before) < before]
        return old[:limit]

    # inside

    def _check(self) -> None:
        if self._closed:
            raise ShuttingDown("the memory store is closed")

    def _alive(self, worker: WorkerId, now: datetime) -> bool:
        row = self._workers.get(worker)
        return row is not None and row.until > now

    def _matching(self, which: Filter, now: datetime) -> list[Job]:
        return list(self._scan(which, now))

    def _scan(self, which: Filter, now: datetime) -> Iterator[Job]:
        ids = self._jobs if which.ids is None else [id for id in which.ids if id in self._jobs]
        for id in sorted(set(ids)):
            if matches(self._jobs[id], which, now):
                yield self._jobs[id]

    def _expire(self, now: datetime) -> list[JobId]:
        expired: list[JobId] = []
        while self._expiring and self._expiring[0][0] <= now:
            at, id = heappop(self._expiring)
            if self._expires(at, id):
                self._put(replace(self._jobs[id], state=State.EXPIRED, finished_at=now))
                expired.append(id)
        return sorted(expired)

    def _put(self, job: Job) -> None:
        """Writes a job and keeps every index in step with it."""
        old = self._jobs.get(job.id)
        if self._undo is not None:
            self._undo.setdefault(job.id, old)
        self._jobs[job.id] = job
        self._suspects.discard(job.id)
        if old is not None and old.state is State.RUNNING:
            self._running[old.worker or ""].discard(job.id)
        if job.state is State.RUNNING:
            self._running[job.worker or ""].add(job.id)
        elif job.state is State.PENDING:
            if job.crashes < SUSPECT:
                heappush(self._ready.setdefault((job.queue, job.task, job.priority), []), (job.run_at, job.id))
            else:
                self._suspects.add(job.id)
            if job.expires_at is not None:
                heappush(self._expiring, (job.expires_at, job.id))
        if job.unique_key is not None:
            self._hold(self._unique, job.unique_key, job.id, job.state in UNFINISHED)
        if job.idempotency_key is not None:
            self._hold(self._idempotent, job.idempotency_key, job.id, job.state in IDEMPOTENT)

    def _hold(self, holders: dict[str, JobId], key: str, id: JobId, held: bool) -> None:
        if held:
            holders[key] = id
        elif holders.get(key) == id:
            del holders[key]

    def _drop(self, job: Job) -> None:
        if job.unique_key is not None:
            self._hold(self._unique, job.unique_key, job.id, False)
        if job.idempotency_key is not None:
            self._hold(self._idempotent, job.idempotency_key, job.id, False)
        self._suspects.discard(job.id)
        self._ledger.drop(job.id)
        del self._jobs[job.id]


def _order(job: Job) -> tuple[int, datetime, JobId]:
    return -job.priority, job.run_at, job.id


def _key(job: Job, sort: Sort) -> tuple[datetime, JobId] | None:
    """Where the job stands in that order; None: it does not."""
    match sort:
        case "created":
            return EPOCH, job.id
        case "due":
            return (job.run_at, job.id) if job.state is State.PENDING else None
        case _:
            return (job.finished_at or EPOCH, job.id) if job.state.final else None


def _place(job: Job) -> tuple[str, str, int, datetime]:
    return job.queue, job.task, job.priority, job.run_at
