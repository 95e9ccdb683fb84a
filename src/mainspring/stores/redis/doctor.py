"""Checks of Redis servers: those that refuse a server when the store is opened, and the findings of doctor."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import StoreError
from ...records.finding import Finding
from .acl import check_permissions
from .aside import records_finding
from .server import RedisServer
from .shard import Shards

Info = dict[str, str]


async def read_info(server: RedisServer) -> Info:
    text = (await server.call("INFO")).decode()
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value for name, _, value in lines}


async def check_servers(shards: Shards) -> None:
    """Raises StoreError if a server may evict keys, lacks permissions, or is not what the URL says."""
    shown, kind = shards.url.shown, shards.url.kind
    for found in [await read_info(server) for server in await shards.connector.servers()]:
        policy = found.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and found.get("maxmemory", "0") != "0":
            raise StoreError(
                f"{shown} may evict jobs: its maxmemory-policy is {policy}; set it to noeviction "
                "(CONFIG SET maxmemory-policy noeviction, and in redis.conf)"
            )
        if found.get("cluster_enabled") == "1" and kind != "cluster":
            raise StoreError(f"{shown} is a node of a cluster: use redis+cluster:// with the same host")
    await check_permissions(shards)
    if kind == "cluster":
        await _check_shard_count(shards)


async def _check_shard_count(shards: Shards) -> None:
    """Raises StoreError if the store was created with another number of shards: they decide where a queue is."""
    count, shard = len(shards.all), shards.anchor
    _, kept = await shard.multi(
        [
            ("HSETNX", f"{shard.base}:meta", "homes", count),
            ("HGET", f"{shard.base}:meta", "homes"),
        ]
    )
    if int(kept) != count:
        shown, kept = shards.url.shown, int(kept)
        raise StoreError(f"{shown} keeps its queues in {kept} homes, not {count}: use ?homes={kept}")


async def findings(shards: Shards, losses: list[str]) -> list[Finding]:
    """What doctor reports about the servers and the data. `losses` are the data losses seen by this process."""
    servers = [await read_info(server) for server in await shards.connector.servers()]
    stale = await shards.each(lambda shard: shard.call("HGET", f"{shard.base}:health", "stale"))
    return [
        _servers(servers),
        _durability(servers),
        max(map(_memory, servers), key=lambda one: one.verdict != "ok"),
        _losses(losses),
        _stale(sum(int(number or 0) for number in stale)),
        await records_finding(shards),
    ]


def _servers(servers: Sequence[Info]) -> Finding:
    names = {_name(found) for found in servers}
    count = f", {len(servers)} masters" if len(servers) > 1 else ""
    return Finding("server", "ok", f"{' and '.join(sorted(names))}{count}")


def _name(found: Info) -> str:
    if "valkey_version" in found:
        return f"Valkey {found['valkey_version']}"
    return f"Redis {found.get('redis_version', '?')}"


def _losses(losses: list[str]) -> Finding:
    if not losses:
        return Finding("epoch", "ok", "no data loss was seen")
    return Finding(
        "epoch", "bad", losses[-1], "look for jobs that were accepted before the loss, and enqueue them again"
    )


def _stale(number: int) -> Finding:
    if not number:
        return Finding("index", "ok", "every index entry that was read has its job")
    text = f"{number} index entries without a job were found and removed"
    return Finding("index", "warn", text, "check whether the server was restored from an older copy")


def _durability(servers: Sequence[Info]) -> Finding:
    if all(found.get("aof_enabled", "0") == "1" for found in servers):
        return Finding("durability", "ok", "appendonly is on: a crash may take the last second (appendfsync everysec)")
    return Finding(
        "durability",
        "warn",
        "appendonly is off: a crash of the server loses everything written since its last snapshot",
        "CONFIG SET appendonly yes, and in redis.conf",
    )


def _memory(found: Info) -> Finding:
    used, most = int(found.get("used_memory", 0)), int(found.get("maxmemory", 0))
    text = f"{used / 2**20:.0f} MiB used" + (f" of {most / 2**20:.0f}" if most else "")
    if most and used > 0.8 * most:
        return Finding("memory", "warn", text, "raise maxmemory, or shorten the retention of finished jobs")
    return Finding("memory", "ok", text)


def listener_finding(listening: bool, error_text: str) -> Finding:
    if listening:
        return Finding("listener", "ok", "wake-ups from other processes are received")
    remedy = "allow our user SUBSCRIBE, or look at the server's log"
    return Finding("listener", "warn", f"{error_text or 'no answer yet'}: jobs wait for the next poll", remedy)
