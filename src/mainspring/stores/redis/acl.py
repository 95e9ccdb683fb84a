"""What our user must be allowed at a Redis server: looked at first, as a script that is refused has written before."""

from __future__ import annotations

from collections.abc import Iterator

from .connection import Word
from .shard import Shard, Shards

# The commands of the store on keys of its own, by how many words each needs after the key.
_NEEDED = {
    0: "DEL EXISTS HGETALL HKEYS HLEN HVALS LLEN SCARD SMEMBERS ZCARD",
    1: "EXPIRE HDEL HEXISTS HGET HMGET HSCAN HSTRLEN PUBLISH RPUSH SADD SREM ZREM ZSCORE",
    2: "HINCRBY HSET HSETNX LRANGE LTRIM ZADD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZREMRANGEBYRANK "
    "ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE",
}
_OTHERS: tuple[tuple[Word, ...], ...] = (("TIME",), ("SCRIPT", "LOAD", "return 1"))


async def demand(homes: Shards) -> None:
    """Raises StoreError if there is one that our user may not say, and says none of them."""
    await homes.each(_demand)


async def _demand(home: Shard) -> None:
    await home.many([])  # without transactions the rehearsal would be none
    await home.rehearse([*needed(home.base), *_OTHERS])


def needed(base: str) -> Iterator[tuple[Word, ...]]:
    for count, names in _NEEDED.items():
        for name in names.split():
            yield name, base, *["0"] * count
    for name in ("EVAL", "EVALSHA"):
        yield name, "", 1, base
