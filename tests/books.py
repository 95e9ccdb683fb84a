"""An audit of a Redis store: its index must match its jobs, documents and audit entries."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from mainspring.clock import instant, micros
from mainspring.records.circuit import Circuit
from mainspring.records.feed import MIN_FEED_ITEMS
from mainspring.records.flow import Flow
from mainspring.records.limit import KEY_SEPARATOR
from mainspring.records.step import StepRef, position_of
from mainspring.stores.redis.document_snapshot import document_of, entries_of
from mainspring.stores.redis.hashes import read_hash
from mainspring.stores.redis.index import REGISTERS, RUNNING_OF, index_entries, limited_entry, steps_key
from mainspring.stores.redis.item_counts import counted_in
from mainspring.stores.redis.job_reads import read_shard
from mainspring.stores.redis.limit_groups import key_of, run_at_of
from mainspring.stores.redis.reads import fetch
from mainspring.stores.redis.records import packed, unpacked
from mainspring.stores.redis.shard import Shard, Shards
from mainspring.stores.redis.snapshot import Snapshot
from mainspring.stores.rules.keys import keys_held_by
from mainspring.stores.rules.read_sets import Name

SORTED = (
    "made:",
    "tag:",
    "made-by:",
    "error:",
    "again:",
    "ended:",
    "final:",
    "dead:",
    "keys",
    "expiring",
    "odd",
    "steps:",
    "limited:",
)
KEPT = ("doc:", "docs:", "fading", "entry", "trail", "audited", "news")
# Bytes of a group's first entry in the index `heads`.
HEAD_BYTES = 26
SETS = ("suspect", "held:", "parked:")


class CommitUnderWay(AssertionError):
    """A two-phase commit has not ended: its owner is still working, or was killed."""


async def audit(shards: Shards) -> None:
    """Every index entry belongs to a job, and every job has its entries, in the shard of its queue."""
    keys: dict[bytes, bytes] = {}
    for shard in shards.all:
        if await shard.call("EXISTS", *(f"{shard.base}:{name}" for name in ("lock", "promise", "decided"))):
            raise CommitUnderWay(f"a commit of {shard.base} has not ended")
    for shard in shards.all:
        keys |= await _audit(shards, shard)
    open = {one.task: one.open_until for one in await _circuits(shards) if one.open_until is not None}
    held: dict[bytes, bytes] = {}
    for shard in shards.all:
        assert {task: instant(int(at)) for task, at in (await read_hash(shard, f"{shard.base}:open")).items()} == open
        pairs = await shard.call("HGETALL", f"{shard.base}:key")
        assert all(shards.of_key(key.decode()) is shard for key in pairs[::2])
        held |= zip(pairs[::2], pairs[1::2], strict=True)
    assert held == keys
    for shard in shards.all:
        await _flows(shards, shard)
    await _kept(shards)
    schedules, index = await shards.first.call("HKEYS", f"{shards.first.base}:schedule"), "schedules"
    assert await _scores(shards.first, index) == dict.fromkeys(schedules, 0)


async def _flows(shards: Shards, shard: Shard) -> None:
    """Every flow has a plan beside it, is in the shard of its queue, and has unfinished steps, or waits for a signal,
    unless it is over."""
    rows = await read_hash(shard, f"{shard.base}:flow")
    flows = {id: msgspec.json.decode(text, type=Flow) for id, text in rows.items()}
    assert (await read_hash(shard, f"{shard.base}:plan")).keys() == {id for id, flow in flows.items() if flow.planned}
    for id, flow in flows.items():
        assert (flow.id, shards.of(flow.queue)) == (id, shard)
        sizes = await shards.each(lambda one, id=id: one.call("ZCARD", f"{one.base}:{steps_key(id, 'open')}"))  # type: ignore[misc]
        assert sum(sizes) or flow.state == "over" or flow.counts or flow.waits or not flow.planned, flow
    for id, text in (await read_hash(shard, f"{shard.base}:items")).items():
        await _items(shards, shard, id, text)


async def _items(shards: Shards, shard: Shard, id: str, text: bytes) -> None:
    """What is counted beside a flow's row is of maps whose items are in this shard, and have not all ended."""
    found = Snapshot()
    await fetch(shards, found, [Name("flow", id)])
    flow, graph = found.flows[id].flow, found.flows[id].graph
    assert flow is not None
    assert graph is not None
    for key, (counted, every) in counted_in({"": text}).items():
        n = StepRef(id, key, "").number
        counts = flow.counts[n]
        assert key == position_of(n, 0, flow.lives.get(n, 0))
        assert shards.of(graph.steps[n].options.queue) is shard
        assert every == (counts.made - counts.ended + counted if counts.closed else None)
        assert not counts.done, (counts, text)


