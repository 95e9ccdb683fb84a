"""The live feed in Redis: numbered items, and until when there are readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import Clock, micros
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .document_snapshot import instant_of, transact_documents, watched_command
from .listener import RedisWakeups
from .shard import Shards


class RedisFeed:
    """The newest feed items, in the first shard."""

    _clock: Clock
    _wakeups: RedisWakeups

    def _open(self) -> Shards:
        raise NotImplementedError

    async def watch(self, *, until: datetime, now: datetime) -> None:
        with self._clock.outside():
            await transact_documents(self._open(), lambda read: read.watch(until))

    async def watched(self) -> datetime | None:
        shard = self._open().first
        with self._clock.outside():
            return instant_of(await shard.call(*watched_command(shard)))

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """After a data loss the numbers go on from the current time in microseconds, and older items are dropped.

        Every number given out before the loss is lower, so each reader sees by Feed.first that it missed items.
        """
        if not news:
            return await self.watched()
        shard, data_loss = self._open().first, self._wakeups.data_loss
        losses = len(data_loss.losses)
        least = micros(now) if data_loss.renumbered < losses else 0
        with self._clock.outside():
            until = await shard.script("publish", [MIN_FEED_ITEMS, least, *news])
        data_loss.renumbered = losses
        return instant_of(until)

    async def news(self, *, after: int, limit: int) -> Feed:
        shard = self._open().first
        with self._clock.outside():
            last, kept, texts = await shard.script("news", [after, limit])
        first = last - kept + 1
        start = max(first, after + 1)
        return Feed([FeedItem(start + n, text.decode()) for n, text in enumerate(texts)], first, last)
