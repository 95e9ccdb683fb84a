"""Scheduler: stores the schedules that the code declares, and fires the due ones."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Never, TypeVar

from msgspec.structs import replace

from ..clock import Alarm, Clock
from ..codec import Arguments
from ..errors import BadInput, NotLeader
from ..events import Bus, SchedulePaused, SchedulesChanged, TickFired, TickPassed, enqueued_event
from ..failpoint import failpoint
from ..ids import JobId, new_id
from ..records.job import NewJob, State
from ..records.outcome import clean, failure_of
from ..records.query import Filter
from ..schedule.balance.load import TickLoad
from ..schedule.balance.spread import choose_anchor, needs_anchor
from ..schedule.edit import create, fingerprint, redefine
from ..schedule.options import DeclaredSchedule
from ..schedule.plan import plan
from ..schedule.record import BACKFILL, BY_HAND, INPUT_ERROR, MAX_REASON_CHARACTERS, Firing, Schedule, Tick, tick_key
from ..store import Store
from ..store.poll_interval import poll_interval
from ..store.retry import StoreRetry
from ..survived_errors import is_own_cancellation
from .user_call import UserCalls
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ..leader import Leader

# Maximum schedules per store call.
BATCH_SCHEDULES = 500
# Maximum jobs per store transaction, which other writers and the event loop have to wait for.
BATCH_JOBS = 500
# Schedules planned before yielding to the event loop: a few milliseconds, during which no job here proceeds.
SCHEDULES_PER_YIELD = 100
# Minimum interval between two queries for due schedules when the store reports change after change.
BUSY_RETRY_SECONDS = 0.1
# Timeout for computing the input of a tick: the other schedules wait meanwhile.
INPUT_TIMEOUT_SECONDS = 10.0
_logger = logging.getLogger("mainspring")
T = TypeVar("T")


def job_for_tick(schedule: Schedule, tick: Tick, payload: str, now: datetime, fingerprint: str | None) -> NewJob:
    """The job of a tick, with the tick's key. A trigger by hand is not a tick: it gets a key of its own."""
    # Stores find a schedule's jobs by their keys, so every one of them needs a key.
    by_hand = f"schedule:{schedule.name}:hand-{tick.job_id}"
    spec, key = schedule.spec, by_hand if tick.reason == BY_HAND else tick_key(schedule.name, tick.at)
    return NewJob(
        id=tick.job_id or "",
        task=spec.task,
        payload=payload,
        queue=spec.queue,
        priority=spec.priority,
        expires_at=None if spec.expires is None else now + timedelta(seconds=spec.expires),
        timeout=spec.timeout,
        max_retries=spec.max_retries,
        backoff=spec.backoff,
        tags=spec.tags,
        metadata=spec.metadata,
        idempotency_key=key,
        schedule=schedule.name,
        scheduled_at=tick.at,
        detached=tick.reason == BACKFILL,
        fingerprint=fingerprint,
    )


async def read_load(store: Store, now: datetime, *, without: Collection[str]) -> TickLoad:
    """The tick load of all active schedules except `without`, read page by page: there may be very many."""
    load, after = TickLoad((), now), None
    while page := await store.schedules(limit=BATCH_SCHEDULES, after=after):
        for row in page:
            if row.status == "active" and row.name not in without:
                load.add(row)
        after = page[-1].name
    return load


def _batches(items: Sequence[T]) -> list[Sequence[T]]:
    """The items in batches of the size of one store call."""
    return [items[n : n + BATCH_SCHEDULES] for n in range(0, len(items), BATCH_SCHEDULES)]


