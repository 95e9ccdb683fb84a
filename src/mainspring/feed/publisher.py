"""FeedPublisher: publishes the events of this process to the live feed while it is watched."""

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

# Pause between two batches, in which events gather.
GATHER_SECONDS = 0.1
# Events in a batch: with the pause above, at most 5,000 a second, to spare the store.
BATCH_EVENTS = 500
# Events that wait to be published; beyond that the oldest are dropped and counted.
MAX_WAITING_EVENTS = 5_000
# How often a process without heartbeats checks whether the feed is watched.
WATCH_POLL_SECONDS = 5.0
# Pause after the store failed.
RETRY_SECONDS = 1.0
# Real time for the last events of a process that stops.
LAST_FLUSH_SECONDS = 1.0


class FeedPublisher:
    """The publisher of one app, for all its event loops. The engine never waits for it, and builds no events for it
    while the feed is not watched.

    A worker learns from its heartbeats whether the feed is watched; a process without one polls in the background.
    """

    def __init__(self, bus: Bus, clock: Clock, connect: Callable[[], Awaitable[Store]]) -> None:
        self._bus = bus
        self._clock = clock
        self._connect = connect
        self._wrap: Callable[[Store], Store] = lambda store: store
        self._until: datetime | None = None
        self._check_at = -math.inf
        self._waiting: deque[FeedEvent] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._subscriptions: list[tuple[type[Event], Callable[[Any], None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._postponed = SurvivedErrors("feed", "events of this process are published to the live feed later")
        self._ended = SurvivedErrors("feed", "the live feed gets no more events of this process until it checks again")
        self._unpublished = SurvivedErrors("feed", "the last events of this process are missing from the live feed")
        self.trouble: str | None = None
        """Why the last attempt to publish failed; None if it worked, or if there was nothing to publish."""

    def wrap_store(self, wrap: Callable[[Store], Store]) -> None:
        """Wraps the store for its calls."""
        self._wrap = wrap

    async def _wrapped_store(self) -> Store:
        return self._wrap(await self._connect())

    @property
    def watched(self) -> bool:
        return self._until is not None and self._clock.now() < self._until

    # whether the feed is watched

    def watch_until(self, until: datetime | None) -> None:
        """The feed is watched until then, as a heartbeat or a reader in this process reported."""
        self._extend_watch(until)
        self._check_at = self._clock.monotonic() + 3 * WATCH_POLL_SECONDS
        if self.watched:
            self._start()

    def _extend_watch(self, until: datetime | None) -> None:
        """Keeps the latest time, as the store does: a delayed answer does not shorten the watch."""
        if until is not None:
            self._until = max(self._until or until, until)

    def poke(self) -> None:
        """Checks whether the feed is watched if the last check is a while ago; called when the app is used."""
        if self._clock.monotonic() >= self._check_at:
            self._start()

    def _start(self) -> None:
        """Subscribes to events while the feed is watched; events before the first check are buffered."""
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            return
        self._sending = asyncio.Lock()
        work = self._run(self._listen())
        # In an empty context: the first caller's context variables do not belong to later events.
        self._task = asyncio.get_running_loop().create_task(work, name="mainspring-feed-publisher", context=Context())

    async def _run(self, subscriptions: object) -> None:
        try:
            while await self._publish_or_check():
                await self._clock.sleep(GATHER_SECONDS)
        except ShuttingDown:
            pass
        except Exception as error:
            self._fail(error, self._ended)
        finally:
            if self._subscriptions is subscriptions:  # not restarted since
                self._stop_listening()

    async def _publish_or_check(self) -> bool:
        """Publishes a batch, or checks whether the feed is still watched; returns whether it is."""
        check = self._clock.monotonic() >= self._check_at
        if check:
            self._check_at = self._clock.monotonic() + WATCH_POLL_SECONDS
        try:
            store = await self._wrapped_store()
            if self._waiting and self.watched:
                await self._publish(store)
            elif check:
                self._extend_watch(await store.publish([], now=self._clock.now()))
            self.trouble = None
        except StoreUnavailable as error:
            self._fail(error, self._postponed)
            await self._clock.sleep(RETRY_SECONDS)
        return self.watched

    def _fail(self, error: Exception, survived: SurvivedErrors) -> None:
        self.trouble = f"{type(error).__name__}: {error}"
        survived(error)

    # events

    def _listen(self) -> object:
        self._stop_listening()
        self._subscriptions = [(kind, self._subscriber(convert)) for kind, convert in CONVERTERS.items()]
        for kind, subscriber in self._subscriptions:
            self._bus.subscribe(kind, subscriber)
        return self._subscriptions

    def _subscriber(self, convert: Callable[[Any], Iterable[FeedEvent]]) -> Callable[[Any], None]:
        def receive(event: Any) -> None:
            converted = convert(event)
            with self._lock:
                self._waiting.extend(converted)
                self._drop_oldest()

        return receive

    def _drop_oldest(self) -> None:
        while len(self._waiting) > MAX_WAITING_EVENTS:
            self._waiting.popleft()
            self._dropped += 1

    def _stop_listening(self) -> None:
        for kind, subscriber in self._subscriptions:
            self._bus.unsubscribe(kind, subscriber)
        self._subscriptions = []
        with self._lock:
            self._waiting.clear()
            self._dropped = 0

    async def _publish(self, store: Store) -> None:
        async with self._sending:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_EVENTS))]
                dropped, self._dropped = self._dropped, 0
            now = self._clock.now()
            loss = [FeedEvent(type=DROPPED, at=now, count=dropped)] if dropped else []
            try:
                self._extend_watch(await store.publish([encode(event) for event in loss + batch], now=now))
            except BaseException:
                with self._lock:
                    self._waiting.extendleft(reversed(batch))
                    self._dropped += dropped
                    self._drop_oldest()
                raise

    # the end

    async def flush(self) -> None:
        """Publishes the waiting events of this loop, unless the store takes too long."""
        if self._task is None or self._task.get_loop() is not asyncio.get_running_loop():
            return
        with self._unpublished.survive(Exception):  # a bug in the feed must not reach the engine
            async with asyncio.timeout(LAST_FLUSH_SECONDS):
                if self._waiting and not self.watched:
                    self._extend_watch(await (await self._connect()).publish([], now=self._clock.now()))
                while self._waiting and self.watched:
                    await self._publish(await self._connect())

    async def close(self) -> None:
        await self.flush()
        self.stop()

    def stop(self) -> None:
        """Stops publishing until the feed is watched again."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
        self._stop_listening()
