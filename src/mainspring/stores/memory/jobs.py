"""The memory store's table of jobs, with the indexes for claims, keys and expiry."""

from __future__ import annotations

from datetime import datetime
from heapq import heappop, heappush

from msgspec.structs import replace

from ...ids import JobId, WorkerId
from ...records.job import IDEMPOTENT_STATES, POISON_SUSPECT_CRASHES, UNFINISHED, Job, NewJob, State
from .schedules import MemoryScheduleTable

Group = tuple[str, str, int]
"""Queue, task and priority."""
HeapEntry = tuple[datetime, JobId]
"""run_at or expires_at of a job, and its id."""


class JobTable(dict[JobId, Job]):
    """Every job by its id. `put` and `drop` update the indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.schedules = MemoryScheduleTable()
        # Heaps of (run_at, id) and (expires_at, id); outdated entries are dropped when they are reached.
        self.ready: dict[Group, list[HeapEntry]] = {}
        self.expiring: list[HeapEntry] = []
        self.suspects: set[JobId] = set()
        self.running: dict[WorkerId, set[JobId]] = {}
        # Ids in the order in which the jobs entered the state; a list of one state reads only these.
        self.by_state: dict[State, dict[JobId, None]] = {state: {} for state in State}
        self._unique: dict[str, JobId] = {}
        self._idempotent: dict[str, JobId] = {}
        self._undo: dict[JobId, Job | None] | None = None

    # writing

    def put(self, job: Job) -> None:
        """Writes a job and updates every index."""
        old = self.get(job.id)
        if self._undo is not None:
            self._undo.setdefault(job.id, old)
        self[job.id] = job
        self._unindex(old)
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
            _set_holder(self._unique, job.unique_key, job.id, job.state in UNFINISHED)
        if job.idempotency_key is not None:
            _set_holder(self._idempotent, job.idempotency_key, job.id, job.state in IDEMPOTENT_STATES)
        if job.schedule is not None:
            self.schedules.job_changed(old, job, job.finished_at or job.run_at)

    def _unindex(self, old: Job | None) -> None:
        """Removes a job from the indexes of its state."""
        if old is None:
            return
        self.by_state[old.state].pop(old.id, None)
        self.suspects.discard(old.id)
        if old.state is State.RUNNING and (runs := self.running.get(old.worker or "")) is not None:
            runs.discard(old.id)
            if not runs:
                del self.running[old.worker or ""]

    def drop(self, job: Job, now: datetime | None = None) -> None:
        """Deletes a job at `now`; None undoes its insert, which its schedule never learned of."""
        if now is not None:
            self.schedules.job_changed(job, None, now)
        if job.unique_key is not None:
            _set_holder(self._unique, job.unique_key, job.id, False)
        if job.idempotency_key is not None:
            _set_holder(self._idempotent, job.idempotency_key, job.id, False)
        self._unindex(job)
        del self[job.id]

    def expire(self, now: datetime) -> list[JobId]:
        """Expires the pending jobs whose expires_at is past, and returns their ids."""
        expired: list[JobId] = []
        while self.expiring and self.expiring[0][0] <= now:
            at, id = heappop(self.expiring)
            if self._is_current_expiry(at, id):
                self.put(replace(self[id], state=State.EXPIRED, finished_at=now))
                expired.append(id)
        return sorted(expired)

    # all or nothing

    def track_undo(self, undo: bool) -> None:
        """Begins to record what `roll_back` needs, or stops recording."""
        self._undo = {} if undo else None
        self.schedules.track_undo(undo)

    def roll_back(self) -> None:
        """Restores the table to its state at `track_undo(True)`."""
        undo, self._undo = self._undo or {}, None
        for id, old in reversed(undo.items()):
            if old is None:
                self.drop(self[id])
            else:
                self.put(old)
        self.schedules.roll_back()

    # reading

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        """The key of this job that is held, and the job that holds it; (None, None) if its keys are free."""
        for key, holders in ((job.unique_key, self._unique), (job.idempotency_key, self._idempotent)):
            if key is not None and key in holders:
                return key, self[holders[key]]
        return None, None

    def head(self, group: Group) -> HeapEntry | None:
        """The first current entry of a group's heap; None if the group has no pending jobs."""
        heap = self.ready.get(group, [])
        while heap:
            run_at, id = heap[0]
            job = self.get(id)
            if (
                job
                and job.state is State.PENDING
                and job.crashes < POISON_SUSPECT_CRASHES
                and _ready_key(job) == (*group, run_at)
            ):
                return heap[0]
            heappop(heap)
        self.ready.pop(group, None)
        return None

    def next_expiry(self) -> datetime | None:
        while self.expiring and not self._is_current_expiry(*self.expiring[0]):
            heappop(self.expiring)
        return self.expiring[0][0] if self.expiring else None

    def _is_current_expiry(self, at: datetime, id: JobId) -> bool:
        job = self.get(id)
        return job is not None and job.state is State.PENDING and job.expires_at == at


def _set_holder(holders: dict[str, JobId], key: str, id: JobId, held: bool) -> None:
    if held:
        holders[key] = id
    elif holders.get(key) == id:
        del holders[key]


def _ready_key(job: Job) -> tuple[str, str, int, datetime]:
    return job.queue, job.task, job.priority, job.run_at
