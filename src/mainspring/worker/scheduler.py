"""Scheduler: writes down what the code declares, and fires what is due."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Never, TypeVar

from msgspec.structs import replace

from ..clock import Alarm, Clock
from ..codec import Arguments
from ..errors import BadInput, NotLeader
from ..events import Bus, SchedulePaused, SchedulesChanged, TickFired, TickPassed, enqueued_event
from ..failpoint import failpoint
from ..ids import JobId, new_id
from ..leader import Leader
from ..poll_interval import poll_interval
from ..records.job import NewJob, State
from ..records.outcome import clean, failure_of
from ..records.query import Filter
from ..schedule.balance.load import TickLoad
from ..schedule.balance.spread import place, unplaced
from ..schedule.edit import create, fingerprint, redefine
from ..schedule.options import Declared
from ..schedule.plan import plan
from ..schedule.record import BACKFILL, BY_HAND, INPUT, REASON_LIMIT, Firing, Schedule, Tick, key_of
from ..store import Store
from ..store_retry import StoreRetry
from ..survived_errors import is_own_cancellation
from .user_call import UserCalls
from .watchdog import Watchdog

# Schedules that one turn fires at most, and one step reads or writes.
BATCH = 500
# Jobs after which a step is written: whoever else writes, and the event loop, wait for no more of them.
LOAD = 500
# Schedules planned without a pause: some milliseconds, for which the jobs under way in this process wait.
PLANNED_AT_ONCE = 100
# Seconds between two looks at a store that is busy with other things.
REST = 0.1
# Seconds that the input of a tick may take to be made: the other schedules wait meanwhile.
INPUT_TIMEOUT = 10.0
_logger = logging.getLogger("mainspring")
T = TypeVar("T")


def job_of(schedule: Schedule, tick: Tick, payload: str, now: datetime, fingerprint: str | None) -> NewJob:
    """The job of a tick, under the tick's own key. What was triggered by hand is no tick, and may be so any time."""
    # Stores find a schedule's jobs by their keys, so that each has one.
    by_hand = f"schedule:{schedule.name}:hand-{tick.job_id}"
    spec, key = schedule.spec, by_hand if tick.reason == BY_HAND else key_of(schedule.name, tick.at)
    return NewJob(
        id=tick.job_id or "", task=spec.task, payload=payload, queue=spec.queue, priority=spec.priority,
        expires_at=None if spec.expires is None else now + timedelta(seconds=spec.expires), timeout=spec.timeout,
        max_retries=spec.max_retries, backoff=spec.backoff, tags=spec.tags, metadata=spec.metadata,
        idempotency_key=key, schedule=schedule.name, scheduled_at=tick.at, detached=tick.reason == BACKFILL,
        fingerprint=fingerprint,
    )  # fmt: skip


async def load_of(store: Store, now: datetime, *, without: Collection[str]) -> TickLoad:
    """All schedules as load, but for these, read page by page: there may be very many."""
    board, after = TickLoad((), now), None
    while page := await store.schedules(limit=BATCH, after=after):
        for row in page:
            if row.status == "active" and row.name not in without:
                board.add(row)
        after = page[-1].name
    return board


def _sets(items: Sequence[T]) -> list[Sequence[T]]:
    """As many at a time as one step of the store takes at most."""
    return [items[n : n + BATCH] for n in range(0, len(items), BATCH)]


