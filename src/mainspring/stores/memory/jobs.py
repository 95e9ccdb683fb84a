"""The memory store's table of jobs, with the indexes that claims, keys and expiry need."""

from __future__ import annotations

from datetime import datetime
from heapq import heappop, heappush

from msgspec.structs import replace

from ...ids import JobId, WorkerId
from ...records.job import IDEMPOTENT_STATES, POISON_SUSPECT_CRASHES, UNFINISHED, Job, NewJob, State
from .schedules import Series

Group = tuple[str, str, int]
"""Queue, task and priority."""
Entry = tuple[datetime, JobId]


class JobTable(dict[JobId, Job]):
    """Every job by its id. `put` and `drop` keep the indexes in step."""

    def __init__(self) -> None:
        super().__init__()
        self.series = Series()
        # Heaps of (run_at, id) and (expires_at, id); entries that no longer fit are dropped when met.
        self.ready: dict[Group, list[Entry]] = {}
        self.expiring: list[Entry] = []
        self.suspects: set[JobId] = set()
        self.running: dict[WorkerId, set[JobId]] = {}
        # Ids in the order in which they came into the state. Reads that ask for a state look at no other jobs.
        self.by_state: dict[State, dict[JobId, None]] = {state: {} for state in State}
        self._unique: dict[str, JobId] = {}
        self._idempotent: dict[str, JobId] = {}
        self._undo: dict[JobId, Job | None] | None = None

    # writing

    def put(self, job: Job) -> None:
        """Writes a job and keeps every index in step with it."""
        old = self.get(job.id)
        if self._undo is not None:
            self._undo.setdefault(job.id, old)
        self[job.id] = job
        self._leave(old)
        self.by_state[job.state][job.id] = None
        if job.state is State.RUNNING:
            self.running.setdefault(job.worker or "", set()).add(job.id)
        elif job.state is State.PENDING:
            if job.crashes < POISON_SUSPECT_CRASHES:
                heappush(self.ready.setdefault((job.queue, job.task, job.priority), []), (job.run_at, job.id))
            else:
                self.suspects.add(job.id)
            if job.expires_at is not None:
                heappush(self.expiring, (job.expires_at, job.id))
        if job.unique_key is not None:
            _hold(self._unique, job.unique_key, job.id, job.state in UNFINISHED)
        if job.idempotency_key is not None:
            _hold(self._idempotent, job.idempotency_key, job.id, job.state in IDEMPOTENT_STATES)
        if job.schedule is not None:
            self.series.follow(old, job, job.finished_at or job.run_at)

    def _leave(self, old: Job | None) -> None:
        """Takes a job out of the indexes of its state."""
        if old is None:
            return
        self.by_state[old.state].pop(old.id, None)
        self.suspects.discard(old.id)
        if old.state is State.RUNNING and (runs := self.running.get(old.worker or "")) is not None:
            runs.discard(old.id)
            if not runs:
                del self.running[old.worker or ""]

    def drop(self, job: Job, now: datetime | None = None) -> None:
        """The job is gone from `now` on; None: it has never been."""
        if now is not None:
            self.series.follow(job, None, now)
        if job.unique_key is not None:
            _hold(self._unique, job.unique_key, job.id, False)
        if job.idempotency_key is not None:
            _hold(self._idempotent, job.idempotency_key, job.id, False)
        self._leave(job)
        del self[job.id]

    def expire(self, now: datetime) -> list[JobId]:
        """Ends the jobs that were not started in time."""
        expired: list[JobId] = []
        while self.expiring and self.expiring[0][0] <= now:
            at, id = heappop(self.expiring)
            if self._expires(at, id):
                self.put(replace(self[id], state=State.EXPIRED, finished_at=now))
                expired.append(id)
        return sorted(expired)

    # all or nothing

    def remember(self, undo: bool) -> None:
        """From now on keeps what `roll_back` needs, or keeps nothing."""
        self._undo = {} if undo else None
        self.series.remember(undo)

    def roll_back(self) -> None:
        """Everything as it was when `remember` was called."""
        undo, self._undo = self._undo or {}, None
        for id, old in reversed(undo.items()):
            if old is None:
                self.drop(self[id])
            else:
                self.put(old)
        self.series.roll_back()

    # looking

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The job that keeps this one's key from being used, if any."""
        for key, holders in ((job.unique_key, self._unique), (job.idempotency_key, self._idempotent)):
            if key is not None and key in holders:
                return key, self[holders[key]]
        return None, None

    def head(self, group: Group) -> Entry | None:
        """The first entry of a heap that still tells the truth."""
        heap = self.ready.get(group, [])
        while heap:
            run_at, id = heap[0]
            job = self.get(id)
            if (
                job
                and job.state is State.PENDING
                and job.crashes < POISON_SUSPECT_CRASHES
                and _place(job) == (*group, run_at)
            ):
                return heap[0]
            heappop(heap)
        self.ready.pop(group, None)
        return None

    def next_expiry(self) -> datetime | None:
        while self.expiring and not self._expires(*self.expiring[0]):
            heappop(self.expiring)
        return self.expiring[0][0] if self.expiring else None

    def _expires(self, at: datetime, id: JobId) -> bool:
        job = self.get(id)
        return job is not None and job.state is State.PENDING and job.expires_at == at


def _hold(holders: dict[str, JobId], key: str, id: JobId, held: bool) -> None:
    if held:
        holders[key] = id
    elif holders.get(key) == id:
        del holders[key]


def _place(job: Job) -> tuple[str, str, int, datetime]:
    return job.queue, job.task, job.priority, job.run_at
