"""The commands that our user needs on a Redis server.

They are checked when the store is opened: a script that meets a forbidden command keeps what it wrote before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .connection import Arg
from .shard import Shard, Shards

# Commands on keys of the store, by the number of arguments that each needs after the key.
_KEY_COMMANDS = {
    0: "DEL EXISTS HGETALL HKEYS HLEN HVALS LLEN SCARD SMEMBERS ZCARD",
    1: "EXPIRE HDEL HEXISTS HGET HMGET HSCAN HSTRLEN PUBLISH RPUSH SADD SREM SSCAN ZREM ZSCORE",
    2: "HINCRBY HSET HSETNX LRANGE LTRIM ZADD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZREMRANGEBYRANK "
    "ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE",
}
_OTHER_COMMANDS: tuple[tuple[Arg, ...], ...] = (("TIME",), ("SCRIPT", "LOAD", "return 1"))


async def check_permissions(shards: Shards) -> None:
    """Raises StoreError if our user may not run one of the commands. None of them is run."""
    await shards.each(_check)


async def _check(shard: Shard) -> None:
    await shard.multi([])  # MULTI itself must be allowed, or the commands would be run
    await shard.check_allowed([*needed_commands(shard.base), *_OTHER_COMMANDS])


def needed_commands(base: str) -> Iterator[tuple[Arg, ...]]:
    """An example of each command on the store's keys, with enough arguments to be accepted."""
    for count, names in _KEY_COMMANDS.items():
        for name in names.split():
            yield name, base, *["0"] * count
    for name in ("EVAL", "EVALSHA"):
        yield name, "", 1, base
