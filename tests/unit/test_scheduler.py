"""Scheduler.run_once(): fires due schedules, and returns the seconds until the next one is due."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.events import Bus
from mainspring.records.job import State
from mainspring.records.query import Filter
from mainspring.schedule.edit import create
from mainspring.schedule.options import DeclaredSchedule
from mainspring.schedule.plan import MAX_TICKS_PER_FIRING
from mainspring.schedule.record import Firing, Schedule, Spec, tick_key
from mainspring.store import Store
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import NOW, later, new_job, put
from mainspring.trigger import Every
from mainspring.worker.scheduler import Scheduler


@pytest.fixture
def scheduler(clock: VirtualClock) -> Scheduler:
    return Scheduler(clock, Bus(), {}, {}, payload_limit=1000)


async def with_schedule(store: Store, name: str = "minutely", seconds: float = 60, **said: Any) -> Schedule:
    await store.open()
    spec = Spec(**{"trigger": Every(seconds=seconds), "task": "task", **said})
    new = create(name, spec, owner="user", now=NOW)
    assert (await store.fire([Firing(schedule=new)], now=NOW))[0].stands
    return new


async def test_run_once_returns_when_fired_schedules_are_due_next(
    store: Store, clock: VirtualClock, scheduler: Scheduler
) -> None:
    await with_schedule(store)
    await with_schedule(store, "hourly", 3600)
    assert await scheduler.run_once(store) == 60
    clock.advance(seconds=61)
    assert await scheduler.run_once(store) == 59
    assert len(await store.jobs(Filter(), now=NOW, limit=9)) == 1


async def test_run_once_returns_zero_while_ticks_are_left(
    store: Store, clock: VirtualClock, scheduler: Scheduler
) -> None:
    await with_schedule(store, catch_up="all", overlap="allow")
    clock.advance(minutes=MAX_TICKS_PER_FIRING + 50)
    assert await scheduler.run_once(store) == 0
    assert await scheduler.run_once(store) == 60
    assert len(await store.jobs(Filter(), now=NOW, limit=999)) == MAX_TICKS_PER_FIRING + 50


async def test_a_tick_that_cancels_a_waiting_job_fires_at_once(
    store: Store, clock: VirtualClock, scheduler: Scheduler
) -> None:
    await with_schedule(store, overlap="cancel")
    for _ in range(2):
        clock.advance(minutes=1)
        await scheduler.run_once(store)
    assert await scheduler.run_once(store) == 60
    jobs = await store.jobs(Filter(), now=clock.now(), limit=9)
    assert [(job.scheduled_at, job.state) for job in jobs] == [
        (later(60), State.CANCELLED),
        (later(120), State.PENDING),
    ]


async def test_run_once_returns_zero_after_a_cancel(store: Store, clock: VirtualClock, scheduler: Scheduler) -> None:
    await with_schedule(store, overlap="cancel")
    clock.advance(minutes=1)
    await scheduler.run_once(store)
    clock.advance(minutes=1)
    assert await scheduler.run_once(store) == 0


@pytest.mark.parametrize("held", [False, True], ids=["next", "held"])
async def test_a_tick_that_already_has_a_job_is_skipped_and_the_schedule_continues(
    store: Store, clock: VirtualClock, scheduler: Scheduler, held: bool
) -> None:
    new = await with_schedule(store, overlap="queue")
    tick = later(60)
    if held:
        waits = replace(new, revision=2, held_at=later(30), due_at=NOW)
        tick = later(30)
        await store.fire([Firing(schedule=waits)], now=NOW)
    await put(store, new_job(idempotency_key=tick_key("minutely", tick)))
    clock.advance(seconds=60 if not held else 40)
    await scheduler.run_once(store)
    (record,) = await store.ticks("minutely", limit=9)
    assert (record.what, record.reason, record.at) == ("skipped", "made_already", tick)
    assert len(await store.jobs(Filter(), now=NOW, limit=9)) == 1


async def test_a_held_tick_whose_input_fails_is_skipped(store: Store, clock: VirtualClock) -> None:
    def broken(tick: datetime) -> dict[str, Any]:
        raise ValueError(f"no input for {tick:%H:%M}")

    new = await with_schedule(store, overlap="queue", computed=True)
    scheduler = Scheduler(clock, Bus(), {new.name: DeclaredSchedule(new.spec, broken)}, {}, payload_limit=1000)
    await store.fire([Firing(schedule=replace(new, revision=2, held_at=NOW, due_at=NOW))], now=NOW)
    assert await scheduler.run_once(store) == 60
    (record,) = await store.ticks(new.name, limit=9)
    assert (record.what, record.reason) == ("skipped", "input: ValueError: no input for 12:00")
    (row,) = await store.schedules(limit=9)
    assert row.held_at is None