class Scheduler:
    """Fires schedules. Any worker may fire: the store rejects the second firing of a tick.

    So a tick fires once without a leader. A leader saves the other workers the queries.
    """

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        declared: Mapping[str, DeclaredSchedule],
        arguments: Mapping[str, Arguments],
        *,
        payload_limit: int,
        fires: bool = True,
        leader: Leader | None = None,
        limit_key: Callable[[str, str], str | None] | None = None,
    ) -> None:
        """`arguments` encodes the computed input of each task; with a `leader` it fires only while that one leads.
        `limit_key` returns the group of a job of that task with that payload."""
        self._limit_key = limit_key
        self._clock = clock
        self._bus = bus
        self._declared = declared
        self._arguments = arguments
        self._limit = payload_limit
        self._fires = fires
        self._leader = leader
        self._failed_jobs: dict[JobId, datetime] = {}
        self._alarm = Alarm(clock)
        self._looked_at = -math.inf
        self._look_planned = False
        self._looking = asyncio.Lock()
        self.fired = 0
        """Number of firings stored so far."""
        self.next_at: datetime | None = None
        """When the next schedule is due, as of the last look at them; None if none is."""
        self._ready = asyncio.Event()
        self._inputs = UserCalls(clock, INPUT_TIMEOUT_SECONDS)
        if leader is not None:
            leader.on_change(lambda leading: self._alarm.ring())

    # declared schedules

    async def declare(self, store: Store, *, missing_only: bool = False) -> None:
        """Creates or redefines the store's schedules as the code declares them. Those of users are left alone."""
        names = set(self._declared)
        while names:
            now = self._clock.now()
            known = {
                row.name: row
                for some in _batches(sorted(names))
                for row in await store.schedules(some, limit=BATCH_SCHEDULES)
            }
            unplaced_names = {name for name in names if needs_anchor(self._declared[name].spec, known.get(name))}
            load = await read_load(store, now, without=unplaced_names) if unplaced_names else TickLoad((), now)
            wanted = [self._firing_for(name, known.get(name), now, missing_only, load) for name in sorted(names)]
            firings = [firing for firing in wanted if firing is not None]
            names, stand = set(), list[str]()
            answers = [done for some in _batches(firings) for done in await store.fire(some, now=now)]
            for firing, done in zip(firings, answers, strict=True):
                if done.stands:
                    self.emit_fired(firing)
                    stand.append(firing.schedule.name)
                else:  # another worker was first: look again, most likely nothing is left to do
                    names.add(firing.schedule.name)
            if stand:
                self._bus.emit(SchedulesChanged(at=now, action="declare", names=tuple(stand)))

        await self._warn_missing_dependencies(store)

    async def _warn_missing_dependencies(self, store: Store) -> None:
        dependencies = {name for declaration in self._declared.values() for name in declaration.spec.depends_on}
        wanted = dependencies - set(self._declared)
        known = {row.name for row in await store.schedules(wanted, limit=len(wanted))} if wanted else set()
        for name, declaration in self._declared.items():
            for missing in sorted(wanted.intersection(declaration.spec.depends_on) - known):
                _logger.warning("schedule %r depends on %r, which does not exist: it never fires", name, missing)

    def _firing_for(
        self, name: str, row: Schedule | None, now: datetime, missing_only: bool, load: TickLoad
    ) -> Firing | None:
        spec, digest = self._declared[name].spec, fingerprint(self._declared[name].spec)
        if row is not None and (missing_only or row.owner == "user" or row.declared == digest):
            return None
        anchor_at = choose_anchor(name, spec, load, now) if needs_anchor(spec, row) else None
        if row is None:
            firing = Firing(schedule=create(name, spec, owner="code", now=now, anchor_at=anchor_at))
        else:
            firing = redefine(row, spec, now=now, declared=digest, anchor_at=anchor_at)
        if anchor_at is not None:
            load.add(firing.schedule)
        return firing

    # firing

    async def run(
        self, store: Store, retry: StoreRetry, poll: float, watchdog: Watchdog, until_idle: bool = False
    ) -> None:
        """Fires until cancelled. Sleeps until the next schedule is due, but at most `poll` seconds unless the store
        reports changes: clocks jump, and other processes change schedules.

        With `until_idle` it stands for election once, at the start, and does not wait for its turn to lead.
        """
        await retry("declaring schedules", lambda: self.declare(store))
        if self._leader is not None:
            self._leader.wrap_store(lambda store: watchdog.store(store, "leader"))
        async with self._leading(until_idle):
            self._ready.set()
            await self._fire_loop(store, retry, poll, watchdog)

    async def run_on_demand(self, store: Store) -> Never:
        """As run() until idle, for a worker under test: fires nothing except in fire_all()."""
        await self.declare(store)
        async with self._leading(once=True):
            self._ready.set()
            await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def _fire_loop(self, store: Store, retry: StoreRetry, poll: float, watchdog: Watchdog) -> Never:
        async def run_once() -> float | None:
            watchdog.mark("fire")
            return await self.run_once(store)

        while True:
            wait, rest = await retry("firing", run_once), poll_interval(store, poll)
            watchdog.mark("fire", rest)
            await self._alarm.wait(rest if wait is None else min(wait, rest))

    @asynccontextmanager
    async def _leading(self, once: bool) -> AsyncIterator[None]:
        """Leads inside the block, if firing needs it: when its turn comes or, with `once`, if no other leads now."""
        if self._leader is None:
            yield
        elif once:
            with suppress(NotLeader):
                await self._leader.acquire(0, keep=True)
            try:
                yield
            finally:
                await self._leader.release()
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._leader.run(asyncio.Event().wait))
                yield

    def _may_fire(self) -> bool:
        return self._fires if self._leader is None else self._leader.is_leader

    def on_store_change(self) -> None:
        """Looks for due schedules again, but not more often than every BUSY_RETRY_SECONDS."""
        if not self._look_planned:
            self._look_planned = True
            self._clock.call_later(max(0.0, self._looked_at + BUSY_RETRY_SECONDS - self._clock.monotonic()), self._look)

    def _look(self) -> None:
        self._look_planned = False
        self._alarm.ring()

    async def fire_all(self, store: Store) -> float | None:
        """Fires every due schedule, once run() has declared them; returns the seconds until the next one is due."""
        await self._ready.wait()
        while (wait := await self.run_once(store)) == 0.0:
            pass
        return wait

    async def run_once(self, store: Store) -> float | None:
        """Fires due schedules; returns the seconds until the next one is due, None if there is none."""
        async with self._looking:
            return await self._run_once(store)

    async def _run_once(self, store: Store) -> float | None:
        self.next_at = next_at = await self._fire_due(store) if self._may_fire() else None
        if self._failed_jobs:
            await self._emit_paused(store)
        return None if next_at is None else max(0.0, (next_at - self._clock.now()).total_seconds())

    async def _fire_due(self, store: Store) -> datetime | None:
        now, self._looked_at = self._clock.now(), self._clock.monotonic()
        due = await store.due(now=now, limit=BATCH_SCHEDULES, computed=self._computed_names())
        ahead = [] if due.next_at is None else [due.next_at]
        if due.schedules:
            ahead += await self._fire(store, due.schedules, now)
        return min(ahead, default=None)

    def _computed_names(self) -> Collection[str]:
        return [name for name, declaration in self._declared.items() if declaration.input is not None]

    async def _fire(self, store: Store, schedules: Sequence[Schedule], now: datetime) -> list[datetime]:
        """Returns when the fired schedules are due next."""
        depends = {name for schedule in schedules for name in schedule.spec.depends_on}
        rows = {row.name: row for row in await store.schedules(depends, limit=len(depends))} if depends else {}
        broken: dict[str, dict[datetime, str]] = {schedule.name: {} for schedule in schedules}
        left, ahead = deque(schedules), list[datetime]()
        while left:
            planned: list[tuple[Schedule, Firing]] = []
            load = 0
            while left and load < BATCH_JOBS:
                schedule = left.popleft()
                firing = await self._plan(schedule, now, rows, broken[schedule.name])
                planned.append((schedule, firing))
                load += len(firing.jobs)
                if not len(planned) % SCHEDULES_PER_YIELD:
                    await asyncio.sleep(0)
            failpoint("fire.planned")
            fired = await store.fire([firing for _, firing in planned], now=now)
            for (schedule, firing), answer in zip(planned, fired, strict=True):
                if answer.stands:
                    self.fired += 1
                    self.emit_fired(firing)
                    # A job it cancelled may have ended in the same transaction, and freed the tick that waits for it.
                    again = now if firing.cancel else firing.schedule.due_at
                    ahead += [] if again is None else [again]
                elif answer.held:
                    taken = {job.scheduled_at for job in firing.jobs if job.idempotency_key in answer.held}
                    broken[schedule.name] |= {tick: "made_already" for tick in taken if tick is not None}
                    left.append(schedule)
                elif answer.error:
                    reason = clean(answer.error, MAX_REASON_CHARACTERS)
                    broken[schedule.name] |= {job.scheduled_at: reason for job in firing.jobs if job.scheduled_at}
                    left.append(schedule)
        return ahead

    async def _plan(
        self, schedule: Schedule, now: datetime, rows: Mapping[str, Schedule], broken: dict[datetime, str]
    ) -> Firing:
        others = {name: rows[name] for name in schedule.spec.depends_on if name in rows}
        while True:
            firing = plan(schedule, now=now, new_job_id=lambda: new_id(now), dependencies=others, skip_reasons=broken)
            jobs: list[NewJob] = []
            for tick in firing.ticks:
                if tick.what == "fired":
                    try:
                        payload = await self.payload(schedule, tick.at)
                        jobs.append(self.job_for_tick(schedule, tick, payload, now, self.fingerprint(schedule)))
                    except BaseException as error:  # of any kind: code of the values' own classes runs there
                        if is_own_cancellation(error):
                            raise
                        failure = failure_of(error, stack=False)
                        broken[tick.at] = clean(
                            f"{INPUT_ERROR}{failure.type}: {failure.message}", MAX_REASON_CHARACTERS
                        )
            if len(jobs) == firing.schedule.fired - schedule.fired:
                return replace(firing, jobs=tuple(jobs))

    def job_for_tick(
        self, schedule: Schedule, tick: Tick, payload: str, now: datetime, fingerprint: str | None
    ) -> NewJob:
        """As job_for_tick(), with its group in the limit of its task."""
        job = job_for_tick(schedule, tick, payload, now, fingerprint)
        key = None if self._limit_key is None else self._limit_key(schedule.spec.task, payload)
        return job if key is None else replace(job, limit_key=key)

    async def payload(self, schedule: Schedule, tick: datetime) -> str:
        """The payload of a tick's job: the stored one, or computed now."""
        if not schedule.spec.computed:
            return schedule.spec.payload
        declaration = self._declared.get(schedule.name)
        if declaration is None or declaration.input is None:
            raise BadInput(f"schedule {schedule.name!r} computes its input, by a function that is not in this app")
        values = await self._inputs(schedule.name, declaration.input, tick)
        if not isinstance(values, Mapping):
            raise BadInput(f"it returned {values!r:.80}, not a mapping of argument names to values")
        return self._arguments[schedule.spec.task].encode((), values, self._limit)

    def fingerprint(self, schedule: Schedule) -> str | None:
        """Fingerprint of the task version that encoded what payload() returns."""
        spec = schedule.spec
        return self._arguments[spec.task].fingerprint if spec.computed else spec.fingerprint

    # events

    def emit_fired(self, firing: Firing) -> None:
        """Emits the events of a firing that the store has accepted: its ticks and its jobs."""
        now, name = self._clock.now(), firing.schedule.name
        for tick in firing.ticks:
            kind = TickFired if tick.what == "fired" else TickPassed
            self._bus.emit(kind(at=now, schedule=name, tick=tick))
        for job in firing.jobs:
            self._bus.emit(enqueued_event(now, job))

    def note_failed_job(self, id: JobId, at: datetime) -> None:
        """Records a job that fails now: the store may pause its schedule, if it has one, for that."""
        self._failed_jobs[id] = at

    async def _emit_paused(self, store: Store) -> None:
        failed, self._failed_jobs = self._failed_jobs, {}
        which, now = Filter(ids=tuple(failed)), self._clock.now()
        jobs = await store.jobs(which, now=now, limit=len(failed), brief=True)
        # A job that still runs has its outcome on the way: check it next time.
        self._failed_jobs |= {job.id: failed[job.id] for job in jobs if job.state is State.RUNNING}
        ends = {(job.schedule, failed[job.id]) for job in jobs if job.schedule is not None and job.state.final}
        names = {name for name, _ in ends}
        for row in await store.schedules(names, limit=len(names)) if names else ():
            if row.paused_at is not None and (row.name, row.paused_at) in ends:
                self._bus.emit(SchedulePaused(at=row.paused_at, schedule=row.name, note=row.note))
