"""Ticks are fired at their own instants, and floods of them in batches, so that others can write in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mainspring import Filter, Mainspring, every
from mainspring.schedule.plan import MAX_TICKS_PER_FIRING
from mainspring.schedule.record import Fired, Firing
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.worker.scheduler import BATCH_JOBS, BUSY_RETRY_SECONDS


class Steps(MemoryStore):
    """Records how many jobs each call of fire made."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.jobs_fired: list[int] = []

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self.jobs_fired.append(sum(len(firing.jobs) for firing in firings))
        return await super().fire(firings, now=now)


def make(store: Any, clock: VirtualClock) -> Mainspring:
    app = Mainspring(store, clock=clock)

    @app.task
    async def beacon() -> None:
        """Nothing to do."""

    return app


async def test_ticks_at_short_intervals_are_fired_at_their_instants(url: str, clock: VirtualClock) -> None:
    app = make(url, clock)
    span = timedelta(seconds=BUSY_RETRY_SECONDS / 4)
    app.schedule("fast", every(span), app.tasks["beacon"], overlap="allow")
    async with app:
        async with app.worker():
            await clock.elapse(2 * timedelta(seconds=BUSY_RETRY_SECONDS) + span / 2)
        jobs = await app.jobs.list()
        assert len(jobs) == 8
        assert [job.created_at for job in jobs] == [job.scheduled_at for job in jobs]


async def test_missed_ticks_with_catch_up_all_are_fired_at_once(url: str, clock: VirtualClock) -> None:
    app = make(url, clock)
    app.schedule("minutely", every(60).seconds, app.tasks["beacon"], overlap="allow", catch_up="all")
    async with app:
        await app.drain()
        clock.advance(minutes=3 * MAX_TICKS_PER_FIRING, seconds=30)
        woken = clock.now()
        async with app.worker():
            await clock.elapse(seconds=BUSY_RETRY_SECONDS / 2)
        jobs = await app.jobs.list(limit=1000)
        assert len(jobs) == 3 * MAX_TICKS_PER_FIRING
        assert {job.created_at for job in jobs} == {woken}


async def test_a_flood_of_missed_ticks_is_fired_in_batches(clock: VirtualClock) -> None:
    store = Steps(clock)
    app = make(store, clock)
    for n in range(30):
        app.schedule(f"minutely-{n}", every(60).seconds, app.tasks["beacon"], overlap="allow", catch_up="all")
    async with app:
        await app.drain()
        clock.advance(minutes=MAX_TICKS_PER_FIRING, seconds=30)
        async with app.worker(queues=["elsewhere"]):
            await clock.settle()
        assert (
            sum(store.jobs_fired)
            == 30 * MAX_TICKS_PER_FIRING
            == len(await store.jobs(Filter(), now=clock.now(), limit=10_000))
        )
        assert BATCH_JOBS <= max(store.jobs_fired) < BATCH_JOBS + MAX_TICKS_PER_FIRING
