"""Items of the live feed, as the store keeps them."""

from __future__ import annotations

from msgspec import Struct

# As many news are kept at least: enough for a reader that was away for some minutes.
MIN_FEED_ITEMS = 10_000


class FeedItem(Struct, frozen=True):
    """Something that has happened, for those who watch."""

    n: int
    text: str


class Feed(Struct, frozen=True):
    """Some news, and what there is to read."""

    news: list[FeedItem]
    first: int
    """The number of the oldest that is kept; one more than `last` if there is none."""
    last: int
    """The newest number given; 0: none ever was."""
