"""Newsstand: where the readers of one process get the news; one looks into the store for all of them."""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from datetime import timedelta

from msgspec import Struct

from ..clock import Alarm, Clock
from ..errors import ShuttingDown, StoreUnavailable
from ..records.feed import Feed, FeedItem
from ..store import Store
from ..survived_errors import SurvivedErrors
from .event import RESET, FeedEvent, decode, encode
from .publisher import WATCH_POLL_SECONDS, FeedPublisher

# Seconds between two looks, and after a store that failed; news taken at once.
POLL_SECONDS, RETRY_SECONDS, PAGE_EVENTS = 0.2, 1.0, 1000
# As many are at hand for readers; who is further behind is too slow.
MAX_BUFFERED_EVENTS = 5_000
# Seconds for which a watch is announced, and after which it is announced again: who comes back finds all of it.
WATCH_SECONDS, RENEW_SECONDS = 60.0, 20.0


class NumberedEvent(Struct, frozen=True):
    n: int
    notice: FeedEvent
    text: str


class ReaderLagged(Exception):
    """A reader is so far behind that what it has not read is no longer at hand."""


class FeedReader:
    """What is new since it read last. What is not at hand when it comes is read from the store.

    Later it may lag by AT_HAND; beyond that it is too slow, unless it is `patient` and reads from the store again.
    """

    def __init__(self, stand: FeedHub, after: int, clock: Clock, *, patient: bool) -> None:
        self.after = after
        """The number up to which it has read."""
        self.alarm = Alarm(clock)
        self._clock = clock
        self._stand = stand
        self._patient = patient
        self._there = False
        self.trouble: str | None = None
        """The stand's trouble as of the last read()."""

    async def read(self, timeout: float | None) -> list[NumberedEvent]:
        """Some news, in order; none if none came in time, the stand closed or its trouble has changed."""
        end = math.inf if timeout is None else self._clock.monotonic() + timeout
        while not (items := await self._read()) and self._stand.open and self._stand.trouble == self.trouble:
            if (left := end - self._clock.monotonic()) <= 0:
                break
            await self.alarm.wait(None if timeout is None else left)
        if items:
            self.after = items[-1].n
        self.trouble = self._stand.trouble
        return items

    async def _read(self) -> list[NumberedEvent]:
        stand = self._stand
        if stand.since <= self.after <= stand.last:
            self._there = True
            return stand.beyond(self.after)
        if not self._there:
            return await stand.missed(self.after)
        if self.after > stand.last:
            return [stand.reset("began_anew", stand.last)]
        if not self._patient:
            raise ReaderLagged(
                f"more than {MAX_BUFFERED_EVENTS:,} events behind: come back with the number of the last one"
            )
        return await stand.missed(self.after)


