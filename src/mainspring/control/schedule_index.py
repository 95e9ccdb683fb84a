"""Index of all schedules for lists and counts: read page by page, fresh where that is quick, else with its age."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from ..clock import Clock
from ..schedule.record import Owner, Schedule, Status
from ..store import Store
from .ground import Opened

_logger = logging.getLogger("mainspring")
# Schedules that are read at a time: decoding a page holds the event loop for some milliseconds.
PAGE_ROWS = 500
# Schedules that one page with filters goes through at most while the index is not at hand.
SCAN_ROWS = 2000
# Seconds that a request waits for a fresh index. Up to some thousand schedules are read in this time.
WAIT_SECONDS = 0.04
# An index that took longer is used for this multiple of the time it took, and for at least this number of seconds.
AGE_SHARE, LEAST_AGE_SECONDS = 10.0, 5.0
# Names kept at most of those that failures have paused, that tick next, and that are due first: what a page shows.
MAX_NAMES = 100


async def pages(store: Store, size: int = PAGE_ROWS) -> AsyncIterator[list[Schedule]]:
    """All schedules by name, a page at a time."""
    after: str | None = None
    while page := await store.schedules(limit=size, after=after):
        yield page
        if len(page) < size:
            return
        after = page[-1].name
        await asyncio.sleep(0)  # a store that answers without waiting gives other tasks no turn


class SchedulePage(NamedTuple):
    rows: list[Schedule]
    next: str | None
    """Give it as `after` for the next page; None: there is none."""


class IndexedSchedule(Struct, frozen=True, gc=False):
    """What is kept of a schedule: a hundred thousand of them take some ten megabytes, and the garbage collector, which
    would hold the event loop for them, does not look at them."""

    name: str
    task: str
    owner: Owner
    status: Status
    due_at: datetime | None
    next_run_at: datetime | None


class IndexSums:
    """Counters of all schedules together."""

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
    """All schedules as they were when they were read, by name; while they are read, the first of them."""

    def __init__(self, as_of: datetime) -> None:
        self.as_of = as_of
        """When the reading began."""
        self.complete = False
        self.entries: list[IndexedSchedule] = []
        self.counts: Counter[Status] = Counter()
        self.sums = IndexSums()
        self.tripped: list[str] = []
        self.ticking: list[str] = []
        """Active ones, the soonest tick first, once all are read."""
        self.due: list[datetime] = []
        """When they are due, in order, once all are read."""
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
        """All are read. Some ten milliseconds for very many: not in the event loop."""
        ticks = ((one.next_run_at, one.name) for one in self.entries if one.status == "active" and one.next_run_at)
        self.ticking = [name for _, name in nsmallest(MAX_NAMES, ticks)]
        due = sorted((one.due_at, one.name) for one in self.entries if one.due_at is not None)
        self.due, self.due_first = [at for at, _ in due], [name for _, name in due[:MAX_NAMES]]
        self.complete = True

    async def chosen(
        self, fitting: Callable[[IndexedSchedule], bool], limit: int, after: str | None, without: Set[str]
    ) -> list[str]:
        """The names of the first that fit."""
        found = (entry.name for entry in self.beyond(after) if entry.name not in without and fitting(entry))
        if len(self.entries) <= PAGE_ROWS:
            return list(islice(found, limit))
        return await asyncio.to_thread(lambda: list(islice(found, limit)))

    def beyond(self, name: str | None) -> Iterator[IndexedSchedule]:
        """The entries after this name."""
        start = 0 if name is None else bisect_right(self.entries, name, key=lambda entry: entry.name)
        return (self.entries[n] for n in range(start, len(self.entries)))


class ScheduleIndex:
    """One reading serves all who ask meanwhile."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._known: IndexSnapshot | None = None
        self._took = self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None]
        self._partial: IndexSnapshot | None = None
        self.touched: set[str] = set()
        """Schedules that were changed here since the reading of the index began."""

    def touch(self, names: Iterable[str]) -> None:
        self.touched.update(names)

    async def look(self, wait: float = WAIT_SECONDS) -> IndexSnapshot:
        """A fresh snapshot, if it can be had within `wait` seconds, or is of one page; else the last one, or what was
        read so far."""
        if self._known is None or self._stale():
            reading = self._read_again()
            await asyncio.wait([reading, self._begun], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait([reading], timeout=wait)
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            reading.result()
        return self._known or self._partial or IndexSnapshot(self._clock.now())

    async def page(
        self, store: Store, fitting: Callable[[IndexedSchedule | Schedule], bool], limit: int, after: str | None
    ) -> SchedulePage:
        """Those that fit, as the store has them now; without an index, those among the next SCAN_ROWS."""
        index = await self.look()
        if not index.complete:
            return SchedulePage(*await scanned(store, fitting, limit, after, SCAN_ROWS))
        touched = set(self.touched)
        changed = nsmallest(SCAN_ROWS, (name for name in touched if after is None or name > after))
        chosen = await index.chosen(fitting, limit, after, touched)
        # Beyond the last of a list that is full there may be more of its kind.
        ends = [some[-1] for some, most in ((changed, SCAN_ROWS), (chosen, limit)) if len(some) == most]
        end = min(ends, default=None)
        names = sorted(name for name in (*changed, *chosen) if end is None or name <= end)
        rows: list[Schedule] = []
        for n in range(0, len(names), PAGE_ROWS):
            some = names[n : n + PAGE_ROWS]
            rows += [row for row in await store.schedules(some, limit=len(some)) if fitting(row)]
            if len(rows) >= limit:
                return SchedulePage(rows[:limit], rows[limit - 1].name)
        return SchedulePage(rows, end)

    def _stale(self) -> bool:
        if self._took <= WAIT_SECONDS:
            return True
        age = self._clock.monotonic() - self._read_at
        return age > max(LEAST_AGE_SECONDS, AGE_SHARE * self._took)

    def _read_again(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        if self._reading is None or self._reading.done() or self._reading.get_loop() is not loop:
            self._begun = loop.create_future()
            self._reading = loop.create_task(self._read(self._begun), name="mainspring-schedule-index")
            self._reading.add_done_callback(_report)
        return self._reading

    async def _read(self, begun: asyncio.Future[None]) -> None:
        began, before = self._clock.monotonic(), set(self.touched)
        self._partial = snapshot = IndexSnapshot(self._clock.now())
        async for page in pages(await self._opened()):
            snapshot.add(page)
            if not begun.done():
                begun.set_result(None)
        if len(snapshot.entries) > PAGE_ROWS:
            await asyncio.to_thread(snapshot.sort)
        else:
            snapshot.sort()
        self._known, self._partial = snapshot, None
        self._read_at = self._clock.monotonic()
        self._took = self._read_at - began
        self.touched -= before


def _report(reading: asyncio.Task[None]) -> None:
    if not reading.cancelled() and (error := reading.exception()) is not None:
        _logger.warning("schedules could not be read for their index: %s", error)


async def scanned(
    store: Store, fitting: Callable[[IndexedSchedule | Schedule], bool], limit: int, after: str | None, most: float
) -> tuple[list[Schedule], str | None]:
    """Those that fit among the next `most`, up to the limit; and where to go on, if there may be more."""
    found: list[Schedule] = []
    seen = 0
    while seen < most:
        page = await store.schedules(limit=PAGE_ROWS, after=after)
        found += [row for row in page if fitting(row)]
        if len(found) >= limit:
            return found[:limit], found[limit - 1].name
        if len(page) < PAGE_ROWS:
            return found, None
        seen, after = seen + len(page), page[-1].name
    return found, after


def fits(
    *, q: str | None = None, task: str | None = None, owner: Owner | None = None, status: Status | None = None
) -> Callable[[IndexedSchedule | Schedule], bool]:
    """Whether a schedule is one of those asked for; `q` is a part of its name, in any case."""
    part = q.lower() if q else None

    def fitting(row: IndexedSchedule | Schedule) -> bool:
        return (
            (part is None or part in row.name.lower())
            and (task is None or (row.task if isinstance(row, IndexedSchedule) else row.spec.task) == task)
            and (owner is None or row.owner == owner)
            and (status is None or row.status == status)
        )

    return fitting
