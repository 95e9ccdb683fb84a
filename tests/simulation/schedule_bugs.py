"""Bugs that can be planted in the code for schedules: each breaks one rule of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from mainspring.control import schedules
from mainspring.errors import StoreUnavailable
from mainspring.ids import JobId
from mainspring.records.job import NewJob, State
from mainspring.schedule import edit, job_ended, plan, status
from mainspring.schedule.record import Fired, Firing, Schedule
from mainspring.store import Store
from mainspring.stores.memory import schedules as memory_schedules
from mainspring.stores.rules import fire, job_ends
from mainspring.stores.rules.enqueue import enqueue
from mainspring.worker import scheduler
from mainspring.worker.scheduler import Scheduler

from .patch import patch

Plant = Callable[[], AbstractContextManager[None]]


def _fire_without_looking() -> AbstractContextManager[None]:
    return patch(fire, "firing_is_current", lambda firing, revision: True)


def _advance_without_job() -> AbstractContextManager[None]:
    return patch(fire, "enqueue", lambda tables, news, now: [])


def _job_without_advance() -> AbstractContextManager[None]:
    fire_one = fire.fire_one

    def torn(tables: Any, firing: Firing, now: datetime) -> Fired:
        if firing.schedule.revision % 10 == 0 and firing.jobs and not any(tables.holder(job)[1] for job in firing.jobs):
            enqueue(tables, firing.jobs, now)
            return Fired(False)
        return fire_one(tables, firing, now)

    return patch(memory_schedules, "fire_one", torn)


def _ticks_without_key() -> AbstractContextManager[None]:
    job_for_tick = scheduler.job_for_tick

    def keyless(*given: Any) -> NewJob:
        return replace(job_for_tick(*given), idempotency_key=None)

    return patch(scheduler, "job_for_tick", keyless)


def _ignored_end(state: State | None) -> Plant:
    def plant() -> AbstractContextManager[None]:
        def deaf(row: Schedule, id: JobId, how: State | None, *rest: Any) -> Schedule:
            return row if how is state else job_ended.after_job_ended(row, id, how, *rest)

        return patch(job_ends, "after_job_ended", deaf)

    return plant


def _ignored_success() -> AbstractContextManager[None]:
    return patch(job_ends, "after_dependency_succeeded", lambda row, at: row)


def _catch_up_twice() -> AbstractContextManager[None]:
    late = plan._Draft._late

    def twice(self: Any, first: datetime, until: datetime) -> datetime | None:
        tick = late(self, first, until)
        if tick is not None and tick <= until and self.spec.catch_up == "latest":
            self._record_one("missed", "catch_up", tick)
        return tick

    return patch(plan._Draft, "_late", twice)


def _doubling_resume() -> AbstractContextManager[None]:
    def doubling(row: Schedule, *, from_now: bool, now: datetime) -> Firing:
        firing = edit.resume(row, from_now=from_now, now=now)
        return replace(firing, schedule=replace(firing.schedule, next_run_at=row.next_run_at, due_at=row.next_run_at))

    return patch(schedules, "resume", doubling)


class _RefiringStore:
    """A store whose caller takes a lost reply for a lost request, and fires again on the present revision."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        try:
            return await self._store.fire(firings, now=now)
        except StoreUnavailable:
            rows = {row.name: row.revision for row in await self._store.schedules(limit=100)}
            return await self._store.fire([self._refire(one, rows) for one in firings], now=now)

    def _refire(self, firing: Firing, revisions: dict[str, int]) -> Firing:
        row = replace(firing.schedule, revision=revisions.get(firing.schedule.name, 0) + 1)
        jobs = tuple(replace(job, id=f"{job.id}-again", idempotency_key=None) for job in firing.jobs)
        ticks = tuple(replace(tick, job_id=tick.job_id and f"{tick.job_id}-again") for tick in firing.ticks)
        return replace(firing, schedule=row, jobs=jobs, ticks=ticks, reads=())


def _fired_again() -> AbstractContextManager[None]:
    fire = Scheduler._fire

    async def insistent(self: Scheduler, store: Store, *given: Any) -> list[datetime]:
        return await fire(self, cast(Store, _RefiringStore(store)), *given)

    return patch(Scheduler, "_fire", insistent)


@contextmanager
def _late_release() -> Iterator[None]:
    def armed(row: Schedule, now: datetime) -> Schedule:
        return replace(row, due_at=status.next_due(row))

    with patch(job_ended, "with_due_at", armed), patch(edit, "with_due_at", armed):
        yield


@contextmanager
def _deaf_to_pauses() -> Iterator[None]:
    def due_at(row: Schedule, next_run_at: datetime | None) -> datetime | None:
        return None if next_run_at is None else next_run_at + row.timetable.offset

    def paused(row: Schedule, note: str, *, now: datetime) -> Schedule:
        return replace(edit.pause(row, note, now=now), due_at=due_at(row, row.next_run_at))

    with (
        patch(status, "due_at", due_at),
        patch(plan, "due_at", due_at),
        patch(schedules, "pause", paused),
    ):
        yield


def _no_overlap_rule() -> AbstractContextManager[None]:
    return patch(plan, "is_blocked", lambda spec, active: False)


def _drifting_grid() -> AbstractContextManager[None]:
    after = plan._Draft._after

    def drifting(draft: plan._Draft, tick: datetime) -> datetime | None:
        found = after(draft, tick)
        return None if found is None else found + timedelta(milliseconds=1)

    return patch(plan._Draft, "_after", drifting)


BUGS: dict[str, tuple[str, Plant]] = {
    "fire-without-looking": ("fire overwrites any revision", _fire_without_looking),
    "advance-without-job": ("a tick is fired, but its job is not written", _advance_without_job),
    "job-without-advance": ("sometimes a tick's job is written, but not its schedule", _job_without_advance),
    "ticks-without-key": ("the jobs of ticks have no key", _ticks_without_key),
    "unheard-cancel": ("a schedule is not updated when its job is cancelled", _ignored_end(State.CANCELLED)),
    "unheard-expiry": ("a schedule is not updated when its job expires", _ignored_end(State.EXPIRED)),
    "unheard-deletion": ("a schedule is not updated when its job is deleted", _ignored_end(None)),
    "unheard-death": ("a schedule is not updated when its job dies", _ignored_end(State.DEAD)),
    "catch-up-twice": ("a tick that is caught up is also counted as missed", _catch_up_twice),
    "doubling-resume": ("ticks during a pause are recorded as skipped, and fired as well", _doubling_resume),
    "fired-again": ("a worker whose firing got no reply fires again", _fired_again),
    "late-release": ("a held tick is released only at the next tick", _late_release),
    "unheard-success": ("a tick that waits on another schedule is not released by its success", _ignored_success),
    "deaf-to-pauses": ("a paused schedule stays due", _deaf_to_pauses),
    "no-overlap-rule": ("a tick is fired although a run is under way", _no_overlap_rule),
    "drifting-grid": ("each tick is a millisecond late", _drifting_grid),
}
