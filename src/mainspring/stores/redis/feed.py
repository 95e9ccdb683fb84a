"""The live feed in Redis: numbered items, and until when there are readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .document_snapshot import instant_of, watched_command
from .handle import RedisHandle


class RedisFeed(RedisHandle):
    """The newest feed items, in the first shard."""

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """After a data loss the numbers go on from the current time in microseconds, and older items are dropped.

        Every number given out before the loss is lower, so each reader sees by Feed.first that it missed items.
        """
        shard, data_loss = self._open().first, self._wakeups.data_loss
        if not news:
            with self._clock.outside():
                return instant_of(await shard.call(*watched_command(shard)))
        losses = len(data_loss.losses)
        least = micros(now) if data_loss.renumbered < losses else 0
        with self._clock.outside():
            until = await shard.script("publish", [MIN_FEED_ITEMS, least, *news])
        data_loss.mark_renumbered(losses)
        return instant_of(until)

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        shard = self._open().first
        with self._clock.outside():
            last, kept, texts, watched = await shard.script("news", [after, limit, micros(until) if until else 0])
        first = last - kept + 1
        start = max(first, after + 1)
        items = [FeedItem(start + n, text.decode()) for n, text in enumerate(texts)]
        return Feed(items, first, last, instant_of(watched))
