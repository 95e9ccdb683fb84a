"""The index that a claim reads: due jobs by group, suspects, running jobs by worker, and jobs that expire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from heapq import heappop, heappush

from ...ids import JobId, WorkerId
from ...records.job import POISON_SUSPECT_CRASHES, Job, State
from .limited_jobs import LimitedJobs

Group = tuple[str, str, int, str | None]
"""Queue, task, priority and limit_key. With a limit_key it is a line (LimitStore)."""
HeapEntry = tuple[datetime, JobId]
"""run_at or expires_at of a job, and its id."""


class ClaimIndex:
    """Heaps of jobs. An outdated entry is dropped when it is reached: `job` returns a job as it is now."""

    def __init__(self, job: Callable[[JobId], Job | None]) -> None:
        self._job = job
        self._ready: dict[Group, list[HeapEntry]] = {}
        self.limited = LimitedJobs()
        self.has_limited = False
        """Whether a job with a limit was ever added."""
        self._expiring: list[HeapEntry] = []
        self._suspects: set[JobId] = set()
        self._running: dict[WorkerId, set[JobId]] = {}

    # writing

    def add(self, job: Job) -> None:
        if job.state is State.RUNNING:
            self._running.setdefault(job.worker or "", set()).add(job.id)
        elif job.state is State.PENDING:
            if job.crashes < POISON_SUSPECT_CRASHES:
                heappush(
                    self._ready.setdefault((job.queue, job.task, job.priority, job.limit_key), []), (job.run_at, job.id)
                )
            else:
                self._suspects.add(job.id)
            if job.expires_at is not None:
                heappush(self._expiring, (job.expires_at, job.id))
        if job.limit_key is not None:
            self.limited.add(job, job.limit_key)
            self.has_limited = True

    def remove(self, job: Job) -> None:
        self._suspects.discard(job.id)
        if job.limit_key is not None:
            self.limited.remove(job, job.limit_key)
        if job.state is State.RUNNING and (runs := self._running.get(job.worker or "")) is not None:
            runs.discard(job.id)
            if not runs:
                del self._running[job.worker or ""]

    # reading

    def groups(self) -> Iterable[Group]:
        return self._ready

    def head(self, group: Group) -> HeapEntry | None:
        """The first current entry of a group's heap; None if the group has no pending jobs."""
        heap = self._ready.get(group, [])
        while heap:
            run_at, id = heap[0]
            job = self._job(id)
            if (
                job
                and job.state is State.PENDING
                and job.crashes < POISON_SUSPECT_CRASHES
                and job.run_at == run_at
                and _group_of(job) == group
            ):
                return heap[0]
            heappop(heap)
        self._ready.pop(group, None)
        return None

    def pop(self, group: Group) -> None:
        """Removes the group's head."""
        heappop(self._ready[group])

    def suspects(self) -> Collection[JobId]:
        """Pending jobs that have crashed their workers."""
        return self._suspects

    def running(self, worker: WorkerId) -> Collection[JobId]:
        return self._running.get(worker, ())

    def workers(self) -> Iterable[WorkerId]:
        """The workers that have running jobs."""
        return self._running

    def pop_expired(self, now: datetime) -> Job | None:
        """Removes and returns the next pending job whose expires_at has passed; None if there is none."""
        while self._expiring and self._expiring[0][0] <= now:
            if (job := self._expiring_job(*heappop(self._expiring))) is not None:
                return job
        return None

    def next_expiry(self) -> datetime | None:
        while self._expiring and self._expiring_job(*self._expiring[0]) is None:
            heappop(self._expiring)
        return self._expiring[0][0] if self._expiring else None

    def _expiring_job(self, at: datetime, id: JobId) -> Job | None:
        """The job of an entry; None if the entry is outdated."""
        job = self._job(id)
        return job if job is not None and job.state is State.PENDING and job.expires_at == at else None


def _group_of(job: Job) -> Group:
    return job.queue, job.task, job.priority, job.limit_key
