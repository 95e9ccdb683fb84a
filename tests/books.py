"""Whether a Redis store's sets say of its jobs what its jobs are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from mainspring.stores.redis.index import REGISTERS, held_keys, spots
from mainspring.stores.redis.known import read_jobs
from mainspring.stores.redis.pool import Pool
from mainspring.stores.redis.records import packed, unpacked

SORTED = ("made:", "again:", "ended:", "dead:", "keys", "expiring")
SETS = ("tag:", "made-by:", "error:", "suspect", "held:", "parked:")


async def audit(pool: Pool) -> None:
    """Every entry belongs to a job that is so, and every job has its entries."""
    base = pool.place.base
    ids = [unpacked(id) for id in await pool.call("HKEYS", f"{base}:job")]
    found = await read_jobs(pool, ids)
    expected: dict[str, dict[bytes, int]] = defaultdict(dict)
    waiting: dict[str, set[bytes]] = defaultdict(set)
    keys: dict[bytes, bytes] = {}
    runs: set[bytes] = set()
    for id, (raw, job) in found.items():
        assert job is not None
        assert (raw[1] is not None) == (job.lease is not None), job
        assert raw[2] is None or job.state.final, job
        keys |= {key.encode(): packed(id) for key in held_keys(job)}
        runs |= {packed(id)} if raw[1] is not None else set()
        for spot in spots(job):
            if spot.kind == "ready":
                waiting[spot.key].add(spot.member)
            elif spot.key not in REGISTERS:
                expected[spot.key][spot.member] = spot.score
    actual, groups = await _actual(pool)
    assert actual == expected
    assert groups == waiting
    held = await pool.call("HGETALL", f"{base}:key")
    assert dict(zip(held[::2], held[1::2], strict=True)) == keys
    assert {*await pool.call("HKEYS", f"{base}:run")} == runs
    await _registers(pool, expected, waiting)


async def _actual(pool: Pool) -> tuple[dict[str, dict[bytes, int]], dict[str, set[bytes]]]:
    base = pool.place.base
    names = [
        key.decode().removeprefix(f"{base}:") for key in await pool.call("KEYS", "*") if key.startswith(base.encode())
    ]
    actual: dict[str, dict[bytes, int]] = {}
    groups: dict[str, set[bytes]] = defaultdict(set)
    for name in names:
        if name.startswith(SORTED):
            pairs = await pool.call("ZRANGE", f"{base}:{name}", 0, -1, "WITHSCORES")
            actual[name] = {member: int(float(score)) for member, score in zip(pairs[::2], pairs[1::2], strict=True)}
        elif name.startswith(SETS):
            actual[name] = dict.fromkeys(await pool.call("SMEMBERS", f"{base}:{name}"), 0)
        elif name.startswith(("ready:", "later:")):
            await _group(pool, name, groups)
    return actual, groups


async def _group(pool: Pool, name: str, groups: dict[str, set[bytes]]) -> None:
    base, (kind, _, group) = pool.place.base, name.partition(":")
    pairs = await pool.call("ZRANGE", f"{base}:{name}", 0, -1, "WITHSCORES")
    members = dict(zip(pairs[::2], map(float, pairs[1::2]), strict=True))
    assert not groups[group] & members.keys()
    groups[group] |= members.keys()
    if kind == "ready":
        assert await pool.call("SISMEMBER", f"{base}:stocked", group)
        assert set(members.values()) == {0.0}
    else:
        assert all(int.from_bytes(member[2:10], "big") == score for member, score in members.items())
        assert float(await pool.call("ZSCORE", f"{base}:next", group)) == min(members.values())


async def _registers(pool: Pool, expected: dict[str, Any], waiting: dict[str, Any]) -> None:
    base = pool.place.base
    for register, prefix in REGISTERS.items():
        named = {name.decode() for name in await pool.call("SMEMBERS", f"{base}:{register}")}
        assert {name.removeprefix(prefix) for name in expected if name.startswith(prefix)} <= named
    stocked = {name.decode() for name in await pool.call("SMEMBERS", f"{base}:stocked")}
    assert stocked <= waiting.keys()
