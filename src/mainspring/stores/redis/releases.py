"""Releases beside each other: older ones do not know flows, and are shut out once one is stored."""

from __future__ import annotations

from datetime import datetime

from ...errors import SchemaMismatch
from ...ids import WorkerId
from .hashes import to_dict
from .shard import Shard, Shards
from .worker_rows import knows_flows, workers_of

# The version of stored records that this release knows. `oldest`, a field of the hash `meta`, is the version that a
# release has to know: releases without flows know the first, those that count items in rows only the second, those
# without signals the third, and those without plans that grow the fourth.
RECORDS_VERSION = 5
FLOWS_VERSION = 5
# What a release without flows meets in the field `turns` of `meta`, which it increments with each beat: its next beat
# fails. Later releases count in another field, and look at `oldest`.
SHUT_OUT = "upgrade mainspring: this store has flows"


async def older_workers(shards: Shards, now: datetime) -> list[WorkerId]:
    """The live workers of releases without flows. If there are none, the next beat of such a release fails from now on.

    A release that begins a beat before that, and ends it afterwards, is found by the second look.
    """
    key = f"{shards.first.base}:meta"
    if shards.has_flows and await shards.first.call("HGET", key, "oldest") is not None:
        return []  # it was set when no older worker lived, and not lost since
    oldest, alive = await _look(shards.first, now)
    if not alive and _version(oldest) < FLOWS_VERSION:
        await shards.first.multi([("HSET", key, "oldest", FLOWS_VERSION, "turns", SHUT_OUT)])
        _, alive = await _look(shards.first, now)
    shards.has_flows = not alive
    return alive


async def _look(shard: Shard, now: datetime) -> tuple[bytes | None, list[WorkerId]]:
    """The field `oldest`, and the live workers of releases without flows."""
    oldest, pairs = await shard.multi([("HGET", f"{shard.base}:meta", "oldest"), ("HGETALL", f"{shard.base}:worker")])
    rows = to_dict(pairs)
    alive = (id for id, row in workers_of(rows).items() if row.until > now)
    return oldest, sorted(id for id in alive if not knows_flows(rows[id]))


def check_records_version(oldest: bytes | None, shown: str) -> None:
    """Raises SchemaMismatch if the store has records of a later version than this release knows."""
    if (version := _version(oldest)) > RECORDS_VERSION:
        known = f"this release knows {RECORDS_VERSION}"
        raise SchemaMismatch(f"{shown} has records of version {version}, {known}: upgrade mainspring")


def _version(oldest: bytes | None) -> int:
    return 1 if oldest is None else int(oldest)
