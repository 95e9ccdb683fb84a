"""What our user must be allowed at a Redis server: looked at first, as a script that is refused has written before."""

from __future__ import annotations

from collections.abc import Iterator

from .connection import Arg
from .shard import Shard, Shards

# The commands of the store on keys of its own, by how many words each needs after the key.
_KEY_COMMANDS = {
    0: "DEL EXISTS HGETALL HKEYS HLEN HVALS LLEN SCARD SMEMBERS ZCARD",
    1: "EXPIRE HDEL HEXISTS HGET HMGET HSCAN HSTRLEN PUBLISH RPUSH SADD SREM ZREM ZSCORE",
    2: "HINCRBY HSET HSETNX LRANGE LTRIM ZADD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZREMRANGEBYRANK "
    "ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE",
}
_OTHER_COMMANDS: tuple[tuple[Arg, ...], ...] = (("TIME",), ("SCRIPT", "LOAD", "return 1"))


async def check_permissions(shards: Shards) -> None:
    """Raises StoreError if there is one that our user may not say, and says none of them."""
    await shards.each(_check)


async def _check(shard: Shard) -> None:
    await shard.multi([])  # without transactions the rehearsal would be none
    await shard.check_allowed([*needed_commands(shard.base), *_OTHER_COMMANDS])


def needed_commands(base: str) -> Iterator[tuple[Arg, ...]]:
    for count, names in _KEY_COMMANDS.items():
        for name in names.split():
            yield name, base, *["0"] * count
    for name in ("EVAL", "EVALSHA"):
        yield name, "", 1, base
