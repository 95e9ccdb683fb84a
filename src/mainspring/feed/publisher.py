"""Herald: publishes what happens here for those who watch, and does nothing while nobody does."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context
from datetime import datetime
from typing import Any

from ..clock import Clock
from ..errors import ShuttingDown, StoreUnavailable
from ..events import Bus, Event
from ..store import Store
from ..survived_errors import SurvivedErrors
from .event import DROPPED, FeedEvent, encode
from .from_events import CONVERTERS

# Seconds for which notices gather, and how many go together: 5,000 a second at most. A store has other things to do.
GATHER_SECONDS, BATCH_EVENTS = 0.1, 500
# As many wait to be published; beyond that the oldest are dropped, and counted.
MAX_WAITING_EVENTS = 5_000
# Seconds between two looks whether somebody watches, where no beat tells, and after a store that failed.
WATCH_POLL_SECONDS, RETRY_SECONDS = 5.0, 1.0
# Real seconds for the last words of a process that stops.
LAST_FLUSH_SECONDS = 1.0


class FeedPublisher:
    """One for each app, for whatever loops use it. The engine never waits for it, nor makes events for it in vain.

    A worker hears with its beats whether somebody watches; who only enqueues looks now and then, in the background.
    """

    def __init__(self, bus: Bus, clock: Clock, opened: Callable[[], Awaitable[Store]]) -> None:
        self._bus = bus
        self._clock = clock
        self._opened = opened
        self._wrap: Callable[[Store], Store] = lambda store: store
        self._until: datetime | None = None
        self._look_at = -math.inf
        self._waiting: deque[FeedEvent] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._heard: list[tuple[type[Event], Callable[[Any], None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._postponed = SurvivedErrors("feed", "what happens here is published to the live feed later")
        self._ended = SurvivedErrors("feed", "the live feed hears no more of this process until it looks again")
        self._unpublished = SurvivedErrors("feed", "the last events of this process are missing from the live feed")
        self.trouble: str | None = None
        """Why nothing could be published at the last attempt; None: it worked, or there was nothing to publish."""

    def through(self, wrap: Callable[[Store], Store]) -> None:
        """Its calls of the store go through what `wrap` makes of it."""
        self._wrap = wrap

    async def _watched_store(self) -> Store:
        return self._wrap(await self._opened())

    @property
    def watched(self) -> bool:
        return self._until is not None and self._clock.now() < self._until

    # whether somebody watches

    def heed(self, until: datetime | None) -> None:
        """Until then somebody watches, as a beat has told or whoever watches in this very process."""
        self._learn(until)
        self._look_at = self._clock.monotonic() + 3 * WATCH_POLL_SECONDS
        if self.watched:
            self._begin()

    def _learn(self, until: datetime | None) -> None:
        """The latest counts, as in the store: an answer that was long under way takes nothing back."""
        if until is not None:
            self._until = max(self._until or until, until)

    def stir(self) -> None:
        """Somebody uses the app here: it is time to look whether somebody watches, if that was a while ago."""
        if self._clock.monotonic() >= self._look_at:
            self._begin()

    def _begin(self) -> None:
        """Listens from now on, as long as somebody watches; what happens until that is known is not lost."""
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            return
        self._sending = asyncio.Lock()
        work = self._run(self._listen())
        # In a context of its own: whoever came by first has nothing to do with what is published later.
        self._task = asyncio.get_running_loop().create_task(work, name="mainspring-herald", context=Context())

    async def _run(self, heard: object) -> None:
        try:
            while await self._turn():
                await self._clock.sleep(GATHER_SECONDS)
        except ShuttingDown:
            pass
        except Exception as error:
            self._fail(error, self._ended)
        finally:
            if self._heard is heard:  # nobody has begun anew since
                self._hush()

    async def _turn(self) -> bool:
        """Publishes what has gathered, or looks whether somebody watches still; whether somebody does."""
        look = self._clock.monotonic() >= self._look_at
        if look:
            self._look_at = self._clock.monotonic() + WATCH_POLL_SECONDS
        try:
            store = await self._watched_store()
            if self._waiting and self.watched:
                await self._publish(store)
            elif look:
                self._learn(await store.watched())
            self.trouble = None
        except StoreUnavailable as error:
            self._fail(error, self._postponed)
            await self._clock.sleep(RETRY_SECONDS)
        return self.watched

    def _fail(self, error: Exception, survived: SurvivedErrors) -> None:
        self.trouble = f"{type(error).__name__}: {error}"
        survived(error)

    # what happens

    def _listen(self) -> object:
        self._hush()
        self._heard = [(kind, self._hearing(tell)) for kind, tell in CONVERTERS.items()]
        for kind, act in self._heard:
            self._bus.subscribe(kind, act)
        return self._heard

    def _hearing(self, tell: Callable[[Any], Iterable[FeedEvent]]) -> Callable[[Any], None]:
        def hear(event: Any) -> None:
            notices = tell(event)
            with self._lock:
                self._waiting.extend(notices)
                self._bound()

        return hear

    def _bound(self) -> None:
        while len(self._waiting) > MAX_WAITING_EVENTS:
            self._waiting.popleft()
            self._dropped += 1

    def _hush(self) -> None:
        for kind, act in self._heard:
            self._bus.unsubscribe(kind, act)
        self._heard = []
        with self._lock:
            self._waiting.clear()
            self._dropped = 0

    async def _publish(self, store: Store) -> None:
        async with self._sending:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_EVENTS))]
                dropped, self._dropped = self._dropped, 0
            now = self._clock.now()
            gone = [FeedEvent(type=DROPPED, at=now, count=dropped)] if dropped else []
            try:
                self._learn(await store.publish([encode(notice) for notice in gone + batch], now=now))
            except BaseException:
                with self._lock:
                    self._waiting.extendleft(reversed(batch))
                    self._dropped += dropped
                    self._bound()
                raise

    # the end

    async def flush(self) -> None:
        """What has gathered in this loop is published, unless the store takes long."""
        if self._task is None or self._task.get_loop() is not asyncio.get_running_loop():
            return
        with self._unpublished.survive(Exception):  # a bug in the feed must not reach the engine
            async with asyncio.timeout(LAST_FLUSH_SECONDS):
                if self._waiting and not self.watched:
                    self._learn(await (await self._opened()).watched())
                while self._waiting and self.watched:
                    await self._publish(await self._opened())

    async def close(self) -> None:
        await self.flush()
        self.stop()

    def stop(self) -> None:
        """Hears and says no more, until somebody watches anew."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
        self._hush()
