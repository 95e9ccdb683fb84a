"""A store that fails while schedules are fired, or whose replies are lost: each tick still makes one job."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Filter, Mainspring
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, VirtualClock

TICKS = 40


class Scene:
    """Several workers with the same schedule on one store, each behind faults of its own."""

    def __init__(self, url: str, clock: VirtualClock, workers: int) -> None:
        self.clock, self.store = clock, open_store(url, clock=clock)
        self.faults = [Faults() for _ in range(workers)]
        self.runs: Counter[datetime | None] = Counter()

    def _app(self, faults: Faults) -> Mainspring:
        store: Any = FaultStore(self.store, faults)
        app = Mainspring(store, clock=self.clock)

        @app.every(seconds=1, overlap="allow", max_runs=TICKS)
        async def beacon(ctx: Context) -> None:
            self.runs[ctx.scheduled_at] += 1

        return app

    async def play(self, seconds: float = TICKS + 20) -> None:
        """Lets ticks come, and the faults with them."""
        apps = [self._app(faults) for faults in self.faults]
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.worker())
            await self.clock.elapse(seconds=seconds)

    async def check(self) -> None:
        """Every tick was made into one job, and that one was run once."""
        (row,) = await self.store.schedules(limit=2)
        ideal = [row.created_at + n * timedelta(seconds=1) for n in range(1, TICKS + 1)]
        ticks = await self.store.ticks("beacon", limit=1000)
        jobs = await self.store.jobs(Filter(), now=self.clock.now(), limit=1000)
        assert [(tick.what, tick.at) for tick in reversed(ticks)] == [("fired", at) for at in ideal]
        assert {tick.job_id: tick.at for tick in ticks} == {job.id: job.scheduled_at for job in jobs}
        assert len(jobs) == TICKS
        assert self.runs == dict.fromkeys(ideal, 1)
        assert (row.fired, row.completed, row.active, row.status) == (TICKS, TICKS, (), "ended")
        await self.store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["fire", "due", "schedules"])
async def test_each_tick_fires_once_when_schedule_calls_fail_or_lose_their_replies(
    url: str, clock: VirtualClock, verb: str, moment: Any
) -> None:
    scene = Scene(url, clock, workers=1)
    (faults,) = scene.faults
    # The first call of each but `due` is made when the schedule is declared.
    faults.fail(verb, times=2, moment=moment)
    faults.fail(verb, times=3, after=1, moment=moment)
    await scene.play()
    await scene.check()
    assert faults.injected == [verb] * (2 if verb == "schedules" else 5)


async def test_three_workers_whose_store_fails_all_the_time_make_one_job_a_tick(url: str, clock: VirtualClock) -> None:
    scene = Scene(url, clock, workers=3)
    for seed, faults in enumerate(scene.faults):
        for verb in ("fire", "due"):
            faults.rate(verb, 0.3, seed=seed, moment="after")
            faults.rate(verb, 0.3, seed=seed + 10, moment="before")
    await scene.play()
    await scene.check()
    # The number depends on the order of the workers; each had some faults.
    assert all(faults.injected.count("fire") for faults in scene.faults)


async def test_ticks_during_a_store_outage_follow_the_catch_up_rule(url: str, clock: VirtualClock) -> None:
    scene, start = Scene(url, clock, workers=1), clock.now()

    def gone() -> bool:
        return timedelta(seconds=10) < clock.now() - start < timedelta(seconds=100)

    for verb in ("fire", "due", "schedules"):
        scene.faults[0].when(verb, gone)
    await scene.play(130)
    (row,) = await scene.store.schedules(limit=2)
    ticks = await scene.store.ticks("beacon", limit=1000)
    (missed,) = [tick for tick in ticks if tick.what == "missed"]
    assert (missed.reason, missed.at) == ("catch_up", start + timedelta(seconds=11))
    # A tick that is less than a minute late when the store is back, within two seconds, is on time.
    assert 30 <= row.missed == missed.count <= 32
    assert row.fired == TICKS
    assert scene.runs == dict.fromkeys((tick.at for tick in ticks if tick.what == "fired"), 1)
    await scene.store.close()
