"""The history of the PostgreSQL store by day of creation: which days there are, and making those to come."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, time, timedelta
from functools import partial

import asyncpg
from msgspec import Struct

from ...clock import EPOCH
from ...errors import StoreError
from ...survived_errors import count_error
from .pool import Pool, Session

_logger = logging.getLogger("mainspring")

AHEAD = 7
# How often a process looks whether there is a day to make.
EVERY = timedelta(hours=3)
DAY = timedelta(days=1)


class Day(Struct, frozen=True, order=True):
    """A part of the history: jobs with an id from `low` to before `high`."""

    date: date

    @property
    def table(self) -> str:
        return f"mainspring_finished_{self.date:%Y%m%d}"

    @property
    def end(self) -> datetime:
        return datetime.combine(self.date, time(), UTC) + DAY

    @property
    def low(self) -> str:
        return _first(self.end - DAY)

    @property
    def high(self) -> str:
        return _first(self.end)


def _first(at: datetime) -> str:
    """How the ids of that millisecond begin, which sorts before all of them."""
    digits = f"{(at - EPOCH) // timedelta(milliseconds=1):012x}"
    return f"{digits[:8]}-{digits[8:]}"


_PARTS = "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = $1::regclass"


async def days(db: Session) -> set[Day]:
    """Those that are there."""
    _, begin = db.place.names("mainspring_finished_")
    names = [name.removeprefix(begin) for (name,) in await db.rows(_PARTS, db.place.sql("mainspring_finished"))]
    return {Day(date.fromisoformat(name)) for name in names if len(name) == 8 and name.isdecimal()}


# A day of which there are rows in the part for all else cannot be made any more, and need not be.
_FREE = """SELECT low FROM unnest($1::text[], $2::text[]) AS day (low, high)
    WHERE NOT EXISTS (SELECT 1 FROM mainspring_finished_rest WHERE id >= low AND id < high)"""


async def _missing(db: Session, today: date) -> list[Day]:
    wanted = {Day(today + n * DAY) for n in range(AHEAD + 1)}
    missing = sorted(wanted - await days(db))
    if not missing:
        return []
    free = {low for (low,) in await db.rows(_FREE, [day.low for day in missing], [day.high for day in missing])}
    return [day for day in missing if day.low in free]


# Attached, since a part that is created in its place would lock out every finish. The part for all else is locked and
# read through meanwhile, so both locks and statements are short. Rows come and stay as they are until the day goes.
_MAKE = """SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 3000;
    CREATE TABLE {day.table} (LIKE mainspring_finished INCLUDING ALL) WITH (fillfactor = 100,
        autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 0.5,
        autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 0.5);
    ALTER TABLE mainspring_finished ATTACH PARTITION {day.table} FOR VALUES FROM ('{day.low}') TO ('{day.high}')"""


async def alone(db: Session) -> bool:
    """Whether nobody else makes or drops days until the end of this transaction."""
    return bool(await db.value("SELECT pg_try_advisory_xact_lock($1, -4)", db.place.lock))


async def _make(day: Day, db: Session) -> bool:
    """Inside a transaction, which is spoilt if the server refuses."""
    try:
        if not await alone(db):
            return False
        await db.run(_MAKE.format(day=day))
    except asyncpg.PostgresError as error:
        _logger.debug("no part of the history for %s: %s", day.date, error)
        count_error("partitions", error)
        return False
    return True


async def keep(pool: Pool, now: datetime, most: int = AHEAD + 1) -> bool:
    """Makes up to `most` of the days from now on that are missing; whether some are left to make.

    What cannot be made is left: there is a part of the history for all that lies in no day.
    """
    try:
        missing = await pool.call(lambda db: _missing(db, now.astimezone(UTC).date()))
        for day in missing[:most]:
            if not await pool.step(partial(_make, day)):
                return False
    except StoreError as error:
        _logger.debug("no look at the parts of the history: %s", error)
        count_error("partitions", error)
        return False
    return len(missing) > most
