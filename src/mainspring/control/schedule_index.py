"""An index of all schedules for lists and counts: always fresh if reading is quick, else cached with its age."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Set
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from ..clock import Clock
from ..schedule.record import Owner, Schedule, Status
from ..store import Store

_logger = logging.getLogger("mainspring")
# Schedules read per store call: decoding a page blocks the event loop for some milliseconds.
PAGE_ROWS = 500
# Schedules scanned for one filtered page while there is no index.
SCAN_ROWS = 2000
# How long a request waits for a fresh index. A few thousand schedules are read in this time.
WAIT_SECONDS = 0.04
# An index that took longer to read is used for this multiple of that time,
MAX_AGE_FACTOR = 10.0
# but for at least this long.
MIN_AGE_SECONDS = 5.0
# Names kept of schedules that failures have paused, that tick next, and that are due first: what a page shows.
MAX_NAMES = 100


async def pages(store: Store, size: int = PAGE_ROWS) -> AsyncIterator[list[Schedule]]:
    """Yields all schedules by name, page by page."""
    after: str | None = None
    while page := await store.schedules(limit=size, after=after):
        yield page
        if len(page) < size:
            return
        after = page[-1].name
        await asyncio.sleep(0)  # a store that answers without waiting would starve other tasks


class SchedulePage(NamedTuple):
    rows: list[Schedule]
    next: str | None
    """Pass it as `after` for the next page; None: there is none."""


class IndexedSchedule(Struct, frozen=True, gc=False):
    """The indexed fields of a schedule. A hundred thousand take some ten megabytes; gc=False keeps the garbage
    collector from traversing them, which would block the event loop."""

    name: str
    task: str
    owner: Owner
    status: Status
    due_at: datetime | None
    next_run_at: datetime | None


class IndexSums:
    """Totals over all schedules."""

    def __init__(self) -> None:
        self.fired = self.skipped = self.missed = self.completed = self.failed = 0
        self.under_way = 0

    def add(self, row: Schedule) -> None:
        self.fired += row.fired
        self.skipped += row.skipped
        self.missed += row.missed
        self.completed += row.completed
        self.failed += row.failed
        self.under_way += len(row.active) + row.unlisted


class IndexSnapshot:
    """All schedules by name, as of one reading; while it is in progress, the first of them."""

    def __init__(self, as_of: datetime) -> None:
        self.as_of = as_of
        """When the reading started."""
        self.complete = False
        self.entries: list[IndexedSchedule] = []
        self.counts: Counter[Status] = Counter()
        self.sums = IndexSums()
        self.tripped: list[str] = []
        self.ticking: list[str] = []
        """Names of active schedules, the next tick first; set by sort()."""
        self.due: list[datetime] = []
        """Due times in order; set by sort()."""
        self.due_first: list[str] = []

    def add(self, rows: Iterable[Schedule]) -> None:
        for row in rows:
            self.entries.append(
                IndexedSchedule(row.name, row.spec.task, row.owner, row.status, row.due_at, row.next_run_at)
            )
            self.counts[row.status] += 1
            self.sums.add(row)
            if row.tripped and len(self.tripped) < MAX_NAMES:
                self.tripped.append(row.name)

    def sort(self) -> None:
        """Completes the snapshot. Takes some ten milliseconds for very many: not for the event loop."""
        ticks = ((one.next_run_at, one.name) for one in self.entries if one.status == "active" and one.next_run_at)
        self.ticking = [name for _, name in nsmallest(MAX_NAMES, ticks)]
        due = sorted((one.due_at, one.name) for one in self.entries if one.due_at is not None)
        self.due, self.due_first = [at for at, _ in due], [name for _, name in due[:MAX_NAMES]]
        self.complete = True

    async def matching_names(
        self, matches: Callable[[IndexedSchedule], bool], limit: int, after: str | None, without: Set[str]
    ) -> list[str]:
        """The first `limit` names that match."""
        found = (entry.name for entry in self.beyond(after) if entry.name not in without and matches(entry))
        if len(self.entries) <= PAGE_ROWS:
            return list(islice(found, limit))
        return await asyncio.to_thread(lambda: list(islice(found, limit)))

    def beyond(self, name: str | None) -> Iterator[IndexedSchedule]:
        """The entries after this name."""
        start = 0 if name is None else bisect_right(self.entries, name, key=lambda entry: entry.name)
        return (self.entries[n] for n in range(start, len(self.entries)))


class ScheduleIndex:
    """Reads all schedules when needed. Concurrent requests share one reading."""

    def __init__(self, opened: Callable[[], Awaitable[Store]], clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._latest: IndexSnapshot | None = None
        self._took = self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._first_page: asyncio.Future[None]
        self._partial: IndexSnapshot | None = None
        self.touched: set[str] = set()
        """Schedules changed by this process since the latest reading started."""

    def touch(self, names: Iterable[str]) -> None:
        self.touched.update(names)

    async def snapshot(self, wait: float = WAIT_SECONDS) -> IndexSnapshot:
        """A fresh snapshot, if it can be read within `wait` seconds or has one page; else the previous one, or what was
        read so far."""
        if self._latest is None or self._is_stale():
            reading = self._start_reading()
            await asyncio.wait([reading, self._first_page], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait([reading], timeout=wait)
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            reading.result()
        return self._latest or self._partial or IndexSnapshot(self._clock.now())

    async def page(
        self, store: Store, matches: Callable[[IndexedSchedule | Schedule], bool], limit: int, after: str | None
    ) -> SchedulePage:
        """Matching schedules as the store has them now; without an index, those among the next SCAN_ROWS."""
        index = await self.snapshot()
        if not index.complete:
            return SchedulePage(*await scan(store, matches, limit, after, SCAN_ROWS))
        touched = set(self.touched)
        changed = nsmallest(SCAN_ROWS, (name for name in touched if after is None or name > after))
        matching_names = await index.matching_names(matches, limit, after, touched)
        # If a list is full, more of its kind may follow after its last name.
        ends = [some[-1] for some, max_rows in ((changed, SCAN_ROWS), (matching_names, limit)) if len(some) == max_rows]
        end = min(ends, default=None)
        names = sorted(name for name in (*changed, *matching_names) if end is None or name <= end)
        rows: list[Schedule] = []
        for n in range(0, len(names), PAGE_ROWS):
            some = names[n : n + PAGE_ROWS]
            rows += [row for row in await store.schedules(some, limit=len(some)) if matches(row)]
            if len(rows) >= limit:
                return SchedulePage(rows[:limit], rows[limit - 1].name)
        return SchedulePage(rows, end)

    def _is_stale(self) -> bool:
        if self._took <= WAIT_SECONDS:
            return True
        age = self._clock.monotonic() - self._read_at
        return age > max(MIN_AGE_SECONDS, MAX_AGE_FACTOR * self._took)

    def _start_reading(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        if self._reading is None or self._reading.done() or self._reading.get_loop() is not loop:
            self._first_page = loop.create_future()
            self._reading = loop.create_task(self._read(self._first_page), name="mainspring-schedule-index")
            self._reading.add_done_callback(_log_error)
        return self._reading

    async def _read(self, first_page: asyncio.Future[None]) -> None:
        began, before = self._clock.monotonic(), set(self.touched)
        self._partial = snapshot = IndexSnapshot(self._clock.now())
        async for page in pages(await self._opened()):
            snapshot.add(page)
            if not first_page.done():
                first_page.set_result(None)
        if len(snapshot.entries) > PAGE_ROWS:
            await asyncio.to_thread(snapshot.sort)
        else:
            snapshot.sort()
        self._latest, self._partial = snapshot, None
        self._read_at = self._clock.monotonic()
        self._took = self._read_at - began
        self.touched -= before


def _log_error(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled() and (error := reading.exception()) is not None:
        _logger.warning("schedules could not be read for their index: %s", error)


async def scan(
    store: Store, matches: Callable[[IndexedSchedule | Schedule], bool], limit: int, after: str | None, max_rows: float
) -> tuple[list[Schedule], str | None]:
    """The matching schedules among the next `max_rows`, up to the limit, and where to continue if there may be more."""
    found: list[Schedule] = []
    seen = 0
    while seen < max_rows:
        page = await store.schedules(limit=PAGE_ROWS, after=after)
        found += [row for row in page if matches(row)]
        if len(found) >= limit:
            return found[:limit], found[limit - 1].name
        if len(page) < PAGE_ROWS:
            return found, None
        seen, after = seen + len(page), page[-1].name
    return found, after


def schedule_matcher(
    *, q: str | None = None, task: str | None = None, owner: Owner | None = None, status: Status | None = None
) -> Callable[[IndexedSchedule | Schedule], bool]:
    """A predicate for schedules with these values; `q` is a part of the name, case-insensitive."""
    part = q.lower() if q else None

    def matches(row: IndexedSchedule | Schedule) -> bool:
        return (
            (part is None or part in row.name.lower())
            and (task is None or (row.task if isinstance(row, IndexedSchedule) else row.spec.task) == task)
            and (owner is None or row.owner == owner)
            and (status is None or row.status == status)
        )

    return matches
