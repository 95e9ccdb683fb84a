"""The memory store's limits, and what it remembers of their groups."""

from __future__ import annotations

from datetime import datetime
from heapq import heappop, heappush

from ...clock import EPOCH, micros
from ...records.limit import MAX_HOLDERS, LimitGroup, LimitUse, StoredLimit, limit_name
from ..rules.limit_gates import LimitGates
from ..rules.limits import NEW_GROUP, GroupState, is_forgotten
from .job_table import JobTable


class LimitTable:
    """Limits by name, and the states of groups by limit_key. Read and written under the store's lock."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs, self._limited = jobs, jobs.index.limited
        self.rows: dict[str, StoredLimit] = {}
        self._groups: dict[str, GroupState] = {}
        self.remembers = False
        """Whether a job with a limit was ever started."""
        # When groups without jobs can be forgotten.
        self._ripe: list[tuple[int, str]] = []

    def limit(self, name: str) -> StoredLimit | None:
        return self.rows.get(name)

    def group(self, limit_key: str) -> GroupState:
        return self._groups.get(limit_key, NEW_GROUP)

    def put_group(self, limit_key: str, state: GroupState) -> None:
        self._groups[limit_key], self.remembers = state, True

    def forget_idle(self, now: datetime) -> None:
        """Deletes what is remembered of groups without jobs, if they need it no longer."""
        us = micros(now)
        for key in self._limited.take_emptied():
            if (state := self._groups.get(key)) is not None:
                heappush(self._ripe, (max(state.tat, state.served_at), key))
        while self._ripe and self._ripe[0][0] <= us:
            key = heappop(self._ripe)[1]
            if not self._limited.has_jobs(key) and is_forgotten(self.group(key), us):
                self._groups.pop(key, None)

    # reading

    def use(self, limit: StoredLimit) -> LimitUse:
        groups = self._limited.groups(limit.name) | {key for key in self._groups if limit_name(key) == limit.name}
        return LimitUse(limit=limit, running=self._limited.running_of_limit(limit.name), groups=len(groups))

    def groups_of(self, name: str, key: str | None, count_up_to: int) -> list[LimitGroup]:
        """The groups that have jobs, in order."""
        found = [one for one in self._limited.groups(name) if key is None or one == key]
        groups = [self._group(one, count_up_to) for one in found]
        return sorted(groups, key=lambda group: (-group.running, -group.waiting, group.limit_key))

    def _group(self, limit_key: str, count_up_to: int) -> LimitGroup:
        jobs, gates = self._limited, LimitGates(self, self._limited, EPOCH)
        waiting = self._jobs.some(jobs.waiting(limit_key))
        instants = [at for job in waiting if (at := gates.opens_at(limit_key, job.run_at)) is not None]
        return LimitGroup(
            limit_key=limit_key,
            running=len(jobs.running(limit_key)),
            waiting=min(len(waiting), count_up_to),
            next_at=min(instants, default=None),
            holders=tuple(sorted(jobs.running(limit_key))[:MAX_HOLDERS]),
        )
