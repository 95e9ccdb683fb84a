"""The pending and running jobs of each group of a limit, as an index that follows every write of a job."""

from __future__ import annotations

from collections.abc import Collection

from ...ids import JobId
from ...records.job import Job, State
from ...records.limit import limit_name


class LimitedJobs:
    """Jobs with a limit_key by their groups. A group without pending and running jobs is in none of the tables."""

    def __init__(self) -> None:
        self._running: dict[str, set[JobId]] = {}
        self._waiting: dict[str, set[JobId]] = {}
        self._running_of_limit: dict[str, int] = {}
        # Groups that have lost their last job. They may have another one since.
        self._emptied: list[str] = []

    def add(self, job: Job, key: str) -> None:
        if job.state is State.RUNNING:
            self._running.setdefault(key, set()).add(job.id)
            self._count(limit_name(key), 1)
        elif job.state is State.PENDING:
            self._waiting.setdefault(key, set()).add(job.id)

    def remove(self, job: Job, key: str) -> None:
        for state, jobs in ((State.RUNNING, self._running), (State.PENDING, self._waiting)):
            if job.state is state and (ids := jobs.get(key)) is not None:
                ids.discard(job.id)
                if not ids:
                    del jobs[key]
                    self._emptied.append(key)
        if job.state is State.RUNNING:
            self._count(limit_name(key), -1)

    def _count(self, name: str, by: int) -> None:
        count = self._running_of_limit.pop(name, 0) + by
        if count:
            self._running_of_limit[name] = count

    def running(self, key: str) -> Collection[JobId]:
        return self._running.get(key, ())

    def running_count(self, key: str) -> int:
        return len(self.running(key))

    def waiting(self, key: str) -> Collection[JobId]:
        return self._waiting.get(key, ())

    def running_of_limit(self, name: str) -> int:
        return self._running_of_limit.get(name, 0)

    def has_jobs(self, key: str) -> bool:
        return key in self._running or key in self._waiting

    def take_emptied(self) -> list[str]:
        """The groups that have lost their last job since the last call."""
        emptied, self._emptied = self._emptied, []
        return emptied

    def groups(self, name: str | None = None) -> set[str]:
        """The groups, or those of this limit, that have pending or running jobs."""
        keys = self._running.keys() | self._waiting.keys()
        return keys if name is None else {key for key in keys if limit_name(key) == name}
