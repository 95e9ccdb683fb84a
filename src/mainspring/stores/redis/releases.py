"""Releases beside each other: older ones do not know flows or limits, and are shut out once such a job is stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ...errors import SchemaMismatch
from ...ids import WorkerId
from .hashes import to_dict
from .shard import Shard, Shards
from .worker_rows import Known, known_by, workers_of

# The version of stored records that this release knows. `oldest`, a field of the hash `meta`, is the version that a
# release has to know: releases without flows know the first, those that count items in rows only the second, those
# without signals the third, those without plans that grow the fourth, and those without limits the fifth. turns.lua
# knows LIMITS_VERSION too.
RECORDS_VERSION = 6
FLOWS_VERSION = 5
LIMITS_VERSION = 6
# What a release without flows meets in the field `turns` of `meta`, which it increments with each beat: its next beat
# fails. Later releases count in another field, and look at `oldest`.
SHUT_OUT = "upgrade mainspring: this store has flows"


async def older_workers(shards: Shards, now: datetime) -> list[WorkerId]:
    """The live workers of releases without flows. If there are none, the next beat of such a release fails from now on.

    A release that begins a beat before that, and ends it afterwards, is found by the second look.
    """
    shards.has_flows, alive = await _shut_out(shards, now, FLOWS_VERSION, shards.has_flows, lambda known: known.flows)
    return alive


async def workers_without_limits(shards: Shards, now: datetime) -> list[WorkerId]:
    """As older_workers(), of releases without limits."""
    shards.has_limits, alive = await _shut_out(
        shards, now, LIMITS_VERSION, shards.has_limits, lambda known: known.limits
    )
    return alive


async def _shut_out(
    shards: Shards, now: datetime, version: int, done: bool, knows: Callable[[Known], bool]
) -> tuple[bool, list[WorkerId]]:
    """Whether releases that know no records of that version are shut out, and their live workers. `done`: they were."""
    key = f"{shards.first.base}:meta"
    if done and _version(await shards.first.call("HGET", key, "oldest")) >= version:
        return True, []  # it was set when no older worker lived, and not lost since
    oldest, alive = await _look(shards.first, now, knows)
    if not alive and _version(oldest) < version:
        await shards.first.multi([("HSET", key, "oldest", version, "turns", SHUT_OUT)])
        _, alive = await _look(shards.first, now, knows)
    return not alive, alive


async def _look(shard: Shard, now: datetime, knows: Callable[[Known], bool]) -> tuple[bytes | None, list[WorkerId]]:
    """The field `oldest`, and the live workers of releases that do not know it."""
    oldest, pairs = await shard.multi([("HGET", f"{shard.base}:meta", "oldest"), ("HGETALL", f"{shard.base}:worker")])
    rows = to_dict(pairs)
    alive = (id for id, row in workers_of(rows).items() if row.until > now)
    return oldest, sorted(id for id in alive if not knows(known_by(rows[id])))


async def has_had_limits(shards: Shards) -> bool:
    """Whether a job with a limit was ever stored."""
    found = await shards.each(lambda shard: shard.call("HGET", f"{shard.base}:meta", "oldest"))
    return max(map(_version, found)) >= LIMITS_VERSION


def check_records_version(oldest: bytes | None, shown: str) -> None:
    """Raises SchemaMismatch if the store has records of a later version than this release knows."""
    if (version := _version(oldest)) > RECORDS_VERSION:
        known = f"this release knows {RECORDS_VERSION}"
        raise SchemaMismatch(f"{shown} has records of version {version}, {known}: upgrade mainspring")


def _version(oldest: bytes | None) -> int:
    return 1 if oldest is None else int(oldest)
