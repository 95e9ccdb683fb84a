"""Limits of concurrency: per worker, per queue and per task; paused queues; the order of claims."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mainspring import BadInput, Mainspring, State
from mainspring.testing import VirtualClock


class Gauge:
    """How many run at once."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def hold(self, name: str, clock: VirtualClock) -> None:
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        await clock.sleep(1)
        self.now[name] -= 1


async def test_a_worker_runs_no_more_jobs_at_a_time_than_its_concurrency(app: Mainspring, clock: VirtualClock) -> None:
    gauge = Gauge()

    @app.task
    async def work() -> None:
        await gauge.hold("all", clock)

    async with app:
        await app.enqueue_many(work.job() for _ in range(20))
        async with app.worker(concurrency=4):
            await clock.elapse(seconds=10)
        assert gauge.most["all"] == 4
        assert (await app.stats()).completed == 20


async def test_a_task_runs_no_more_jobs_at_a_time_than_its_concurrency(app: Mainspring, clock: VirtualClock) -> None:
    gauge = Gauge()

    @app.task(concurrency=2)
    async def narrow() -> None:
        await gauge.hold("narrow", clock)

    @app.task
    async def wide() -> None:
        await gauge.hold("wide", clock)

    async with app:
        await app.enqueue_many([*(narrow.job() for _ in range(10)), *(wide.job() for _ in range(10))])
        async with app.worker(concurrency=50):
            await clock.elapse(seconds=0.5)
            assert gauge.most == {"narrow": 2, "wide": 10}
            await clock.elapse(seconds=10)
        assert gauge.most["narrow"] == 2
        assert (await app.stats()).completed == 20


async def test_a_queue_takes_no_more_slots_than_its_limit(app: Mainspring, clock: VirtualClock) -> None:
    gauge = Gauge()

    @app.task
    async def work(queue: str) -> None:
        await gauge.hold(queue, clock)

    async with app:
        for queue in ("mail", "media", "other"):
            await app.enqueue_many(work.using(queue=queue).job(queue) for _ in range(6))
        async with app.worker(queues={"mail": 3, "media": None}, concurrency=50):
            await clock.elapse(seconds=10)
        assert gauge.most == {"mail": 3, "media": 6}
        assert (await app.stats()).pending == 6


async def test_long_jobs_do_not_block_the_other_slots(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def long() -> None:
        await clock.sleep(1000)

    @app.task
    async def quick() -> None: ...

    async with app:
        await app.enqueue_many(long.job() for _ in range(3))
        worker = app.worker(concurrency=4)
        async with worker:
            await clock.elapse(seconds=1)
            await app.enqueue_many(quick.job() for _ in range(20))
            await clock.elapse(seconds=2)
            assert (await app.stats()).completed == 20
            await worker.stop(grace=0)


async def test_jobs_of_a_paused_queue_are_not_claimed_until_it_is_resumed(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task
    async def held() -> None:
        await go.wait()

    async with app:
        first = await held.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.queues.pause("default")
            second = await held.enqueue()
            go.set()
            await clock.elapse(minutes=1)
            assert (await first.job()).state is State.COMPLETED
            assert (await second.job()).state is State.PENDING
            await app.queues.resume("default")
            await clock.elapse(seconds=2)
            assert (await second.job()).state is State.COMPLETED


async def test_jobs_run_by_priority_then_age_and_negative_ones_last(app: Mainspring) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    async with app:
        for n, priority in enumerate([-5, 0, 10, 0, -32768, 32767]):
            await note.using(priority=priority).enqueue(n)
        worker = app.worker(concurrency=1)
        await worker.drain()
    assert ran == [5, 2, 1, 3, 0, 4]


@pytest.mark.parametrize("queues", ["mail", [], {"mail": 0}, {"mail": "many"}, [""], [3]])
def test_bad_queues_are_refused(queues: object) -> None:
    app = Mainspring("memory://")

    @app.task
    async def work() -> None: ...

    with pytest.raises(BadInput, match="queue"):
        app.worker(queues=queues)  # type: ignore[arg-type]


def test_a_worker_without_tasks_is_refused() -> None:
    with pytest.raises(BadInput, match="no tasks"):
        Mainspring("memory://").worker()
