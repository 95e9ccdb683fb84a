"""WebhookDispatcher: enqueues a delivery job for each event that a webhook subscribes to."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Never
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from .. import events
from ..clock import Alarm, Clock
from ..errors import MainspringError, StoreUnavailable
from ..ids import JobId
from ..records.job import Action, Job, NewJob, State
from ..records.outcome import Outcome
from ..records.query import Filter
from ..store import Store
from ..store.retry import StoreRetry
from ..survived_errors import SurvivedErrors, count_error
from .message import WebhookEvent, delivery_job, end_kind, job_ended_event, masked_text, run_ended_event, tick_event
from .record import TASK, WEBHOOKS, Webhook

_logger = logging.getLogger("mainspring")
_postponed = SurvivedErrors("webhooks", "events wait in this process for delivery to webhooks")
_dropped = SurvivedErrors("webhooks", "events of a stopping worker are not delivered to webhooks")
# Events that wait for dispatch; beyond that, while the store is unavailable, the oldest are dropped.
MAX_WAITING_EVENTS = 10_000
# Delivery jobs enqueued at once.
BATCH_JOBS = 500
# Real time for the last events of a worker.
LAST_FLUSH_SECONDS = 1.0


class WebhookDispatcher:
    """The dispatcher of one app. Deliveries of a run's end are stored atomically with its outcome; those of other
    events are enqueued right after the event.
    """

    def __init__(self, clock: Clock, bus: events.Bus, connect: Callable[[], Awaitable[Store]]) -> None:
        self._clock = clock
        self._bus = bus
        self._connect = connect
        self._hooks: Sequence[Webhook] | None = None
        self._kinds: frozenset[str] = frozenset()
        self._waiting: deque[events.Event] = deque(maxlen=MAX_WAITING_EVENTS)
        self.watches_jobs = False
        """Whether any webhook subscribes to job events. Without webhooks, this check is the only cost per job."""
        self.enqueued = 0
        """Number of deliveries enqueued by flush() so far."""
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._wakers: set[Callable[[], None]] = set()
        self._workers = 0
        self._version: str | None = None
        self._read_version: str | None = None

    # ends of runs

    def with_deliveries(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome, with a delivery job for each webhook that wants it. Never raises: the job has to end."""
        kind = end_kind(job, outcome)
        if kind not in self._kinds:
            return outcome
        try:
            event = run_ended_event(kind, job, outcome)
            jobs = self._deliveries(self._hooks or (), [event], outcome.finished_at)
        except Exception as error:
            _logger.exception("job %s ended as %s, and its webhook deliveries could not be made", job.id, outcome.state)
            count_error("webhooks", error)
            return outcome
        return replace(outcome, then=(*outcome.then, *jobs)) if jobs else outcome

    # other events

    def collect(self, event: events.Event) -> None:
        """Collects the event for the next flush(), unless no webhook wants it."""
        kinds = _kinds_of(event)
        if kinds and (self._hooks is None or any(hook.wants(kind) for hook in self._hooks for kind in kinds)):
            self._waiting.append(event)
            for wake in tuple(self._wakers):
                wake()

    async def flush(self) -> bool:
        """Enqueues deliveries of the collected events, after a flush that is under way; returns whether there were any.

        If the store is unavailable, this is logged, and the events wait for the next flush.
        """
        try:
            return (bool(self._waiting) or self._lock().locked()) and await self._flush_to(await self._connect())
        except StoreUnavailable as error:
            _postponed(error)
            return False

    async def flush_last(self) -> None:
        """flush() for a worker that stops, with a time limit."""
        with _dropped.survive(MainspringError, TimeoutError):
            async with asyncio.timeout(LAST_FLUSH_SECONDS):
                await self.flush()

    async def _flush_to(self, store: Store) -> bool:
        async with self._lock():
            return await self._flush_collected(store) if self._waiting else False

    def _lock(self) -> asyncio.Lock:
        """One flush at a time in each event loop: when the next one returns, the one before has ended."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _flush_collected(self, store: Store) -> bool:
        collected = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            now = self._clock.now()
            hooks = [stored.webhook for stored in await WEBHOOKS.find(store, None, now)]
            found = (
                [event for one in collected for event in await self._webhook_events(store, one, hooks, now)]
                if hooks
                else []
            )
            jobs = self._deliveries(hooks, found, now)
            for n in range(0, len(jobs), BATCH_JOBS):
                await self._enqueue(store, jobs[n : n + BATCH_JOBS], now)
            return bool(jobs)
        except (StoreUnavailable, asyncio.CancelledError):  # cancelled: the last flush of the worker follows
            self._waiting.extendleft(reversed(collected))
            raise

    async def _enqueue(self, store: Store, jobs: Sequence[NewJob], now: datetime) -> None:
        for job, answer in zip(jobs, await store.enqueue(jobs, now=now), strict=True):
            if answer.status == "new":
                self.enqueued += 1
                self._bus.emit(events.JobEnqueued(at=now, id=job.id, task=TASK, queue=job.queue, status="new"))

    async def _webhook_events(
        self, store: Store, event: events.Event, hooks: Sequence[Webhook], now: datetime
    ) -> list[WebhookEvent]:
        if not any(hook.wants(kind) for hook in hooks for kind in _kinds_of(event)):
            return []
        match event:
            case events.JobsChanged(ids=ids):
                return await _ended_jobs(store, ids, State.CANCELLED, "job.cancelled", now)
            case events.JobsExpired(ids=ids):
                return await _ended_jobs(store, ids, State.EXPIRED, "job.expired", now)
            case events.TickPassed(schedule=schedule, tick=tick):
                return [tick_event(schedule, tick)]
            case events.SchedulePaused(schedule=schedule, note=note, at=at):
                return [_simple_event("schedule.paused", at, schedule, schedule=schedule, note=masked_text(note))]
            case events.WorkerStarted(worker=worker, at=at):
                return [_simple_event("worker.started", at, worker, worker=worker)]
            case events.WorkerStopped(worker=worker, at=at):
                return [_simple_event("worker.stopped", at, worker, worker=worker)]
        return []

    def _deliveries(self, hooks: Iterable[Webhook], found: Sequence[WebhookEvent], now: datetime) -> list[NewJob]:
        return [
            delivery_job(hook, event, now)
            for event in found
            if event.job is None or event.job.task != TASK
            for hook in hooks
            if hook.wants(event.kind, event.job)
        ]

    # in a worker

    @contextmanager
    def active(self) -> Iterator[None]:
        """Held by a worker while it runs: what refresh() read is valid until the last worker of the app ends."""
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers:
                self._hooks, self._kinds, self.watches_jobs = None, frozenset(), False
                self._version = self._read_version = None

    async def refresh(self, store: Store) -> None:
        """Reads the webhooks from the store."""
        version = self._version  # before the read: webhooks that change meanwhile have another one in the next beat
        hooks = [stored.webhook for stored in await WEBHOOKS.find(store, None, self._clock.now())]
        self._hooks = [hook for hook in hooks if hook.disabled_at is None]
        self._kinds = frozenset(kind for hook in self._hooks for kind in hook.events if kind.startswith("job."))
        self.watches_jobs = bool(self._kinds)
        self._read_version = version

    def note_version(self, version: str | None) -> None:
        """Records the version of the webhooks that a beat's reply has. None if the store does not say."""
        self._version = version
        if version is not None and version != self._read_version:
            for wake in tuple(self._wakers):
                wake()

    def _is_outdated(self, age: float, every: float) -> bool:
        return age >= every if self._version is None else self._version != self._read_version

    async def run(self, store: Store, retry: StoreRetry, every: float) -> Never:
        """Dispatches collected events until cancelled. Re-reads the webhooks when a beat's reply has another version of
        them, or every `every` seconds if the replies have none."""
        alarm, loop = Alarm(self._clock), asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(alarm.ring)

        self._wakers.add(wake)
        read_at = self._clock.monotonic()
        try:
            while True:
                await alarm.wait(every)
                if self._waiting:
                    # This text is the value of a metric label, which stays.
                    await retry("telling webhooks", lambda: self._flush_to(store))
                if self._is_outdated(self._clock.monotonic() - read_at, every):
                    await retry("reading webhooks", lambda: self.refresh(store))
                    read_at = self._clock.monotonic()
        finally:
            self._wakers.discard(wake)


def _kinds_of(event: events.Event) -> tuple[str, ...]:
    """The webhook event types that this event may become."""
    match event:
        case events.JobsChanged(action=action):
            return ("job.cancelled",) if action is Action.CANCEL else ()
        case events.TickPassed(tick=tick):
            return (f"schedule.{tick.what}",)
    return _KINDS.get(type(event), ())


_KINDS: dict[type[events.Event], tuple[str, ...]] = {
    events.JobsExpired: ("job.expired",),
    events.SchedulePaused: ("schedule.paused",),
    events.WorkerStarted: ("worker.started",),
    events.WorkerStopped: ("worker.stopped",),
}


async def _ended_jobs(store: Store, ids: Sequence[JobId], state: State, kind: str, now: datetime) -> list[WebhookEvent]:
    """Events of the jobs that are in that state. A running one ends later, and is dispatched with its outcome."""
    jobs = await store.jobs(Filter(ids=tuple(ids)), now=now, limit=len(ids))
    return [job_ended_event(kind, job) for job in jobs if job.state is state]


def _simple_event(kind: str, at: datetime, about: str, **facts: str) -> WebhookEvent:
    return WebhookEvent(kind=kind, at=at, about=about, facts=facts)
