"""Whether a Redis store's sets say of its jobs, documents and entries what those are."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from mainspring.clock import instant, micros
from mainspring.records.circuit import Circuit
from mainspring.records.feed import MIN_FEED_ITEMS
from mainspring.stores.redis.index import REGISTERS, held_keys, spots
from mainspring.stores.redis.kept import document_of, entries_of
from mainspring.stores.redis.known import read_hash, read_home
from mainspring.stores.redis.records import packed, unpacked
from mainspring.stores.redis.shard import Shard, Shards

SORTED = ("made:", "tag:", "made-by:", "error:", "again:", "ended:", "final:", "dead:", "keys", "expiring", "odd")
KEPT = ("doc:", "docs:", "fading", "entry", "trail", "audited", "news")
SETS = ("suspect", "held:", "parked:")


class CommitUnderWay(AssertionError):
    """A commit over several homes has not ended: of a writer that is at it, or of one that was killed."""


async def audit(homes: Shards) -> None:
    """Every entry belongs to a job that is so, and every job has its entries, in the home of its queue."""
    keys: dict[bytes, bytes] = {}
    for home in homes.all:
        if await home.call("EXISTS", *(f"{home.base}:{name}" for name in ("lock", "promise", "decided"))):
            raise CommitUnderWay(f"a commit of {home.base} has not ended")
    for home in homes.all:
        keys |= await _audit(homes, home)
    open = {one.task: one.open_until for one in await _circuits(homes) if one.open_until is not None}
    held: dict[bytes, bytes] = {}
    for home in homes.all:
        assert {task: instant(int(at)) for task, at in (await read_hash(home, f"{home.base}:open")).items()} == open
        pairs = await home.call("HGETALL", f"{home.base}:key")
        assert all(homes.keeping(key.decode()) is home for key in pairs[::2])
        held |= zip(pairs[::2], pairs[1::2], strict=True)
    assert held == keys
    await _kept(homes)
    schedules, index = await homes.first.call("HKEYS", f"{homes.first.base}:schedule"), "schedules"
    assert await _scores(homes.first, index) == dict.fromkeys(schedules, 0)


async def _circuits(homes: Shards) -> list[Circuit]:
    texts = await homes.first.call("HVALS", f"{homes.first.base}:circuit")
    return [msgspec.json.decode(text, type=Circuit) for text in texts]


async def _audit(homes: Shards, home: Shard) -> dict[bytes, bytes]:
    """The keys that its jobs hold."""
    ids = [unpacked(id) for id in await home.call("HKEYS", f"{home.base}:job")]
    expected: dict[str, dict[bytes, int]] = defaultdict(dict)
    waiting: dict[str, set[bytes]] = defaultdict(set)
    keys: dict[bytes, bytes] = {}
    runs: set[bytes] = set()
    for id, (raw, job) in (await read_home(home, ids)).items():
        assert job is not None
        assert homes.of(job.queue) is home, job
        assert (raw[1] is not None) == (job.lease is not None), job
        assert raw[2] is None or job.state.final, job
        keys |= {key.encode(): packed(id) for key in held_keys(job)}
        runs |= {packed(id)} if raw[1] is not None else set()
        for spot in spots(job):
            if spot.kind == "ready":
                waiting[spot.key].add(spot.member)
            elif spot.key not in REGISTERS:
                expected[spot.key][spot.member] = spot.score
    actual, groups = await _actual(home)
    assert actual == expected
    assert groups == waiting
    assert {*await home.call("HKEYS", f"{home.base}:run")} == runs
    await _registers(home, expected, waiting)
    return keys


async def _actual(home: Shard) -> tuple[dict[str, dict[bytes, int]], dict[str, set[bytes]]]:
    base = home.base
    names = await _names(home)
    actual: dict[str, dict[bytes, int]] = {}
    groups: dict[str, set[bytes]] = defaultdict(set)
    for name in names:
        if name.startswith(SORTED):
            actual[name] = await _scores(home, name)
        elif name.startswith(SETS):
            actual[name] = dict.fromkeys(await home.call("SMEMBERS", f"{base}:{name}"), 0)
        elif name.startswith(("ready:", "later:")):
            await _group(home, name, groups)
    return actual, groups


async def _names(home: Shard) -> list[str]:
    keys = [key.decode() for key in await home.call("KEYS", "*")]
    return [key.removeprefix(f"{home.base}:") for key in keys if key.startswith(home.base)]


async def _scores(home: Shard, name: str) -> dict[bytes, int]:
    pairs = await home.call("ZRANGE", f"{home.base}:{name}", 0, -1, "WITHSCORES")
    return {member: int(float(score)) for member, score in zip(pairs[::2], pairs[1::2], strict=True)}


async def _group(home: Shard, name: str, groups: dict[str, set[bytes]]) -> None:
    base, (kind, _, group) = home.base, name.partition(":")
    pairs = await home.call("ZRANGE", f"{base}:{name}", 0, -1, "WITHSCORES")
    members = dict(zip(pairs[::2], map(float, pairs[1::2]), strict=True))
    assert not groups[group] & members.keys()
    groups[group] |= members.keys()
    if kind == "ready":
        assert await home.call("SISMEMBER", f"{base}:stocked", group)
        assert set(members.values()) == {0.0}
    else:
        assert all(int.from_bytes(member[2:10], "big") == score for member, score in members.items())
        assert float(await home.call("ZSCORE", f"{base}:next", group)) == min(members.values())


async def _registers(home: Shard, expected: dict[str, Any], waiting: dict[str, Any]) -> None:
    base = home.base
    for register, prefix in REGISTERS.items():
        named = {name.decode() for name in await home.call("SMEMBERS", f"{base}:{register}")}
        assert {name.removeprefix(prefix) for name in expected if name.startswith(prefix)} <= named
    stocked = {name.decode() for name in await home.call("SMEMBERS", f"{base}:stocked")}
    assert stocked <= waiting.keys()


async def _kept(homes: Shards) -> None:
    """Documents, entries and news are in the first home, each in the orders it is read by."""
    for home in homes.all[1:]:
        assert not [name for name in await _names(home) if name.startswith(KEPT)]
    home, fading = homes.first, dict[bytes, int]()
    kinds = [name.partition(":")[2] for name in await _names(home) if name.startswith(("doc:", "docs:"))]
    for kind in kinds:
        texts = await read_hash(home, f"{home.base}:doc:{kind}")
        documents = [document_of((kind, name), text) for name, text in texts.items()]
        assert {one.kind for one in documents} == {kind}
        assert await _scores(home, f"docs:{kind}") == {one.name.encode(): 0 for one in documents}
        for one in documents:
            if one.expires_at is not None:
                fading[f"{kind}\0{one.name}".encode()] = micros(one.expires_at)
    assert await _scores(home, "fading") == fading
    texts = await read_hash(home, f"{home.base}:entry")
    entries = entries_of(texts.items())
    assert len(entries) == len(texts)
    assert await _scores(home, "trail") == {one.id.encode(): 0 for one in entries}
    assert await _scores(home, "audited") == {one.id.encode(): micros(one.at) for one in entries}
    kept, told = await home.many([("LLEN", f"{home.base}:news"), ("HGET", f"{home.base}:meta", "told")])
    assert kept <= min(MIN_FEED_ITEMS, int(told or 0))
