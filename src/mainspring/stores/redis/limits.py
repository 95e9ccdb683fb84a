"""Limits: their numbers in every shard, and the groups of jobs that they hold back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.limit import (
    MAX_HOLDERS,
    LimitGroup,
    LimitUse,
    Recount,
    StoredLimit,
    limit_key_of,
)
from ..rules.limits import limit_of, opens_at
from .handle import RedisHandle
from .hashes import read_hash
from .index import RUNNING_OF, bounds_of, limited_entry
from .limit_groups import GroupScan, limited_groups, rearm, recount
from .limit_rows import state_of
from .records import unpacked
from .releases import has_had_limits
from .shard import Shard

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredLimit).decode


class RedisLimits(RedisHandle):
    """Writes limits, and reads what they hold back."""

    async def set_limits(self, limits: Sequence[StoredLimit], *, removed: Collection[str] = (), now: datetime) -> None:
        shards = self._open()
        names = {*removed, *(limit.name for limit in limits)}
        with self._clock.outside():
            for shard in shards.all:
                await _write(shard, limits, removed)
                for group in await limited_groups(shard):
                    if group.limit in names:
                        await rearm(shard, group.name)
                await shard.call("PUBLISH", shard.base, "new")
        self._wakeups.notify("new")

    async def limits(self) -> list[LimitUse]:
        shards, found = self._open(), list[LimitUse]()
        with self._clock.outside():
            rows = await read_hash(shards.first, f"{shards.first.base}:limit")
            for name, text in sorted(rows.items()):
                scans = await shards.each(lambda shard, name=name: GroupScan.of(shard, name))  # type: ignore[misc]
                running = await shards.each(
                    lambda shard, name=name: shard.call("ZCARD", f"{shard.base}:{RUNNING_OF}{name}")  # type: ignore[misc]
                )
                keys = {key for scan in scans for key in scan.remembered}
                found.append(LimitUse(limit=_decode(text), running=sum(running), groups=len(keys)))
        return found

    async def limit_groups(
        self, name: str, *, key: str | None = None, limit: int, count_up_to: int = 10_000
    ) -> list[LimitGroup]:
        shards = self._open()
        with self._clock.outside():
            found = await shards.each(lambda shard: _groups(shard, name, key, limit, count_up_to))
        groups = [group for some in found for group in some]
        return sorted(groups, key=_order)[:limit]

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        with self._clock.outside():
            shards = self._open()
            if not await has_had_limits(shards):
                return Recount((), None)
            if after is None:
                await shards.each(lambda shard: shard.script("forget", [micros(now)]))
            return await recount(shards, after, limit)


def _order(group: LimitGroup) -> tuple[int, int, str]:
    return -group.running, -group.waiting, group.limit_key


async def _write(shard: Shard, limits: Sequence[StoredLimit], removed: Collection[str]) -> None:
    key, pairs = f"{shard.base}:limit", list[str | bytes]()
    for limit in limits:
        pairs += (limit.name, _encode(limit))
    if removed:
        keys = (key, f"{shard.base}:starts", f"{shard.base}:limit-home")
        await shard.multi([("HDEL", one, *removed) for one in keys])
    if pairs:
        await shard.call("HSET", key, *pairs)


async def _groups(shard: Shard, name: str, key: str | None, limit: int, count_up_to: int) -> list[LimitGroup]:
    """The limit's groups that have jobs in this shard, the first `limit` of them."""
    scan = await GroupScan.of(shard, name)
    keys = [one for one in scan.with_jobs if key is None or one == key]
    sizes = await scan.sizes(keys)
    first = sorted(keys, key=lambda one: (-sizes[one][0], -min(sizes[one][1], count_up_to), one))[:limit]
    found = list[LimitGroup]()
    text, total = await shard.multi(
        [("HGET", f"{shard.base}:limit", name), ("ZCARD", f"{shard.base}:{RUNNING_OF}{name}")]
    )
    for one in first:
        limit_key, (running, waiting) = limit_key_of(name, one), sizes[one]
        row = limit_of(limit_key, None if text is None else _decode(text))
        ids, served = await shard.multi(
            [
                ("ZRANGEBYLEX", f"{shard.base}:{RUNNING_OF}{name}", *bounds_of(one), "LIMIT", 0, MAX_HOLDERS),
                ("HGET", f"{shard.base}:served:{name}", one),
            ]
        )
        next_at = None
        room = (row.running is None or running < row.running) and (row.total is None or total < row.total)
        if room and (run_at := await scan.first_run_at(one)) is not None:
            next_at = instant(opens_at(row, state_of(served), run_at))
        found.append(
            LimitGroup(
                limit_key=limit_key,
                running=running,
                waiting=min(waiting, count_up_to),
                next_at=next_at,
                holders=tuple(unpacked(member[len(limited_entry(limit_key, b"")) :]) for member in ids),
            )
        )
    return found
