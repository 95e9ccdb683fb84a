"""Limits: how many jobs of a task or queue run at once, and how many start in a time, over all workers."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..ids import JobId

# Between the name of a limit and the key of a group. No name and no key has it, since both are printable.
KEY_SEPARATOR = "\n"
# The name of a limit that has no row: its number of running jobs follows.
AT_ONCE = "at_once:"
MAX_LIMIT_KEY_CHARACTERS = 200
MAX_RUNNING_JOBS = 1_000_000
MAX_RATE_JOBS = 1_000_000
MAX_PER_SECONDS = 366 * 86_400
# Running jobs that a group names at most.
MAX_HOLDERS = 10
# The kind of the documents of recounts.
RECOUNT_KIND = "recount"


class StoredLimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit as the store keeps it. What is None is not limited; then jobs of different keys take turns."""

    name: str
    """`task:charge` or `queue:reports`."""
    running: int | None = None
    """Jobs of one key that run at once. 0: none starts."""
    rate: int | None = None
    """Jobs of one key that start in `per` seconds."""
    per: float = 1.0
    burst: int = 1
    """Jobs of one key that may start at once after a rest."""
    total: int | None = None
    """Jobs of all keys that run at once. 0: none starts."""
    by: tuple[str, ...] = ()
    """The parameters whose values are the key. None: one key for all."""
    declared: str = ""
    """A digest of the limit that the code has said. Empty: no code has."""


class LimitGroup(Struct, frozen=True, kw_only=True):
    """The jobs that share one place in a limit: those with the same limit_key."""

    limit_key: str
    running: int = 0
    waiting: int = 0
    """Pending jobs, due or not; counted up to the `count_up_to` of the call."""
    next_at: datetime | None = None
    """When the next job can start, if no run ends before. None: only when a run ends, or none waits."""
    holders: tuple[JobId, ...] = ()
    """The running jobs with the smallest ids, at most MAX_HOLDERS."""


class LimitUse(Struct, frozen=True, kw_only=True):
    """A limit with what it holds back."""

    limit: StoredLimit
    running: int = 0
    """Running jobs of all keys."""
    groups: int = 0
    """Keys that have running or waiting jobs; counted up to 10,000."""


class Recount(Struct, frozen=True):
    """What recount_limits() has compared."""

    wrong: tuple[str, ...]
    """The keys of the groups whose stored state differed from their jobs. They were corrected."""
    after: str | None
    """Where to go on. None: all groups were compared."""


def limit_name(limit_key: str) -> str:
    """The name of the limit of a group."""
    return limit_key.partition(KEY_SEPARATOR)[0]


def group_key(limit_key: str) -> str:
    """The key of a group within its limit; empty if the limit has one key for all."""
    return limit_key.partition(KEY_SEPARATOR)[2]


def limit_key_of(name: str, key: str = "") -> str:
    return f"{name}{KEY_SEPARATOR}{key}"
