"""Recycling: a worker that reaches a limit stops by itself, as gracefully as after a signal."""

from __future__ import annotations

import asyncio
import signal

import pytest

from mainspring import Mainspring
from mainspring.testing import VirtualClock


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    app = Mainspring(url, clock=clock, recycle_jobs=3)

    @app.task
    async def nap(seconds: float) -> None:
        await app.clock.sleep(seconds)

    return app


async def test_recycle_jobs_stops_the_worker_with_a_reason(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.enqueue_many(app.tasks["nap"].job(0) for _ in range(5))
        async with app.worker(recycle=True, concurrency=1) as worker:
            await clock.elapse(seconds=5)
        assert worker.recycled == "ran 3 jobs"
        assert ((await app.stats()).completed, (await app.stats()).pending) == (3, 2)


async def test_recycle_memory_stops_the_worker_after_a_job(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, recycle_memory="1MB")

    @app.task
    async def quick() -> None: ...

    async with app:
        worker = app.worker(recycle=True)
        async with worker:
            await clock.elapse(seconds=5)
            assert worker.recycled is None
            await quick.enqueue()
            await clock.elapse(seconds=5)
            assert str(worker.recycled).endswith(" MB, more than 1 MB")
        assert (await app.stats()).completed == 1


async def test_without_recycle_no_limit_stops_the_worker(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.enqueue_many(app.tasks["nap"].job(0) for _ in range(5))
        async with app.worker() as worker:
            await clock.elapse(seconds=5)
        assert worker.recycled is None
        assert (await app.stats()).completed == 5


async def test_recycling_lets_running_jobs_end_within_their_grace(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.enqueue_many(app.tasks["nap"].job(seconds) for seconds in (10, 100))
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            worker.recycle("a slot leaked")
            await clock.elapse(seconds=40)
            assert not await app.workers.list()
        stats = await app.stats()
        assert (stats.completed, stats.pending) == (1, 1)


async def test_the_first_recycle_reason_is_kept(app: Mainspring) -> None:
    async with app, app.worker() as worker:
        worker.recycle("a slot leaked")
        worker.recycle("another one")
        assert worker.recycled == "a slot leaked"


async def test_a_worker_that_is_stopping_does_not_recycle(app: Mainspring) -> None:
    async with app:
        async with app.worker() as worker:
            await worker.stop()
            worker.recycle("a slot leaked")
        assert worker.recycled is None


async def test_a_signal_turns_recycling_into_a_stop_that_keeps_its_grace(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.tasks["nap"].enqueue(10)
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await clock.elapse(seconds=1)
        worker.recycle("a slot leaked")
        signal.raise_signal(signal.SIGTERM)
        await clock.elapse(seconds=20)
        await running
        assert worker.recycled is None
        assert (await app.stats()).completed == 1


async def test_a_second_signal_stops_a_recycling_worker_at_once(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.tasks["nap"].enqueue(10)
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await clock.elapse(seconds=1)
        worker.recycle("a slot leaked")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        await clock.elapse(seconds=1)
        await running
        assert (await app.stats()).pending == 1
