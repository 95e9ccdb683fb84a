"""Items of the live feed, as the store keeps them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

# Minimum items a store keeps: enough for a reader that was disconnected for some minutes.
MIN_FEED_ITEMS = 10_000


class FeedItem(Struct, frozen=True):
    """A numbered item of the live feed."""

    n: int
    text: str


class Feed(Struct, frozen=True):
    """A page of the live feed, and the range of numbers that the store keeps."""

    news: list[FeedItem]
    first: int
    """The number of the oldest item kept. `last + 1` if none is kept."""
    last: int
    """The newest number assigned. 0 if none was."""
    wanted_until: datetime | None = None
    """Until when the feed was wanted before this call. None if it never was."""