async def _circuits(shards: Shards) -> list[Circuit]:
    texts = await shards.first.call("HVALS", f"{shards.first.base}:circuit")
    return [msgspec.json.decode(text, type=Circuit) for text in texts]


async def _audit(shards: Shards, shard: Shard) -> dict[bytes, bytes]:
    """The keys that its jobs hold."""
    ids = [unpacked(id) for id in await shard.call("HKEYS", f"{shard.base}:job")]
    expected: dict[str, dict[bytes, int]] = defaultdict(dict)
    waiting: dict[str, set[bytes]] = defaultdict(set)
    keys: dict[bytes, bytes] = {}
    runs: set[bytes] = set()
    for id, (raw, job) in (await read_shard(shard, ids)).items():
        assert job is not None
        assert shards.of(job.queue) is shard, job
        assert (raw[1] is not None) == (job.lease is not None), job
        assert raw[2] is None or job.state.final, job
        keys |= {key.encode(): packed(id) for key in keys_held_by(job)}
        runs |= {packed(id)} if raw[1] is not None else set()
        for entry in index_entries(job):
            if entry.kind in ("ready", "limited"):
                waiting[entry.key.partition(KEY_SEPARATOR)[0]].add(entry.member)
            elif entry.key not in REGISTERS:
                expected[entry.key][entry.member] = entry.score
    actual, groups = await _actual(shard)
    assert actual == expected
    assert groups == waiting
    assert {*await shard.call("HKEYS", f"{shard.base}:run")} == runs
    await _registers(shard, expected, waiting)
    return keys


async def _actual(shard: Shard) -> tuple[dict[str, dict[bytes, int]], dict[str, set[bytes]]]:
    names = await _names(shard)
    actual: dict[str, dict[bytes, int]] = {}
    groups: dict[str, set[bytes]] = defaultdict(set)
    for name in names:
        if name.startswith(SORTED):
            actual[name] = await _scores(shard, name)
        elif name.startswith(SETS):
            actual[name] = await _members(shard, name)
        elif name.startswith(("ready:", "later:")):
            await _group(shard, name, groups)
        elif name.startswith(RUNNING_OF):
            actual[name] = await _scores(shard, name)
    return actual, groups


async def _members(shard: Shard, name: str) -> dict[bytes, int]:
    return dict.fromkeys(await shard.call("SMEMBERS", f"{shard.base}:{name}"), 0)


async def _names(shard: Shard) -> list[str]:
    keys = [key.decode() for key in await shard.call("KEYS", "*")]
    return [key.removeprefix(f"{shard.base}:") for key in keys if key.startswith(shard.base)]


async def _scores(shard: Shard, name: str) -> dict[bytes, int]:
    """The members of a sorted set with their scores."""
    pairs = await shard.call("ZRANGE", f"{shard.base}:{name}", 0, -1, "WITHSCORES")
    return {member: int(float(score)) for member, score in zip(pairs[::2], pairs[1::2], strict=True)}


