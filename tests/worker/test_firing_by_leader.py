"""The setting `fire`: every worker declares schedules; any of them fires, or the leader alone, or this one never."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from machines import Machine, machines

from mainspring import Filter
from mainspring.config import Fire
from mainspring.events import LeaderChanged, SchedulePaused, TickFired, TickPassed
from mainspring.testing import VirtualClock
from mainspring.testing.clock import START

TTL, POLL, EVERY = 15.0, 1.0, 10


def fleet(count: int, url: str, clock: VirtualClock, **settings: Any) -> list[Machine]:
    fleet = machines(count, url, clock, leader_ttl=TTL, leader_refresh=5, **settings)
    for machine in fleet:

        @machine.app.every(seconds=EVERY, name="tick", overlap="allow", catch_up="all")
        async def work() -> None: ...

    return fleet


def fired(machine: Machine) -> list[int]:
    """The ticks it has fired, as seconds since the start."""
    return [int((event.tick.at - START).total_seconds()) for event in machine.recorder.of(TickFired)]


async def ticks_with_jobs(machine: Machine) -> Counter[int]:
    jobs = await machine.app.jobs.list(Filter(), limit=1000)
    return Counter(int((job.scheduled_at - START).total_seconds()) for job in jobs if job.scheduled_at)


def once(upto: int) -> Counter[int]:
    return Counter(range(EVERY, upto + 1, EVERY))


async def test_only_the_leader_fires(url: str, clock: VirtualClock) -> None:
    first, second = fleet(2, url, clock, fire="leader")
    async with first.app.worker():
        await clock.elapse(seconds=1)
        async with second.app.worker():
            await clock.elapse(seconds=60)
            assert (fired(first), fired(second)) == ([10, 20, 30, 40, 50, 60], [])
            assert await ticks_with_jobs(first) == once(60)


async def test_the_next_worker_fires_at_once_when_the_leader_stops(url: str, clock: VirtualClock) -> None:
    first, second = fleet(2, url, clock, fire="leader")
    async with second.app:
        async with first.app.worker() as leading:
            await clock.elapse(seconds=1)
            async with second.app.worker():
                await clock.elapse(seconds=34)
                await leading.stop()
                await clock.elapse(seconds=35)
        assert (fired(first), fired(second)) == ([10, 20, 30], [40, 50, 60, 70])
        assert await ticks_with_jobs(second) == once(70)


async def test_a_dead_leader_is_replaced_within_the_ttl_and_no_tick_is_lost_or_doubled(
    url: str, clock: VirtualClock
) -> None:
    first, second = fleet(2, url, clock, fire="leader", poll_interval=0.7)
    async with first.app.worker():
        await clock.elapse(seconds=1)
        async with second.app.worker():
            await clock.elapse(seconds=34)
            first.clock.frozen = True
            await clock.elapse(seconds=TTL)
            assert fired(second)[:1] == [40]
            assert second.recorder.of(TickFired)[0].at == second.recorder.of(LeaderChanged)[0].at
            await clock.elapse(seconds=20)
            first.clock.thaw()
            await clock.elapse(seconds=20)
            assert await ticks_with_jobs(second) == once(90)
            assert [event.leading for event in first.recorder.of(LeaderChanged)] == [True, False]
            assert not set(fired(first)) & set(fired(second))


async def test_two_workers_that_both_fire_make_one_job_a_tick(url: str, clock: VirtualClock) -> None:
    """A leader saves work; compare-and-set is what makes ticks fire once, also while the leader changes."""
    first, second = fleet(2, url, clock, fire="leader")
    first.app.configure(fire="any")
    async with first.app.worker(), second.app.worker():
        await clock.elapse(seconds=100)
        assert second.recorder.of(LeaderChanged)[0].leading
        assert await ticks_with_jobs(first) == once(100)
        assert Counter(fired(first) + fired(second)) == once(100)


async def test_a_leader_without_its_store_stops_firing_and_goes_on_afterwards(url: str, clock: VirtualClock) -> None:
    first, second = fleet(2, url, clock, fire="leader")
    async with first.app.worker():
        await clock.elapse(seconds=1)
        async with second.app.worker():
            await clock.elapse(seconds=24)
            first.faults.when("acquire_term", lambda: clock.now() < START + timedelta(seconds=65))
            await clock.elapse(seconds=75)
            assert await ticks_with_jobs(second) == once(100)
            assert (fired(first)[-1] < 50, fired(second)[-1]) == (True, 100)


async def test_a_worker_that_never_fires_declares_its_schedules(url: str, clock: VirtualClock) -> None:
    (machine,) = fleet(1, url, clock, fire="never")
    async with machine.app.worker():
        await clock.elapse(seconds=60)
        assert [row.name for row in await machine.app.schedules.list()] == ["tick"]
        assert await ticks_with_jobs(machine) == Counter()
        assert machine.recorder.of(LeaderChanged) == []


async def test_a_worker_that_never_fires_leaves_ticks_to_another_worker(url: str, clock: VirtualClock) -> None:
    never, other = fleet(2, url, clock, fire="never")
    other.app.configure(fire="any")
    async with never.app.worker(), other.app.worker():
        await clock.elapse(seconds=60)
        assert (fired(never), fired(other)) == ([], [10, 20, 30, 40, 50, 60])


@pytest.mark.parametrize("fire", ["leader", "never"])
async def test_a_worker_that_does_not_fire_emits_schedule_paused(url: str, clock: VirtualClock, fire: Fire) -> None:
    runs, fires = machines(2, url, clock)
    runs.app.configure(fire=fire)
    for machine in (runs, fires):

        @machine.app.every(seconds=EVERY, name="broken", pause_after_failures=1)
        @machine.app.task(max_retries=0)
        async def fail() -> None:
            raise ValueError("no")

    store = await fires.app.connect()
    await store.acquire_term("mainspring.fire", "elsewhere", until=START + timedelta(days=1), now=START)
    async with runs.app.worker(), fires.app.worker(queues=["none"]):
        await clock.elapse(seconds=15)
        assert [event.schedule for event in runs.recorder.of(SchedulePaused)] == ["broken"]


@pytest.mark.parametrize(("fire", "jobs"), [("any", 1), ("leader", 1), ("never", 0)])
async def test_a_drain_follows_the_fire_setting(url: str, clock: VirtualClock, fire: Fire, jobs: int) -> None:
    (machine,) = fleet(1, url, clock, fire=fire)
    async with machine.app as app:
        await app.drain()
        await clock.elapse(seconds=EVERY)
        assert await app.drain() == jobs
        store = await app.connect()
        assert await store.terms(now=clock.now()) == []


async def test_a_drain_beside_a_leader_does_not_fire(url: str, clock: VirtualClock) -> None:
    first, second = fleet(2, url, clock, fire="leader")
    store = await first.app.connect()
    await store.acquire_term("mainspring.fire", "elsewhere", until=START + timedelta(days=1), now=START)
    async with second.app as app:
        await app.drain()
        await clock.elapse(seconds=EVERY)
        assert await app.drain() == 0
    await first.app.close()


async def test_a_worker_that_only_follows_is_healthy(url: str, clock: VirtualClock) -> None:
    first, second = fleet(2, url, clock, fire="leader")
    async with first.app.worker(), second.app.worker():
        await clock.elapse(minutes=1)
        assert [(await machine.app.health()).live for machine in (first, second)] == [True, True]
        assert first.recorder.of(TickPassed) + second.recorder.of(TickPassed) == []
