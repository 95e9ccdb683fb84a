"""The PostgreSQL store's live feed: the newest events, numbered, and until when a reader watches them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import instant, micros
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .handle import PostgresHandle

_WATCH = """INSERT INTO mainspring_marks AS known VALUES ('watched', $4)
    ON CONFLICT (name) DO UPDATE SET n = excluded.n WHERE known.n < excluded.n"""
WATCHED = "SELECT n FROM mainspring_marks WHERE name = 'watched'"
PUBLISH = "SELECT mainspring_publish($1, $2, $3)"
# The number up to which mainspring_publish has deleted: below it are only dead rows, many of them.
_FLOOR = "last / ($3::bigint / 10) * ($3::bigint / 10) - $3::bigint"
# If ANALYZE runs while all rows are dead, the planner expects one row. For one row a bitmap, a sort, min() or max()
# seem to cost no more than a step along the index, but they read every dead row. With the HOT_SETTINGS, ORDER BY n
# LIMIT leaves the planner only the index.
_FEED = f"""newest AS MATERIALIZED (SELECT coalesce((SELECT n FROM mainspring_news ORDER BY n DESC LIMIT 1),
            (SELECT n FROM mainspring_marks WHERE name = 'promised'), 0) AS last),
        feed AS MATERIALIZED (SELECT last, coalesce((SELECT n FROM mainspring_news WHERE n > {_FLOOR}
            ORDER BY n LIMIT 1), last + 1) AS first FROM newest)
    SELECT n, text, first, last, ({WATCHED}) AS watched FROM feed LEFT JOIN LATERAL (SELECT n, text FROM mainspring_news
        WHERE n > $1 AND n >= first ORDER BY n LIMIT $2) AS one ON true ORDER BY n"""
_READ = f"WITH {_FEED}"
# A statement reads what was there before it: the earlier `watched`.
_READ_AND_WATCH = f"WITH watch AS ({_WATCH}), {_FEED}"


def _instant_or_none(us: int | None) -> datetime | None:
    return None if us is None else instant(us)


class PostgresFeed(PostgresHandle):
    """The verbs on the feed."""

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        if not news:
            return _instant_or_none(await self._call(lambda db: db.value(WATCHED)))
        return _instant_or_none(await self._hot(lambda db: db.value(PUBLISH, list(news), db.url.lock, MIN_FEED_ITEMS)))

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        values = (after, limit, MIN_FEED_ITEMS)
        if until is None:
            rows = await self._hot(lambda db: db.rows(_READ, *values))
        else:
            rows = await self._hot(lambda db: db.rows(_READ_AND_WATCH, *values, micros(until)))
        _, _, first, last, watched = rows[0]
        items = [FeedItem(n, text) for n, text, *_ in rows if n is not None]
        return Feed(items, first, last, _instant_or_none(watched))
