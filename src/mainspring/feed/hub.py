"""FeedHub: reads the live feed from the store once for all readers of a process."""

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

# Pause between two reads of the store.
POLL_SECONDS = 0.2
# Pause after the store failed.
RETRY_SECONDS = 1.0
# Events read at once.
PAGE_EVENTS = 1000
# Events buffered for readers; a reader further behind has lagged.
MAX_BUFFERED_EVENTS = 5_000
# How long an announced watch lasts: a reader that reconnects within it misses nothing.
WATCH_SECONDS = 60.0
# A watch is announced again after this time.
RENEW_SECONDS = 20.0


class NumberedEvent(Struct, frozen=True):
    """A feed event with its number in the feed and its encoded text."""

    n: int
    notice: FeedEvent
    text: str


class ReaderLagged(Exception):
    """A reader is so far behind that the hub no longer buffers its next event."""


class FeedReader:
    """Reads the feed from a position. Events before the buffer are read from the store when it joins.

    Later it may lag by MAX_BUFFERED_EVENTS. Beyond that it raises ReaderLagged or, with `catch_up`, reads from the
    store again.
    """

    def __init__(self, hub: FeedHub, after: int, clock: Clock, *, catch_up: bool) -> None:
        self.after = after
        """The number of the last event it has read."""
        self.alarm = Alarm(clock)
        self._clock = clock
        self._hub = hub
        self._catch_up = catch_up
        self._joined = False
        self.trouble: str | None = None
        """The hub's trouble as of the last read()."""

    async def read(self, timeout: float | None) -> list[NumberedEvent]:
        """The next events, in order; empty on timeout, or if the hub closed or its trouble changed."""
        end = math.inf if timeout is None else self._clock.monotonic() + timeout
        while not (items := await self._read()) and self._hub.open and self._hub.trouble == self.trouble:
            if (left := end - self._clock.monotonic()) <= 0:
                break
            await self.alarm.wait(None if timeout is None else left)
        if items:
            self.after = items[-1].n
        self.trouble = self._hub.trouble
        return items

    async def _read(self) -> list[NumberedEvent]:
        hub = self._hub
        if hub.since <= self.after <= hub.last:
            self._joined = True
            return hub.buffered_after(self.after)
        if not self._joined:
            return await hub.read_missed(self.after)
        if self.after > hub.last:
            return [hub.reset_event("began_anew", hub.last)]
        if not self._catch_up:
            raise ReaderLagged(
                f"more than {MAX_BUFFERED_EVENTS:,} events behind: reconnect with the number of the last one"
            )
        return await hub.read_missed(self.after)


