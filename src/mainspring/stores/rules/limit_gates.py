"""Which jobs with a limit a claim may start: the counts and instants of their groups, as they change in the claim."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from ...clock import instant, micros
from ...ids import JobId
from ...records.job import Job
from ...records.limit import Limit, limit_name
from .limited_jobs import LimitedJobs
from .limits import NEW_GROUP, GroupState, after_start, has_room, limit_of, opens_at, turn_of


class LimitRows(Protocol):
    """What a claim reads of limits beside the jobs, and writes."""

    def limit(self, name: str) -> Limit | None: ...

    def group(self, limit_key: str) -> GroupState: ...

    def put_group(self, limit_key: str, state: GroupState) -> None: ...


class NoLimits:
    """No limit is stored, and no group is remembered: for a store whose jobs have no limits."""

    def limit(self, name: str) -> Limit | None:
        return None

    def group(self, limit_key: str) -> GroupState:
        return NEW_GROUP

    def put_group(self, limit_key: str, state: GroupState) -> None:
        raise AssertionError(f"this store keeps no group {limit_key!r}")


NO_LIMITS = NoLimits()


class LimitGates:
    """The gates of all groups in one claim. Jobs without a limit_key pass them."""

    def __init__(self, rows: LimitRows, jobs: LimitedJobs, now: datetime) -> None:
        self.now = now
        self._rows, self._jobs, self._us = rows, jobs, micros(now)
        self._limits: dict[str, Limit] = {}
        # Running jobs by group and by limit, with those that this claim starts.
        self._running: dict[str, int] = {}
        self._totals: dict[str, int] = {}

    def limit(self, key: str) -> Limit:
        name = limit_name(key)
        if (limit := self._limits.get(name)) is None:
            limit = self._limits[name] = limit_of(key, self._rows.limit(name))
        return limit

    def has_room(self, key: str) -> bool:
        return has_room(self.limit(key), self._count(key), self._total(limit_name(key)))

    def _count(self, key: str) -> int:
        if (count := self._running.get(key)) is None:
            count = self._running[key] = len(self._jobs.running(key))
        return count

    def _total(self, name: str) -> int:
        if (count := self._totals.get(name)) is None:
            count = self._totals[name] = self._jobs.running_of_limit(name)
        return count

    def opens_at(self, key: str | None, run_at: datetime) -> datetime | None:
        """When a job of the group that is due at `run_at` may start. None: only when a run ends."""
        if key is None:
            return run_at
        if not self.has_room(key):
            return None
        return instant(opens_at(self.limit(key), self._rows.group(key), micros(run_at)))

    def is_open(self, key: str | None, run_at: datetime) -> bool:
        """Whether a job of the group that is due at `run_at` may start now."""
        if key is None or run_at > self.now:
            return run_at <= self.now
        return self.has_room(key) and opens_at(self.limit(key), self._rows.group(key), micros(run_at)) <= self._us

    def turn(self, key: str, run_at: datetime) -> datetime:
        """What stands for `run_at` in the order of claims."""
        return instant(turn_of(self.limit(key), self._rows.group(key), micros(run_at)))

    def order(self, job: Job) -> tuple[int, datetime, JobId]:
        """The job's place in the order of claims."""
        key = job.limit_key
        return -job.priority, job.run_at if key is None else self.turn(key, job.run_at), job.id

    def note_start(self, job: Job) -> None:
        """One job of the group starts."""
        if (key := job.limit_key) is None:
            return
        self._running[key], name = self._count(key) + 1, limit_name(key)
        self._totals[name] = self._total(name) + 1
        self._rows.put_group(key, after_start(self.limit(key), self._rows.group(key), self._us))
