"""The memory store's live feed: the newest events, numbered, and until when a reader watches them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime

from ...clock import Clock
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .handle import MemoryHandle


class MemoryFeed(MemoryHandle):
    """The verbs on the feed; each runs under the store's lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._feed_items: deque[FeedItem] = deque(maxlen=MIN_FEED_ITEMS)
        self._last_number = 0

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        with self._locked():
            for text in news:
                self._last_number += 1
                self._feed_items.append(FeedItem(self._last_number, text))
            return self._watched

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        with self._locked():
            before = self._watched
            if until is not None:
                self._watched = max(before or until, until)
            found = [item for item in self._feed_items if item.n > after][:limit]
            return Feed(found, self._last_number - len(self._feed_items) + 1, self._last_number, before)