class FeedHub:
    """Serves the readers of one event loop. Polls the store while there are readers, and announces the watch.

    Processes publish only while the feed is watched, so event numbers do not show what was never published.
    Therefore a reset is published when a watch begins, and a second one when every process must know of it. After
    the second reset no event is missing.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Store]],
        clock: Clock,
        publisher: FeedPublisher,
        *,
        beat: float,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`beat`: seconds within which workers learn of a watch. The hub closes once the process is `leaving`."""
        self._connect = connect
        self._clock = clock
        self._publisher = publisher
        self._settle_seconds = max(beat, WATCH_POLL_SECONDS) + 1.0
        self._leaving = leaving
        self._readers: set[FeedReader] = set()
        self._items: deque[NumberedEvent] = deque()
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._renew_at = -math.inf
        self._settled_at = math.inf
        self.closed = asyncio.Event()
        self._postponed = SurvivedErrors("feed_reader", "readers of the live feed get events later")
        self._ended = SurvivedErrors("feed_reader", "the live feed of this process ends, and its readers reconnect")
        self.trouble: str | None = None
        """Why the feed stands still: the store cannot be read, or this process cannot publish. None if it works."""
        self.since = 0
        """All events after this number, up to `last`, are buffered."""
        self.last = 0

    @property
    def open(self) -> bool:
        return not self.closed.is_set()

    @asynccontextmanager
    async def reader(self, after: int | None = None, *, catch_up: bool = False) -> AsyncIterator[FeedReader]:
        """A reader of the events after that number, or of those from now on."""
        async with self._starting:
            begun = self._task is not None and not self._task.done()
            if not begun:
                await self._start()
            reader = FeedReader(self, self.last if after is None else after, self._clock, catch_up=catch_up)
            self._readers.add(reader)
            if not begun:
                # In an empty context: the first reader's context variables do not belong to later reads.
                work = self._run()
                self._task = asyncio.get_running_loop().create_task(work, name="mainspring-feed-hub", context=Context())
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """Readers get what is buffered, and no more."""
        self.closed.set()
        self._wake_readers()

    # for readers

    def buffered_after(self, after: int) -> list[NumberedEvent]:
        """The buffered events after that number."""
        found: list[NumberedEvent] = []
        for item in reversed(self._items):
            if item.n <= after:
                break
            found.append(item)
        return found[::-1]

    async def read_missed(self, after: int) -> list[NumberedEvent]:
        """Events that are no longer buffered, from the store; a reset if they are no longer stored."""
        while True:
            feed = await (await self._connect()).news(after=after, limit=PAGE_EVENTS)
            if after > feed.last:
                return [self.reset_event("began_anew", feed.last)]
            if after < feed.first - 1:
                return [self.reset_event("too_old", feed.last)]
            if items := _decoded(feed.news):
                return items
            after = feed.news[-1].n if feed.news else feed.last
            if after >= self.since:
                return self.buffered_after(after)

    def reset_event(self, reason: str, n: int) -> NumberedEvent:
        """A reset for one reader: it reloads everything and continues from this number."""
        event = FeedEvent(type=RESET, at=self._clock.now(), reason=reason)
        return NumberedEvent(n, event, encode(event))

    # polling

    async def _start(self) -> None:
        store, now = await self._connect(), self._clock.now()
        feed = await self._watch(store, after=0, limit=1)
        if feed.wanted_until is None or feed.wanted_until <= now:
            await self._publish_reset(store, "unwatched")
            self._settled_at = self._clock.monotonic() + self._settle_seconds
            feed = await store.news(after=0, limit=1)
        self._items.clear()
        self.since = self.last = feed.last

    async def _watch(self, store: Store, after: int, limit: int) -> Feed:
        """Reads the feed, and announces the watch."""
        until = self._clock.now() + timedelta(seconds=WATCH_SECONDS)
        feed = await store.news(after=after, limit=limit, until=until)
        self._publisher.watch_until(until)
        self._renew_at = self._clock.monotonic() + RENEW_SECONDS
        return feed

    async def _publish_reset(self, store: Store, reason: str) -> None:
        now = self._clock.now()
        await store.publish([encode(FeedEvent(type=RESET, at=now, reason=reason))], now=now)

    async def _run(self) -> None:
        try:
            while self._readers and self.open:
                if self._leaving():
                    self.close()
                else:
                    await self._clock.sleep(await self._poll())
        except ShuttingDown:
            self.close()
        except Exception as error:
            self._ended(error)
            self.close()

    async def _poll(self) -> float:
        """Reads the store once; returns the seconds until the next read."""
        try:
            store = await self._connect()
            if self._clock.monotonic() >= self._settled_at:
                await self._publish_reset(store, "settled")
                self._settled_at = math.inf
            read = self._watch if self._clock.monotonic() >= self._renew_at else _read_feed
            feed = await read(store, after=self.last, limit=PAGE_EVENTS)
        except StoreUnavailable as error:
            self._postponed(error)
            self._set_trouble(f"{type(error).__name__}: {error}")
            return RETRY_SECONDS
        self._add(feed)
        self._set_trouble(self._publisher.trouble)
        return 0.0 if len(feed.news) == PAGE_EVENTS else POLL_SECONDS

    def _set_trouble(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._wake_readers()

    def _add(self, feed: Feed) -> None:
        if feed.last < self.last or feed.first > self.last + 1:
            # The feed restarted, or events were pruned before they were read: readers get a reset.
            self._items.clear()
            self.since = self.last = min(feed.last, feed.first - 1)
            self._wake_readers()
        if feed.news:
            self._items += _decoded(feed.news)
            self.last = feed.news[-1].n
            while len(self._items) > MAX_BUFFERED_EVENTS:
                self.since = self._items.popleft().n
            self._wake_readers()

    def _wake_readers(self) -> None:
        for reader in self._readers:
            reader.alarm.ring()


async def _read_feed(store: Store, after: int, limit: int) -> Feed:
    return await store.news(after=after, limit=limit)


_TYPE = re.compile(r"[a-z_.]{1,100}")


def _decoded(items: list[FeedItem]) -> list[NumberedEvent]:
    """The events that can be decoded. A text with a line break is not ours, and would break the stream."""
    found = [(one, decode(one.text)) for one in items if "\n" not in one.text and "\r" not in one.text]
    return [
        NumberedEvent(one.n, event, one.text)
        for one, event in found
        if event is not None and _TYPE.fullmatch(event.type)
    ]