class FeedHub:
    """For one event loop. Looks while there are readers, and has workers told that somebody watches.

    A number says nothing of what was not published because nobody watched: so where a watch begins, a reset is
    published, and another one when everybody must have heard of it. After that one nothing is missing.
    """

    def __init__(
        self,
        opened: Callable[[], Awaitable[Store]],
        clock: Clock,
        herald: FeedPublisher,
        *,
        beat: float,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`beat`: seconds in which workers hear. Once the process is `leaving` the stand closes."""
        self._opened = opened
        self._clock = clock
        self._herald = herald
        self._settling = max(beat, WATCH_POLL_SECONDS) + 1.0
        self._leaving = leaving
        self._readers: set[FeedReader] = set()
        self._items: deque[NumberedEvent] = deque()
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._renew_at = -math.inf
        self._settled_at = math.inf
        self.closed = asyncio.Event()
        self._postponed = SurvivedErrors("feed_reader", "readers of the live feed get what happens later")
        self._ended = SurvivedErrors("feed_reader", "the live feed of this process ends, and its readers come back")
        self.trouble: str | None = None
        """Why the feed stands still: it cannot be read, or what happens here cannot be published. None: it does not."""
        self.since = 0
        """All news beyond this number are at hand, up to `last`."""
        self.last = 0

    @property
    def open(self) -> bool:
        return not self.closed.is_set()

    @asynccontextmanager
    async def reader(self, after: int | None = None, *, patient: bool = False) -> AsyncIterator[FeedReader]:
        """From beyond that number, or from now on."""
        async with self._beginning:
            begun = self._task is not None and not self._task.done()
            if not begun:
                await self._begin()
            reader = FeedReader(self, self.last if after is None else after, self._clock, patient=patient)
            self._readers.add(reader)
            if not begun:
                # In a context of its own: whoever came first has nothing to do with what is read later.
                work = self._run()
                self._task = asyncio.get_running_loop().create_task(work, name="mainspring-stand", context=Context())
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """Readers get what is at hand, and no more."""
        self.closed.set()
        self._ring()

    # for readers

    def beyond(self, after: int) -> list[NumberedEvent]:
        found: list[NumberedEvent] = []
        for item in reversed(self._items):
            if item.n <= after:
                break
            found.append(item)
        return found[::-1]

    async def missed(self, after: int) -> list[NumberedEvent]:
        """What is no longer at hand; a reset if it is no longer in the store either."""
        while True:
            feed = await (await self._opened()).news(after=after, limit=PAGE_EVENTS)
            if after > feed.last:
                return [self.reset("began_anew", feed.last)]
            if after < feed.first - 1:
                return [self.reset("too_old", feed.last)]
            if items := _items(feed.news):
                return items
            after = feed.news[-1].n if feed.news else feed.last
            if after >= self.since:
                return self.beyond(after)

    def reset(self, reason: str, n: int) -> NumberedEvent:
        """For one reader: load everything anew, and go on from this number."""
        notice = FeedEvent(type=RESET, at=self._clock.now(), reason=reason)
        return NumberedEvent(n, notice, encode(notice))

    # looking

    async def _begin(self) -> None:
        store, now = await self._opened(), self._clock.now()
        before = await store.watched()
        await self._announce(store)
        if before is None or before <= now:
            await self._tell_reset(store, "unwatched")
            self._settled_at = self._clock.monotonic() + self._settling
        self._items.clear()
        self.since = self.last = (await store.news(after=0, limit=1)).last

    async def _announce(self, store: Store) -> None:
        now = self._clock.now()
        until = now + timedelta(seconds=WATCH_SECONDS)
        await store.watch(until=until, now=now)
        self._herald.heed(until)
        self._renew_at = self._clock.monotonic() + RENEW_SECONDS

    async def _tell_reset(self, store: Store, reason: str) -> None:
        now = self._clock.now()
        await store.publish([encode(FeedEvent(type=RESET, at=now, reason=reason))], now=now)

    async def _run(self) -> None:
        try:
            while self._readers and self.open:
                if self._leaving():
                    self.close()
                else:
                    await self._clock.sleep(await self._turn())
        except ShuttingDown:
            self.close()
        except Exception as error:
            self._ended(error)
            self.close()

    async def _turn(self) -> float:
        """Looks once; returns the seconds until the next look."""
        try:
            store = await self._opened()
            if self._clock.monotonic() >= self._renew_at:
                await self._announce(store)
            if self._clock.monotonic() >= self._settled_at:
                await self._tell_reset(store, "settled")
                self._settled_at = math.inf
            feed = await store.news(after=self.last, limit=PAGE_EVENTS)
        except StoreUnavailable as error:
            self._postponed(error)
            self._set_trouble(f"{type(error).__name__}: {error}")
            return RETRY_SECONDS
        self._take(feed)
        self._set_trouble(self._herald.trouble)
        return 0.0 if len(feed.news) == PAGE_EVENTS else POLL_SECONDS

    def _set_trouble(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._ring()

    def _take(self, feed: Feed) -> None:
        if feed.last < self.last or feed.first > self.last + 1:
            # It began anew, or more was published than is kept since the last look: readers find out.
            self._items.clear()
            self.since = self.last = min(feed.last, feed.first - 1)
            self._ring()
        if feed.news:
            self._items += _items(feed.news)
            self.last = feed.news[-1].n
            while len(self._items) > MAX_BUFFERED_EVENTS:
                self.since = self._items.popleft().n
            self._ring()

    def _ring(self) -> None:
        for reader in self._readers:
            reader.alarm.ring()


_TYPE = re.compile(r"[a-z_.]{1,100}")


def _items(news: list[FeedItem]) -> list[NumberedEvent]:
    """Each that can be read. What would not fit on one line of a stream is none of ours."""
    found = [(one, decode(one.text)) for one in news if "\n" not in one.text and "\r" not in one.text]
    return [
        NumberedEvent(one.n, told, one.text) for one, told in found if told is not None and _TYPE.fullmatch(told.type)
    ]
