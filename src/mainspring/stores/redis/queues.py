"""Queues: pausing and resuming them, and which of them are paused."""

from __future__ import annotations

from .handle import RedisHandle
from .shard import Shards


class RedisQueues(RedisHandle):
    """Pauses and resumes queues."""

    async def pause_queue(self, name: str, paused: bool) -> None:
        shard = self._open().of(name)
        with self._clock.outside():
            await shard.multi(
                [
                    ("SADD" if paused else "SREM", f"{shard.base}:paused", name),
                    ("PUBLISH", shard.base, "new"),
                ]
            )
        self._wakeups.notify("new")


async def paused_queues(shards: Shards) -> set[str]:
    sets = await shards.each(lambda shard: shard.call("SMEMBERS", f"{shard.base}:paused"))
    return {name.decode() for some in sets for name in some}
