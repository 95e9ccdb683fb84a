"""The daily partitions of the PostgreSQL store's finished jobs: lists them, and creates those of the next days."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Unpack

import asyncpg
from msgspec import Struct

from ...clock import EPOCH
from ...errors import StoreError
from ...survived_errors import count_error
from .handle import PostgresHandle, PostgresSettings
from .job_groups import FINISHED
from .pool import Pool, Session
from .url import PostgresUrl

_logger = logging.getLogger("mainspring")

# Number of days for which partitions are created in advance.
DAYS_AHEAD = 7
# How often a process checks for missing partitions.
CHECK_EVERY = timedelta(hours=3)
DAY = timedelta(days=1)


class DayPartition(Struct, frozen=True, order=True):
    """The partition of one day (UTC): finished jobs with an id from `low` to before `high`."""

    date: date

    @property
    def table(self) -> str:
        return f"mainspring_finished_{self.date:%Y%m%d}"

    @property
    def end(self) -> datetime:
        return datetime.combine(self.date, time(), UTC) + DAY

    @property
    def low(self) -> str:
        return _first_id(self.end - DAY)

    @property
    def high(self) -> str:
        return _first_id(self.end)


def _first_id(at: datetime) -> str:
    """The prefix of the ids of that millisecond, which sorts before all of them."""
    digits = f"{(at - EPOCH) // timedelta(milliseconds=1):012x}"
    return f"{digits[:8]}-{digits[8:]}"


class KnownDays:
    """The daily partitions that a handle has seen, to search one of them and not all."""

    def __init__(self, days: Collection[DayPartition] = ()) -> None:
        known = sorted(days)
        self._lows, self._highs = [day.low for day in known], [day.high for day in known]
        self._tables = [day.table for day in known]

    def table_of(self, first: str, last: str) -> str | None:
        """The partition that has all finished jobs with ids from `first` to `last`; None if none is known."""
        at = bisect_right(self._lows, first) - 1
        return self._tables[at] if at >= 0 and last < self._highs[at] else None


_PARTS = "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = $1::regclass"


async def list_partitions(db: Session) -> set[DayPartition]:
    """The partitions that exist."""
    _, begin = db.url.names("mainspring_finished_")
    names = [name.removeprefix(begin) for (name,) in await db.rows(_PARTS, db.url.sql("mainspring_finished"))]
    return {DayPartition(date.fromisoformat(name)) for name in names if len(name) == 8 and name.isdecimal()}


# A partition cannot be created, and need not be, if rows of its day are in the default partition.
_FREE = """SELECT low FROM unnest($1::text[], $2::text[]) AS day (low, high)
    WHERE NOT EXISTS (SELECT 1 FROM mainspring_finished_rest WHERE id >= low AND id < high)"""


async def _missing(db: Session, today: date) -> tuple[set[DayPartition], list[DayPartition]]:
    """The partitions that exist, and those that are missing and can be created."""
    wanted = {DayPartition(today + n * DAY) for n in range(DAYS_AHEAD + 1)}
    present = await list_partitions(db)
    missing = sorted(wanted - present)
    if not missing:
        return present, []
    free = {low for (low,) in await db.rows(_FREE, [day.low for day in missing], [day.high for day in missing])}
    return present, [day for day in missing if day.low in free]


# Created apart and then attached, since CREATE TABLE … PARTITION OF would block every finish. ATTACH locks and scans
# the default partition, so the timeouts are short. Rows are inserted once and not updated: pages are filled whole.
_MAKE = """SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 3000;
    CREATE TABLE {day.table} (LIKE mainspring_finished INCLUDING ALL) WITH (fillfactor = 100,
        autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 0.5,
        autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 0.5);
    ALTER TABLE mainspring_finished ATTACH PARTITION {day.table} FOR VALUES FROM ('{day.low}') TO ('{day.high}')"""


async def try_lock_partitions(db: Session) -> bool:
    """Takes the lock for creating and dropping partitions until the transaction ends; False if it is taken."""
    return bool(await db.value("SELECT pg_try_advisory_xact_lock($1, -4)", db.url.lock))


async def _create_partition(day: DayPartition, db: Session) -> bool:
    """Whether the partition was created. Runs inside a transaction, which is aborted if the server refuses."""
    try:
        if not await try_lock_partitions(db):
            return False
        await db.run(_MAKE.format(day=day))
    except asyncpg.PostgresError as error:
        _logger.debug("the partition of %s was not created: %s", day.date, error)
        count_error("partitions", error)
        return False
    return True


async def _create_missing(pool: Pool, now: datetime, most: int) -> tuple[set[DayPartition], bool]:
    """Creates up to `most` of the missing partitions from today on; returns all that exist, and whether more are
    missing.

    It is no harm if one cannot be created: rows outside all days go to the default partition.
    """
    present: set[DayPartition] = set()
    try:
        present, missing = await pool.call(lambda db: _missing(db, now.astimezone(UTC).date()))
        for day in missing[:most]:
            if not await pool.transact(partial(_create_partition, day)):
                return present, False
            present.add(day)
    except StoreError as error:
        _count_unchecked(error)
        return present, False
    return present, len(missing) > most


def _count_unchecked(error: StoreError) -> None:
    _logger.debug("partitions were not checked: %s", error)
    count_error("partitions", error)


class PostgresPartitions(PostgresHandle):
    """Creates the next partitions when the store is opened, and later with a beat now and then."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._create_partitions_at = self._list_days_at = EPOCH
        self._days = KnownDays()

    async def _create_partitions(self, pool: Pool, now: datetime, most: int) -> None:
        """Creates up to `most` partitions, and sets when to look again."""
        present, more = await _create_missing(pool, now, most)
        self._create_partitions_at = now if more else now + CHECK_EVERY
        self._know_days(present, now)

    def _know_days(self, days: Collection[DayPartition], now: datetime) -> None:
        self._days, self._list_days_at = KnownDays(days), now + CHECK_EVERY

    async def _finished_table(self, first: str, last: str, now: datetime) -> str:
        """The table to search for finished jobs with ids from `first` to `last`: one partition if it is known."""
        table = self._days.table_of(first, last)
        if table is None and now >= self._list_days_at:
            # A process without a worker sends no beats.
            self._know_days((), now)
            try:
                self._know_days(await self._call(list_partitions), now)
            except StoreError as error:
                _count_unchecked(error)
            table = self._days.table_of(first, last)
        return table or FINISHED
