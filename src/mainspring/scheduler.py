"""Scheduler: writes down what the code declares, and fires what is due."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from .clock import Alarm, Clock
from .codec import Arguments
from .errors import BadInput
from .events import Bus, JobEnqueued, SchedulePaused, TickFired, TickPassed
from .failpoint import failpoint
from .ids import new_id
from .insistence import Insistence
from .job import NewJob
from .load import Board
from .outcome import clean
from .plan import born, fingerprint, plan, redefined
from .schedule import Firing, Schedule, Tick, key_of
from .spec import Declared
from .spread import place, unplaced
from .store import Store
from .vigil import Vigil

# Schedules that one turn fires at most.
BATCH = 500
# Seconds between two looks at a store that is busy with other things.
REST = 0.1
_REASON_LIMIT = 200


def job_of(schedule: Schedule, tick: Tick, payload: str, now: datetime) -> NewJob:
    """The job of a tick, under the tick's own key."""
    spec = schedule.spec
    return NewJob(
        id=tick.job_id or "", task=spec.task, payload=payload, queue=spec.queue, priority=spec.priority,
        expires_at=None if spec.expires is None else now + timedelta(seconds=spec.expires), timeout=spec.timeout,
        max_retries=spec.max_retries, backoff=spec.backoff, tags=spec.tags, metadata=spec.metadata,
        idempotency_key=key_of(schedule.name, tick.at), schedule=schedule.name, scheduled_at=tick.at,
    )  # fmt: skip


async def everything(store: Store) -> list[Schedule]:
    """All schedules, by name."""
    found: list[Schedule] = []
    while page := await store.schedules(limit=BATCH, after=found[-1].name if found else None):
        found += page
    return found


class Scheduler:
    """Any worker may fire: who is second is told by the store, and does nothing."""

    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        declared: Mapping[str, Declared],
        arguments: Mapping[str, Arguments],
        *,
        payload_limit: int,
    ) -> None:
        """`arguments` says how the input of each task travels."""
        self._clock = clock
        self._bus = bus
        self._declared = declared
        self._arguments = arguments
        self._limit = payload_limit
        self._suspects: set[str] = set()
        self._alarm = Alarm(clock)
        self._looked = -math.inf
        self._hearing = False

    # what the code says

    async def declare(self, store: Store, *, missing_only: bool = False) -> None:
        """Brings the store's schedules in line with the code's. Those that users made are left alone."""
        names = set(self._declared)
        while names:
            now = self._clock.now()
            known = {row.name: row for row in await store.schedules(names, limit=len(names))}
            homeless = {name for name in names if unplaced(self._declared[name].spec, known.get(name))}
            rows = await everything(store) if homeless else []
            board = Board((row for row in rows if row.name not in homeless), now)
            wanted = [self._said(name, known.get(name), now, missing_only, board) for name in sorted(names)]
            firings = [firing for firing in wanted if firing is not None]
            fired = await store.fire(firings, now=now)
            # Who came second looks again: most likely there is nothing left to say.
            names = {firing.schedule.name for firing, done in zip(firings, fired, strict=True) if not done.stands}

    def _said(
        self, name: str, row: Schedule | None, now: datetime, missing_only: bool, board: Board
    ) -> Firing | None:  # fmt: skip
        spec, digest = self._declared[name].spec, fingerprint(self._declared[name].spec)
        if row is not None and (missing_only or row.owner == "user" or row.declared == digest):
            return None
        anchor_at = place(name, spec, board, now) if unplaced(spec, row) else None
        if row is None:
            firing = Firing(schedule=born(name, spec, owner="code", now=now, anchor_at=anchor_at))
        else:
            firing = redefined(row, spec, now=now, declared=digest, anchor_at=anchor_at)
        if anchor_at is not None:
            board.add(firing.schedule)
        return firing

    # what is due

    async def run(self, store: Store, insist: Insistence, poll: float, vigil: Vigil) -> None:
        """Sleeps until the next schedule is due, or `poll` at most: clocks jump, and others change schedules."""

        async def turn() -> float | None:
            vigil.turn("fire")
            return await self.turn(store)

        await insist("declaring schedules", lambda: self.declare(store))
        while True:
            wait = await insist("firing", turn)
            await self._alarm.wait(poll if wait is None else min(wait, poll))

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
        now, self._looked = self._clock.now(), self._clock.monotonic()
        due = await store.due(now=now, limit=BATCH, computed=self._computed())
        if due.schedules:
            await self._fire(store, due.schedules, now)
        if self._suspects:
            await self._tell_paused(store)
        return None if due.next_at is None else max(0.0, (due.next_at - self._clock.now()).total_seconds())

    def _computed(self) -> Collection[str]:
        return [name for name, said in self._declared.items() if said.input is not None]

    async def _fire(self, store: Store, schedules: Sequence[Schedule], now: datetime) -> None:
        depends = {name for schedule in schedules for name in schedule.spec.depends_on}
        rows = {row.name: row for row in await store.schedules(depends, limit=len(depends))} if depends else {}
        broken: dict[str, dict[datetime, str]] = {}
        while schedules:
            firings = [await self._planned(one, now, rows, broken.setdefault(one.name, {})) for one in schedules]
            failpoint("fire.planned")
            fired = await store.fire(firings, now=now)
            again: list[Schedule] = []
            for schedule, firing, answer in zip(schedules, firings, fired, strict=True):
                if answer.stands:
                    self._tell(firing)
                elif answer.held:
                    taken = {job.scheduled_at for job in firing.jobs if job.idempotency_key in answer.held}
                    broken[schedule.name] |= {tick: "made_already" for tick in taken if tick is not None}
                    again.append(schedule)
            schedules = again

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
                        jobs.append(job_of(schedule, tick, await self.payload(schedule, tick.at), now))
                    except Exception as error:
                        broken[tick.at] = clean(f"input: {type(error).__name__}: {error}", _REASON_LIMIT)
            if len(jobs) == sum(tick.what == "fired" for tick in firing.ticks):
                return Firing(
                    schedule=firing.schedule, jobs=tuple(jobs), ticks=firing.ticks, cancel=firing.cancel,
                    reads=firing.reads,
                )  # fmt: skip

    async def payload(self, schedule: Schedule, tick: datetime) -> str:
        """The input of a tick's job: as it was stored, or made now."""
        if not schedule.spec.computed:
            return schedule.spec.payload
        said = self._declared.get(schedule.name)
        if said is None or said.input is None:
            raise BadInput(f"schedule {schedule.name!r} computes its input, by a function that is not in this app")
        made = said.input(tick)
        values = await made if inspect.isawaitable(made) else made
        return self._arguments[schedule.spec.task].encode((), values, self._limit)

    # who is told

    def _tell(self, firing: Firing) -> None:
        now, name = self._clock.now(), firing.schedule.name
        for tick in firing.ticks:
            kind = TickFired if tick.what == "fired" else TickPassed
            self._bus.emit(kind(at=now, schedule=name, tick=tick))
        for job in firing.jobs:
            self._bus.emit(JobEnqueued(at=now, id=job.id, task=job.task, queue=job.queue, status="new"))

    def suspect(self, name: str | None) -> None:
        """A run of this schedule has killed its job: the store may pause it for that."""
        if name is not None:
            self._suspects.add(name)

    async def _tell_paused(self, store: Store) -> None:
        names, self._suspects = self._suspects, set()
        for row in await store.schedules(names, limit=len(names)):
            if row.paused_at is not None and row.paused_at == row.last_finished_at:
                self._bus.emit(SchedulePaused(at=row.paused_at, schedule=row.name, note=row.note))