async def _group(shard: Shard, name: str, groups: dict[str, set[bytes]]) -> None:
    base, (kind, _, group) = shard.base, name.partition(":")
    pairs = await shard.call("ZRANGE", f"{base}:{name}", 0, -1, "WITHSCORES")
    members = dict(zip(pairs[::2], map(float, pairs[1::2]), strict=True))
    assert not groups[group] & members.keys()
    groups[group] |= members.keys()
    if kind == "ready":
        limited = group.count("\0") == 2
        assert await shard.call("SISMEMBER", f"{base}:{'limited' if limited else 'stocked'}", group)
        if limited:
            await _turns(shard, group, sorted(members))
        assert set(members.values()) == {0.0}
    else:
        at = run_at_of if group.count("\0") == 2 else lambda member: int.from_bytes(member[2:10], "big")
        assert all(at(member) == score for member, score in members.items())
        assert float(await shard.call("ZSCORE", f"{base}:next", group)) == min(members.values())


async def _turns(shard: Shard, group: str, members: list[bytes]) -> None:
    """Every key with ready jobs has a turn, that of its first job or an earlier one, or waits for its limit."""
    base, limit = shard.base, group.split("\0")[2]
    turns = await read_hash(shard, f"{base}:turn:{group}")
    firsts = {key_of(member): member[2 + len(key_of(member).encode()) :] for member in reversed(members)}
    assert turns.keys() == firsts.keys()
    waiting = await _scores(shard, f"rates:{group}")
    for key, turn in turns.items():
        if turn:
            first = firsts[key].ljust(HEAD_BYTES, b"\0")[:HEAD_BYTES]
            assert (turn[:2], turn[10:]) == (first[:2], first[10:])
            assert turn[2:10] >= first[2:10]
        else:
            member = limited_entry(f"{limit}{KEY_SEPARATOR}{key}", group.encode())
            blocked = await shard.call("ZSCORE", f"{base}:blocked:{limit}", member)
            assert blocked is not None or key.encode() in waiting, (group, key)
    members = [turn + key.encode() for key, turn in turns.items() if turn]
    assert await _scores(shard, f"turns:{group}") == dict.fromkeys(members, 0)


async def _registers(shard: Shard, expected: dict[str, Any], waiting: dict[str, Any]) -> None:
    base = shard.base
    for register, prefix in REGISTERS.items():
        named = {name.decode() for name in await shard.call("SMEMBERS", f"{base}:{register}")}
        assert {name.removeprefix(prefix) for name in expected if name.startswith(prefix)} <= named
    stocked = {name.decode() for name in await shard.call("SMEMBERS", f"{base}:stocked")}
    assert stocked <= waiting.keys()
    heads = await read_hash(shard, f"{base}:head")
    assert await _scores(shard, "heads") == {head + group.encode(): 0 for group, head in heads.items()}
    if heads:
        firsts = {name: await shard.call("ZRANGE", f"{base}:ready:{name}", 0, 0) for name in stocked}
        assert heads == {name: first[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for name, (first,) in firsts.items()}


async def _kept(shards: Shards) -> None:
    """Documents, audit entries and feed items are in the first shard, in all their indexes."""
    for shard in shards.all[1:]:
        assert not [name for name in await _names(shard) if name.startswith(KEPT)]
    shard, fading = shards.first, dict[bytes, int]()
    kinds = [name.partition(":")[2] for name in await _names(shard) if name.startswith(("doc:", "docs:"))]
    for kind in kinds:
        texts = await read_hash(shard, f"{shard.base}:doc:{kind}")
        documents = [document_of((kind, name), text) for name, text in texts.items()]
        assert {one.kind for one in documents} == {kind}
        assert await _scores(shard, f"docs:{kind}") == {one.name.encode(): 0 for one in documents}
        for one in documents:
            if one.expires_at is not None:
                fading[f"{kind}\0{one.name}".encode()] = micros(one.expires_at)
    assert await _scores(shard, "fading") == fading
    texts = await read_hash(shard, f"{shard.base}:entry")
    entries = entries_of(texts.items())
    assert len(entries) == len(texts)
    assert await _scores(shard, "trail") == {one.id.encode(): 0 for one in entries}
    assert await _scores(shard, "audited") == {one.id.encode(): micros(one.at) for one in entries}
    kept, told = await shard.multi([("LLEN", f"{shard.base}:news"), ("HGET", f"{shard.base}:meta", "told")])
    assert kept <= min(MIN_FEED_ITEMS, int(told or 0))
