"""The rules of limits: which group of jobs may start one, when, and in which order. Pure.

A job with a limit_key belongs to the group of that key. Whether it counts is a function of the job alone: it counts
while it is running. All instants are integers of microseconds, and so are exact on every store.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from ...records.job import Job, State
from ...records.limit import AT_ONCE, StoredLimit, limit_name

_SECOND_MICROS = 1_000_000
# How far the order of groups may run ahead of the clock, when many jobs are started at one instant.
MAX_AHEAD_MICROS = _SECOND_MICROS


class GroupState(Struct, frozen=True):
    """What a group remembers beside its jobs. A group that is idle needs no memory: see is_forgotten()."""

    tat: int = 0
    """The theoretical arrival time of GCRA: when the next start would be on time at the exact rate."""
    served_at: int = 0
    """A microsecond after it last started a job, and one more for each job started at the same time."""


NEW_GROUP = GroupState()


def counts(job: Job) -> bool:
    """Whether the job takes a place of its limit."""
    return job.limit_key is not None and job.state is State.RUNNING


def limit_of(limit_key: str, stored: StoredLimit | None) -> StoredLimit:
    """The limit of a group. One with AT_ONCE has its number in its name; one that is not stored limits nothing."""
    name = limit_name(limit_key)
    if name.startswith(AT_ONCE):
        return StoredLimit(name=name, running=int(name[len(AT_ONCE) :]))
    return stored or StoredLimit(name=name)


def interval_of(limit: StoredLimit) -> int:
    """The microseconds between two starts at the exact rate, rounded up: never more start than the rate allows."""
    return 0 if limit.rate is None else ceil(limit.per * _SECOND_MICROS / limit.rate)


def tolerance_of(limit: StoredLimit) -> int:
    """How many microseconds early a start may be."""
    return (limit.burst - 1) * interval_of(limit)


def has_room(limit: StoredLimit, running: int, total: int) -> bool:
    """Whether one more job of a group may run: `running` of the group and `total` of the limit do."""
    return (limit.running is None or running < limit.running) and (limit.total is None or total < limit.total)


def opens_at(limit: StoredLimit, state: GroupState, run_at: int) -> int:
    """When the group may start a job that is due at `run_at`, if it has room."""
    at = max(run_at, state.served_at - MAX_AHEAD_MICROS)
    return at if limit.rate is None else max(at, state.tat - tolerance_of(limit))


def turn_of(limit: StoredLimit, state: GroupState, run_at: int) -> int:
    """What stands for the job's run_at in the order of claims: a group that was just served stands behind all who have
    waited since."""
    return max(opens_at(limit, state, run_at), state.served_at)


def after_start(limit: StoredLimit, state: GroupState, now: int) -> GroupState:
    """The group after it has started a job."""
    tat = state.tat if limit.rate is None else max(state.tat, now) + interval_of(limit)
    return GroupState(tat, min(max(now, state.served_at) + 1, now + MAX_AHEAD_MICROS))


def is_forgotten(state: GroupState, now: int) -> bool:
    """Whether a group without pending and running jobs needs no row any longer."""
    return state.tat <= now and state.served_at <= now
