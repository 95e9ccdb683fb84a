"""Which jobs with a limit a claim may start: the counts and instants of their groups, as they change in the claim."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from ...clock import instant, micros
from ...ids import JobId
from ...records.job import Job
from ...records.limit import StoredLimit, limit_name
from .limits import NEW_GROUP, GroupState, after_start, has_room, limit_of, opens_at, turn_of


class LimitRows(Protocol):
    """What a claim reads of limits beside the jobs, and writes."""

    def limit(self, name: str) -> StoredLimit | None: ...

    def group(self, limit_key: str) -> GroupState: ...

    def put_group(self, limit_key: str, state: GroupState) -> None: ...


class RunningJobs(Protocol):
    """The numbers of running jobs as a claim begins."""

    def running_count(self, key: str) -> int:
        """Those of a group."""
        ...

    def running_of_limit(self, name: str) -> int: ...


class NoLimits:
    """No limit is stored, and no group is remembered: for a store whose jobs have no limits."""

    def limit(self, name: str) -> StoredLimit | None:
        return None

    def group(self, limit_key: str) -> GroupState:
        return NEW_GROUP

    def put_group(self, limit_key: str, state: GroupState) -> None:
        raise AssertionError(f"this store keeps no group {limit_key!r}")


NO_LIMITS = NoLimits()


class LimitGates(Struct, dict=True, eq=False):
    """The gates of all groups in one claim. Jobs without a limit_key pass them."""

    _rows: LimitRows
    _jobs: RunningJobs
    now: datetime
    _limits: dict[str, StoredLimit] = {}
    # Running jobs by group and by limit, with those that this claim starts.
    _running: dict[str, int] = {}
    _totals: dict[str, int] = {}

    @cached_property
    def _us(self) -> int:
        return micros(self.now)

    def limit(self, key: str) -> StoredLimit:
        name = limit_name(key)
        if (limit := self._limits.get(name)) is None:
            limit = self._limits[name] = limit_of(key, self._rows.limit(name))
        return limit

    def has_room(self, key: str) -> bool:
        limit = self.limit(key)
        return has_room(limit, self._count(key), 0 if limit.total is None else self._total(limit.name))

    def _count(self, key: str) -> int:
        if (count := self._running.get(key)) is None:
            count = self._running[key] = self._jobs.running_count(key)
        return count

    def _total(self, name: str) -> int:
        if (count := self._totals.get(name)) is None:
            count = self._totals[name] = self._jobs.running_of_limit(name)
        return count

    # in microseconds

    def is_open_us(self, key: str, run_at: int) -> bool:
        """Whether a job of the group that is due at `run_at` may start now."""
        return self.has_room(key) and opens_at(self.limit(key), self._rows.group(key), run_at) <= self._us

    def opens_us(self, key: str, run_at: int) -> int:
        """When that is, if the group has room."""
        return opens_at(self.limit(key), self._rows.group(key), run_at)

    def turn_us(self, key: str, run_at: int) -> int:
        """What stands for `run_at` in the order of claims."""
        return turn_of(self.limit(key), self._rows.group(key), run_at)

    def note_start_of(self, key: str) -> None:
        """One job of the group starts."""
        self._running[key], limit = self._count(key) + 1, self.limit(key)
        if limit.total is not None:
            self._totals[limit.name] = self._total(limit.name) + 1
        self._rows.put_group(key, after_start(limit, self._rows.group(key), self._us))

    # in instants, also of jobs without a limit

    def opens_at(self, key: str | None, run_at: datetime) -> datetime | None:
        """When a job of the group that is due at `run_at` may start. None: only when a run ends."""
        if key is None:
            return run_at
        return instant(opens_at(self.limit(key), self._rows.group(key), micros(run_at))) if self.has_room(key) else None

    def is_open(self, key: str | None, run_at: datetime) -> bool:
        return run_at <= self.now and (key is None or self.is_open_us(key, micros(run_at)))

    def turn(self, key: str, run_at: datetime) -> datetime:
        return instant(self.turn_us(key, micros(run_at)))

    def order(self, job: Job) -> tuple[int, datetime, JobId]:
        """The job's place in the order of claims."""
        key = job.limit_key
        return -job.priority, job.run_at if key is None else self.turn(key, job.run_at), job.id

    def note_start(self, job: Job) -> None:
        if job.limit_key is not None:
            self.note_start_of(job.limit_key)
