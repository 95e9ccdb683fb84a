"""Crier: knows who wants to be told of what, and has it told."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Never

from msgspec.structs import replace

from .. import events
from ..clock import Alarm, Clock
from ..errors import MainspringError, StoreUnavailable
from ..ids import JobId
from ..records.job import Action, Job, NewJob, State
from ..records.outcome import Outcome
from ..records.query import Filter
from ..store import Store
from ..store_retry import StoreRetry
from ..survived_errors import SurvivedErrors, count_error
from .message import WebhookEvent, delivery, end_of, ended, passed, short, stopped
from .record import TASK, WEBHOOKS, Webhook

_logger = logging.getLogger("mainspring")
_postponed = SurvivedErrors("webhooks", "events wait in this process to be delivered to webhooks")
_dropped = SurvivedErrors("webhooks", "events of a worker that stops are not delivered to webhooks")
# Events that wait to be told; of more, while the store is away, the oldest go first.
GATHERED = 10_000
# Jobs enqueued in one step.
STEP = 500
# Real seconds for the last words of a worker.
LAST = 1.0
HEARD: tuple[type[events.Event], ...] = (
    events.JobsChanged, events.JobsExpired, events.SchedulePaused, events.TickPassed, events.WorkerStarted,
    events.WorkerStopped,
)  # fmt: skip


class WebhookDispatcher:
    """One for each app. A run's end is told with its outcome, in one step; everything else right after it."""

    def __init__(self, clock: Clock, bus: events.Bus, opened: Callable[[], Awaitable[Store]]) -> None:
        self._clock = clock
        self._bus = bus
        self._opened = opened
        self._hooks: Sequence[Webhook] | None = None
        self._kinds: frozenset[str] = frozenset()
        self._gathered: deque[events.Event] = deque(maxlen=GATHERED)
        self.listens = False
        """Whether the end of a run may matter to somebody: all that a job costs where there are no webhooks."""
        self._ringers: set[Callable[[], None]] = set()
        self._workers = 0

    # the end of a run

    def told(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome, with a job for each webhook that wants to know. Never keeps a job from ending."""
        kind = end_of(job, outcome)
        if kind not in self._kinds:
            return outcome
        try:
            event = ended(kind, job, outcome)
            jobs = self._deliveries(self._hooks or (), [event], outcome.finished_at)
        except Exception as error:
            _logger.exception("job %s ended as %s, and no webhook could be told", job.id, outcome.state)
            count_error("webhooks", error)
            return outcome
        return replace(outcome, then=(*outcome.then, *jobs)) if jobs else outcome

    # everything else

    def hear(self, event: events.Event) -> None:
        """Keeps it until flush(), unless nobody wants to know."""
        kinds = _kinds(event)
        if kinds and (self._hooks is None or any(hook.wants(kind) for hook in self._hooks for kind in kinds)):
            self._gathered.append(event)
            for ring in tuple(self._ringers):
                ring()

    async def flush(self) -> bool:
        """Has everything told that was heard; whether there was something to tell.

        What has happened stands: trouble here is logged, and the rest waits for another time.
        """
        try:
            return bool(self._gathered) and await self.carry(await self._opened())
        except StoreUnavailable as error:
            _postponed(error)
            return False

    async def flush_last(self) -> None:
        """The same for a worker that stops, whether or not the store takes long."""
        with _dropped.survive(MainspringError, TimeoutError):
            async with asyncio.timeout(LAST):
                await self.flush()

    async def carry(self, store: Store) -> bool:
        heard = [self._gathered.popleft() for _ in range(len(self._gathered))]
        try:
            now = self._clock.now()
            hooks = [kept.webhook for kept in await WEBHOOKS.find(store, None, now)]
            found = [event for one in heard for event in await self._meaning(store, one, hooks, now)] if hooks else []
            jobs = self._deliveries(hooks, found, now)
            for n in range(0, len(jobs), STEP):
                await self._enqueue(store, jobs[n : n + STEP], now)
            return bool(jobs)
        except StoreUnavailable:
            self._gathered.extendleft(reversed(heard))
            raise

    async def _enqueue(self, store: Store, jobs: Sequence[NewJob], now: datetime) -> None:
        for job, answer in zip(jobs, await store.enqueue(jobs, now=now), strict=True):
            if answer.status == "new":
                self._bus.emit(events.JobEnqueued(at=now, id=job.id, task=TASK, queue=job.queue, status="new"))

    async def _meaning(
        self, store: Store, event: events.Event, hooks: Sequence[Webhook], now: datetime
    ) -> list[WebhookEvent]:  # fmt: skip
        if not any(hook.wants(kind) for hook in hooks for kind in _kinds(event)):
            return []
        match event:
            case events.JobsChanged(ids=ids):
                return await _ends(store, ids, State.CANCELLED, "job.cancelled", now)
            case events.JobsExpired(ids=ids):
                return await _ends(store, ids, State.EXPIRED, "job.expired", now)
            case events.TickPassed(schedule=schedule, tick=tick):
                return [passed(schedule, tick)]
            case events.SchedulePaused(schedule=schedule, note=note, at=at):
                return [_plain("schedule.paused", at, schedule, schedule=schedule, note=short(note))]
            case events.WorkerStarted(worker=worker, at=at):
                return [_plain("worker.started", at, worker, worker=worker)]
            case events.WorkerStopped(worker=worker, at=at):
                return [_plain("worker.stopped", at, worker, worker=worker)]
        return []

    def _deliveries(self, hooks: Iterable[Webhook], found: Sequence[WebhookEvent], now: datetime) -> list[NewJob]:
        return [
            delivery(hook, event, now)
            for event in found
            if event.job is None or event.job.task != TASK
            for hook in hooks
            if hook.wants(event.kind, event.job)
        ]

    # in a worker

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """For a worker's life: what refresh() has read counts until the last of them is gone."""
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers:
                self._hooks, self._kinds, self.listens = None, frozenset(), False

    async def refresh(self, store: Store) -> None:
        """From now on it knows the webhooks as they are."""
        hooks = [kept.webhook for kept in await WEBHOOKS.find(store, None, self._clock.now())]
        self._hooks = [hook for hook in hooks if hook.disabled_at is None]
        self._kinds = frozenset(kind for hook in self._hooks for kind in hook.events if kind.startswith("job."))
        self.listens = bool(self._kinds)

    async def run(self, store: Store, insist: StoreRetry, every: float) -> Never:
        """Keeps up with the webhooks there are, and tells what is heard, as long as the worker lives."""
        alarm, loop = Alarm(self._clock), asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(alarm.ring)

        self._ringers.add(ring)
        read_at = self._clock.monotonic()
        try:
            while True:
                await alarm.wait(every)
                if self._gathered:
                    await insist("telling webhooks", lambda: self.carry(store))
                if self._clock.monotonic() - read_at >= every:
                    await insist("reading webhooks", lambda: self.refresh(store))
                    read_at = self._clock.monotonic()
        finally:
            self._ringers.discard(ring)


def _kinds(event: events.Event) -> tuple[str, ...]:
    """What it may be to a webhook."""
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


async def _ends(store: Store, ids: Sequence[JobId], state: State, kind: str, now: datetime) -> list[WebhookEvent]:
    """Of those that are in that state now: one that runs has its end still to come, and that is told with it."""
    jobs = await store.jobs(Filter(ids=tuple(ids)), now=now, limit=len(ids))
    return [stopped(kind, job) for job in jobs if job.state is state]


def _plain(kind: str, at: datetime, about: str, **facts: str) -> WebhookEvent:
    return WebhookEvent(kind=kind, at=at, about=about, facts=facts)
