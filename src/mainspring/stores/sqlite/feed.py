"""The SQLite store's live feed: the newest events, numbered, and until when a reader watches them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from ...clock import instant, micros
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .batch import chunks, flatten, value_lists
from .handle import SqliteHandle

# Old items are deleted each time this many new ones have been published.
PRUNE_EVERY_ITEMS = 500

_WATCH = """INSERT INTO mainspring_watched VALUES (1, ?)
    ON CONFLICT (n) DO UPDATE SET until = max(until, excluded.until)"""


def watched(db: sqlite3.Connection) -> datetime | None:
    """Until when a reader watches the feed, or watched it; None if none ever did."""
    row = db.execute("SELECT until FROM mainspring_watched").fetchone()
    return None if row is None else instant(row[0])


def _publish(db: sqlite3.Connection, texts: Sequence[str]) -> datetime | None:
    for some in chunks([(text,) for text in texts]):
        db.execute(f"INSERT INTO mainspring_news (text) VALUES {value_lists(len(some), 1)}", flatten(some))
    last = _last_number(db)
    if last // PRUNE_EVERY_ITEMS != (last - len(texts)) // PRUNE_EVERY_ITEMS:
        db.execute("DELETE FROM mainspring_news WHERE n <= ?", (last - MIN_FEED_ITEMS,))
    return watched(db)


def _read_feed(db: sqlite3.Connection, after: int, limit: int) -> Feed:
    rows = db.execute("SELECT n, text FROM mainspring_news WHERE n > ? ORDER BY n LIMIT ?", (after, limit)).fetchall()
    first, last = db.execute("SELECT min(n) FROM mainspring_news").fetchone()[0], _last_number(db)
    return Feed([FeedItem(n, text) for n, text in rows], last + 1 if first is None else first, last, watched(db))


def _want_feed(db: sqlite3.Connection, after: int, limit: int, until: datetime) -> Feed:
    feed = _read_feed(db, after, limit)
    db.execute(_WATCH, (micros(until),))
    return feed


def _last_number(db: sqlite3.Connection) -> int:
    return db.execute("SELECT max(n) FROM mainspring_news").fetchone()[0] or 0


class SqliteFeed(SqliteHandle):
    """The verbs on the feed."""

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        if not news:
            return await self._read(watched)
        return await self._write(lambda db: _publish(db, news))

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        if until is None:
            return await self._read(lambda db: _read_feed(db, after, limit))
        return await self._write(lambda db: _want_feed(db, after, limit, until))
