"""What a Redis server says of itself, and what of it no job can live with."""

from __future__ import annotations

from ...errors import StoreError
from ...finding import Finding
from .pool import Pool


async def info(pool: Pool) -> dict[str, str]:
    text = (await pool.call("INFO")).decode()
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value for name, _, value in lines}


async def refuse(pool: Pool) -> None:
    """A server that may throw keys away loses jobs, so none are given to it."""
    found = await info(pool)
    policy = found.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and found.get("maxmemory", "0") != "0":
        raise StoreError(
            f"{pool.place.shown} may throw away jobs: its maxmemory-policy is {policy}; set it to noeviction "
            "(CONFIG SET maxmemory-policy noeviction, and in redis.conf)"
        )


async def condition(pool: Pool, losses: list[str]) -> list[Finding]:
    found = await info(pool)
    name = "Valkey" if "valkey_version" in found else "Redis"
    version = found.get("valkey_version") or found.get("redis_version", "?")
    stale = int(await pool.call("HGET", f"{pool.place.base}:health", "stale") or 0)
    return [
        Finding("server", "ok", f"{name} {version}"), _durability(found), _memory(found), _losses(losses),
        _stale(stale),
    ]  # fmt: skip


def _losses(losses: list[str]) -> Finding:
    if not losses:
        return Finding("epoch", "ok", "the server knows all that it knew")
    return Finding("epoch", "bad", losses[-1], "look for jobs that were accepted before, and enqueue them again")


def _stale(number: int) -> Finding:
    if not number:
        return Finding("index", "ok", "no entry without its job was met")
    text = f"{number} entries without their jobs were met, and removed"
    return Finding("index", "warn", text, "look whether the server was restored from an older copy")


def _durability(found: dict[str, str]) -> Finding:
    if found.get("aof_enabled", "0") == "1":
        return Finding("durability", "ok", "appendonly is on: a crash may take the last second (appendfsync everysec)")
    return Finding(
        "durability", "warn", "appendonly is off: a crash of the server loses what came since its last snapshot",
        "CONFIG SET appendonly yes, and in redis.conf",
    )  # fmt: skip


def _memory(found: dict[str, str]) -> Finding:
    used, most = int(found.get("used_memory", 0)), int(found.get("maxmemory", 0))
    text = f"{used / 2**20:.0f} MiB used" + (f" of {most / 2**20:.0f}" if most else "")
    if most and used > 0.8 * most:
        return Finding("memory", "warn", text, "raise maxmemory, or shorten the retention of finished jobs")
    return Finding("memory", "ok", text)