class Scheduler:
    """Any worker may fire: who is second is told by the store, and does nothing.

    So no leader is needed for a tick to fire once. Having one saves the others the asking.
    """

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        declared: Mapping[str, Declared],
        arguments: Mapping[str, Arguments],
        *,
        payload_limit: int,
        fires: bool = True,
        leader: Leader | None = None,
    ) -> None:
        """`arguments` says how the input of each task travels; with a `leader` it fires only while that leads."""
        self._clock = clock
        self._bus = bus
        self._declared = declared
        self._arguments = arguments
        self._limit = payload_limit
        self._fires = fires
        self._leader = leader
        self._suspects: dict[JobId, datetime] = {}
        self._alarm = Alarm(clock)
        self._looked = -math.inf
        self._hearing = False
        self._inputs = UserCalls(clock, INPUT_TIMEOUT)
        if leader is not None:
            leader.on_change(lambda leading: self._alarm.ring())

    # what the code says

    async def declare(self, store: Store, *, missing_only: bool = False) -> None:
        """Brings the store's schedules in line with the code's. Those that users made are left alone."""
        names = set(self._declared)
        while names:
            now = self._clock.now()
            known = {row.name: row for some in _sets(sorted(names)) for row in await store.schedules(some, limit=BATCH)}
            homeless = {name for name in names if unplaced(self._declared[name].spec, known.get(name))}
            board = await load_of(store, now, without=homeless) if homeless else TickLoad((), now)
            wanted = [self._said(name, known.get(name), now, missing_only, board) for name in sorted(names)]
            firings = [firing for firing in wanted if firing is not None]
            names, stand = set(), list[str]()
            answers = [done for some in _sets(firings) for done in await store.fire(some, now=now)]
            for firing, done in zip(firings, answers, strict=True):
                if done.stands:
                    self.tell(firing)
                    stand.append(firing.schedule.name)
                else:  # who came second looks again: most likely there is nothing left to say
                    names.add(firing.schedule.name)
            if stand:
                self._bus.emit(SchedulesChanged(at=now, action="declare", names=tuple(stand)))

        await self._look_for_dependencies(store)

    async def _look_for_dependencies(self, store: Store) -> None:
        wanted = {name for said in self._declared.values() for name in said.spec.depends_on} - set(self._declared)
        known = {row.name for row in await store.schedules(wanted, limit=len(wanted))} if wanted else set()
        for name, said in self._declared.items():
            for missing in sorted(wanted.intersection(said.spec.depends_on) - known):
                _logger.warning("schedule %r depends on %r, which there is not: it never fires", name, missing)

    def _said(
        self, name: str, row: Schedule | None, now: datetime, missing_only: bool, board: TickLoad
    ) -> Firing | None:  # fmt: skip
        spec, digest = self._declared[name].spec, fingerprint(self._declared[name].spec)
        if row is not None and (missing_only or row.owner == "user" or row.declared == digest):
            return None
        anchor_at = place(name, spec, board, now) if unplaced(spec, row) else None
        if row is None:
            firing = Firing(schedule=create(name, spec, owner="code", now=now, anchor_at=anchor_at))
        else:
            firing = redefine(row, spec, now=now, declared=digest, anchor_at=anchor_at)
        if anchor_at is not None:
            board.add(firing.schedule)
        return firing

    # what is due

    async def run(self, store: Store, insist: StoreRetry, poll: float, vigil: Watchdog) -> None:
        """Sleeps until the next schedule is due, or `poll` at most if nothing is heard: clocks jump, and others change
        schedules."""

        await insist("declaring schedules", lambda: self.declare(store))
        if self._leader is None:
            await self._turns(store, insist, poll, vigil)
        else:
            self._leader.through(lambda store: vigil.store(store, "leader"))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._leader.run(asyncio.Event().wait))
                await self._turns(store, insist, poll, vigil)

    async def _turns(self, store: Store, insist: StoreRetry, poll: float, vigil: Watchdog) -> Never:
        async def turn() -> float | None:
            vigil.turn("fire")
            return await self.turn(store)

        while True:
            wait, rest = await insist("firing", turn), poll_interval(store, poll)
            vigil.turn("fire", rest)
            await self._alarm.wait(rest if wait is None else min(wait, rest))

    @asynccontextmanager
    async def at_hand(self) -> AsyncIterator[None]:
        """For turns without run(): leads meanwhile, if that is what firing takes and nobody else does."""
        if self._leader is None:
            yield
            return
        with suppress(NotLeader):
            await self._leader.acquire(0, keep=True)
        try:
            yield
        finally:
            await self._leader.release()

    def _may_fire(self) -> bool:
        return self._fires if self._leader is None else self._leader.is_leader

    def heard(self) -> None:
        """Something in the store has changed: looks again, but not all the time while the store is busy."""
        if not self._hearing:
            self._hearing = True
            self._clock.call_later(max(0.0, self._looked + REST - self._clock.monotonic()), self._look)

    def _look(self) -> None:
        self._hearing = False
        self._alarm.ring()

    async def turn(self, store: Store) -> float | None:
        """Fires what is due; returns the seconds until there is more, None: nobody knows of any."""
        next_at = await self._fire_due(store) if self._may_fire() else None
        if self._suspects:
            await self._tell_paused(store)
        return None if next_at is None else max(0.0, (next_at - self._clock.now()).total_seconds())

    async def _fire_due(self, store: Store) -> datetime | None:
        now, self._looked = self._clock.now(), self._clock.monotonic()
        due = await store.due(now=now, limit=BATCH, computed=self._computed())
        ahead = [] if due.next_at is None else [due.next_at]
        if due.schedules:
            ahead += await self._fire(store, due.schedules, now)
        return min(ahead, default=None)

    def _computed(self) -> Collection[str]:
        return [name for name, said in self._declared.items() if said.input is not None]

    async def _fire(self, store: Store, schedules: Sequence[Schedule], now: datetime) -> list[datetime]:
        """Returns when those it fired are due next."""
        depends = {name for schedule in schedules for name in schedule.spec.depends_on}
        rows = {row.name: row for row in await store.schedules(depends, limit=len(depends))} if depends else {}
        broken: dict[str, dict[datetime, str]] = {schedule.name: {} for schedule in schedules}
        left, ahead = deque(schedules), list[datetime]()
        while left:
            planned: list[tuple[Schedule, Firing]] = []
            load = 0
            while left and load < LOAD:
                schedule = left.popleft()
                firing = await self._planned(schedule, now, rows, broken[schedule.name])
                planned.append((schedule, firing))
                load += len(firing.jobs)
                if not len(planned) % PLANNED_AT_ONCE:
                    await asyncio.sleep(0)
            failpoint("fire.planned")
            fired = await store.fire([firing for _, firing in planned], now=now)
            for (schedule, firing), answer in zip(planned, fired, strict=True):
                if answer.stands:
                    self.tell(firing)
                    # What it cancelled may have ended in the same step, and freed the tick that waits for it.
                    again = now if firing.cancel else firing.schedule.due_at
                    ahead += [] if again is None else [again]
                elif answer.held:
                    taken = {job.scheduled_at for job in firing.jobs if job.idempotency_key in answer.held}
                    broken[schedule.name] |= {tick: "made_already" for tick in taken if tick is not None}
                    left.append(schedule)
        return ahead

    async def _planned(
        self, schedule: Schedule, now: datetime, rows: Mapping[str, Schedule], broken: dict[datetime, str]
    ) -> Firing:
        others = {name: rows[name] for name in schedule.spec.depends_on if name in rows}
        while True:
            firing = plan(schedule, now=now, mint=lambda: new_id(now), others=others, broken=broken)
            jobs: list[NewJob] = []
            for tick in firing.ticks:
                if tick.what == "fired":
                    try:
                        payload = await self.payload(schedule, tick.at)
                        jobs.append(job_of(schedule, tick, payload, now, self.fingerprint(schedule)))
                    except BaseException as error:  # of any kind: code of the values' own classes runs there
                        if is_own_cancellation(error):
                            raise
                        told = failure_of(error, stack=False)
                        broken[tick.at] = clean(f"{INPUT}{told.type}: {told.message}", REASON_LIMIT)
            if len(jobs) == firing.schedule.fired - schedule.fired:
                return replace(firing, jobs=tuple(jobs))

    async def payload(self, schedule: Schedule, tick: datetime) -> str:
        """The input of a tick's job: as it was stored, or made now."""
        if not schedule.spec.computed:
            return schedule.spec.payload
        said = self._declared.get(schedule.name)
        if said is None or said.input is None:
            raise BadInput(f"schedule {schedule.name!r} computes its input, by a function that is not in this app")
        values = await self._inputs(schedule.name, said.input, tick)
        if not isinstance(values, Mapping):
            raise BadInput(f"it returned {values!r:.80}, not a mapping of argument names to values")
        return self._arguments[schedule.spec.task].encode((), values, self._limit)

    def fingerprint(self, schedule: Schedule) -> str | None:
        """Of the task that made what payload() returns."""
        spec = schedule.spec
        return self._arguments[spec.task].fingerprint if spec.computed else spec.fingerprint

    # who is told

    def tell(self, firing: Firing) -> None:
        """The firing stands: its ticks and its jobs."""
        now, name = self._clock.now(), firing.schedule.name
        for tick in firing.ticks:
            kind = TickFired if tick.what == "fired" else TickPassed
            self._bus.emit(kind(at=now, schedule=name, tick=tick))
        for job in firing.jobs:
            self._bus.emit(enqueued_event(now, job))

    def suspect(self, id: JobId, at: datetime) -> None:
        """This job ends in a failure now, if that stands: its schedule, if it has one, may be paused for it."""
        self._suspects[id] = at

    async def _tell_paused(self, store: Store) -> None:
        suspects, self._suspects = self._suspects, {}
        which, now = Filter(ids=tuple(suspects)), self._clock.now()
        jobs = await store.jobs(which, now=now, limit=len(suspects), brief=True)
        # What runs still has its outcome on the way.
        self._suspects |= {job.id: suspects[job.id] for job in jobs if job.state is State.RUNNING}
        ends = {(job.schedule, suspects[job.id]) for job in jobs if job.schedule is not None and job.state.final}
        names = {name for name, _ in ends}
        for row in await store.schedules(names, limit=len(names)) if names else ():
            if row.paused_at is not None and (row.name, row.paused_at) in ends:
                self._bus.emit(SchedulePaused(at=row.paused_at, schedule=row.name, note=row.note))
