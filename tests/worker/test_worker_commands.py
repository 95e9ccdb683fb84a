"""Commands to running workers (resize, drain, resume): received with a beat, listed, gone with the worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Mainspring, State, Task
from mainspring.records.worker import WorkerCommands, WorkerRow
from mainspring.testing import VirtualClock


def sleeper(app: Mainspring, clock: VirtualClock, seconds: float = 20) -> Task[[], None]:
    @app.task
    async def sleeps() -> None:
        await clock.sleep(seconds)

    return sleeps


async def running(app: Mainspring) -> int:
    return (await app.stats()).running


async def only(app: Mainspring) -> WorkerRow:
    (worker,) = await app.workers.list()
    return worker


async def test_resize_raises_the_concurrency_of_a_running_worker(app: Mainspring, clock: VirtualClock) -> None:
    task = sleeper(app, clock)
    async with app:
        await app.enqueue_many(task.job() for _ in range(10))
        async with app.worker(concurrency=2) as worker:
            await clock.elapse(seconds=1)
            assert await running(app) == 2
            assert await app.workers.resize(worker.id, 6) == [worker.id]
            assert (await only(app)).orders == WorkerCommands(concurrency=6)
            await clock.elapse(seconds=5)
            assert await running(app) == 6
            await clock.elapse(seconds=5)
            assert (await only(app)).info.concurrency == 6
            await worker.stop(grace=0)


async def test_resize_lowers_the_concurrency_without_interrupting_running_jobs(
    app: Mainspring, clock: VirtualClock
) -> None:
    task = sleeper(app, clock)
    async with app:
        await app.enqueue_many(task.job() for _ in range(10))
        async with app.worker(concurrency=4) as worker:
            await clock.elapse(seconds=1)
            await app.workers.resize(worker.id, 1)
            await clock.elapse(seconds=10)
            assert await running(app) == 4
            await clock.elapse(seconds=12)
            assert await running(app) == 1
            await app.workers.resize(worker.id, None)
            await clock.elapse(seconds=6)
            assert await running(app) == 4
            await worker.stop(grace=0)


async def test_a_drained_worker_finishes_its_runs_and_claims_nothing_until_it_is_resumed(
    app: Mainspring, clock: VirtualClock
) -> None:
    task = sleeper(app, clock, 2)
    async with app:
        first = await task.enqueue()
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            await app.workers.drain(worker.id)
            await clock.elapse(seconds=5)
            assert (await first.job()).state is State.COMPLETED
            second = await task.enqueue()
            await clock.elapse(seconds=60)
            assert (await second.job()).state is State.PENDING
            live = await only(app)
            assert (live.orders.drained, live.info.drained) == (True, True)
            assert [reason.code for reason in await app.jobs.why(second.id)] == ["draining"]
            await app.workers.resume(worker.id)
            await clock.elapse(seconds=10)
            assert (await second.job()).state is State.COMPLETED
            assert (await only(app)).info.drained is False


async def test_resize_and_drain_are_independent(app: Mainspring, clock: VirtualClock) -> None:
    sleeper(app, clock)
    async with app, app.worker() as worker:
        await app.workers.resize(worker.id, 7)
        await app.workers.drain(worker.id)
        assert (await only(app)).orders == WorkerCommands(concurrency=7, drained=True)
        await app.workers.resume(worker.id)
        assert (await only(app)).orders == WorkerCommands(concurrency=7)


async def test_commands_go_to_all_workers_or_to_one_by_id_prefix(url: str, clock: VirtualClock) -> None:
    ada = Mainspring(url, clock=clock, instance_id="ada")
    sleeper(ada, clock)
    async with ada:
        bob = Mainspring(await ada.connect(), clock=clock, instance_id="bob")
        sleeper(bob, clock)
        async with ada.worker() as first, bob.worker() as second:
            assert sorted(await ada.workers.drain(None)) == sorted([first.id, second.id])
            assert await ada.workers.resume("bob") == [second.id]
            orders = {worker.info.id: worker.orders.drained for worker in await ada.workers.list()}
    assert orders == {first.id: True, second.id: False}


async def test_commands_during_a_stop_start_no_jobs(app: Mainspring, clock: VirtualClock) -> None:
    task = sleeper(app, clock)
    async with app:
        await app.enqueue_many(task.job() for _ in range(5))
        async with app.worker(concurrency=1) as worker:
            await clock.elapse(seconds=1)
            stopping = asyncio.create_task(worker.stop())
            await clock.settle()
            await app.workers.resize(worker.id, 5)
            await app.workers.drain(worker.id)
            await app.workers.resume(worker.id)
            await clock.elapse(seconds=12)
            assert await running(app) == 1
            await clock.elapse(seconds=20)
            await stopping
        assert (await app.stats()).completed == 1


async def test_commands_end_with_their_worker(app: Mainspring, clock: VirtualClock) -> None:
    sleeper(app, clock)
    async with app:
        async with app.worker() as worker:
            await app.workers.drain(worker.id)
            await clock.elapse(seconds=6)
        async with app.worker():
            await clock.elapse(seconds=6)
            live = await only(app)
    assert (live.orders, live.info.drained) == (WorkerCommands(), False)


async def test_a_worker_row_shows_running_and_finished_jobs(app: Mainspring, clock: VirtualClock) -> None:
    task = sleeper(app, clock, 8)
    async with app:
        handle = await task.enqueue()
        async with app.worker() as worker:
            await clock.elapse(seconds=6)
            live = await app.workers.get(worker.id)
            assert (live.info.running, live.info.finished, live.info.leaked) == (1, 0, 0)
            assert live.info.memory > 1 << 20
            assert [job.id for job in await app.workers.running(worker.id)] == [handle.id]
            await clock.elapse(seconds=6)
            assert (await only(app)).info.finished == 1
            assert await app.workers.running(worker.id) == []


async def test_a_worker_that_falls_silent_is_gone_when_its_lease_is_over(app: Mainspring, clock: VirtualClock) -> None:
    sleeper(app, clock)
    async with app:
        store = await app.connect()
        info, now = app.worker()._info, clock.now()
        await store.beat(info, until=now + timedelta(seconds=20), now=now)
        clock.advance(seconds=19)
        assert len(await app.workers.list()) == 1
        clock.advance(seconds=1)
        assert await app.workers.list() == []
        assert await app.workers.drain(None) == []


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, "4", 100_001])
async def test_resize_to_an_invalid_concurrency_is_refused(app: Mainspring, concurrency: Any) -> None:
    async with app:
        with pytest.raises(BadInput, match="concurrency is a whole number from 1 to 100,000, or None"):
            await app.workers.resize(None, concurrency)


async def test_an_unknown_worker_is_refused_with_the_ids_of_live_ones(app: Mainspring, clock: VirtualClock) -> None:
    sleeper(app, clock)
    async with app:
        with pytest.raises(BadInput, match=r"no live worker is called 'eve' \(alive: none\)"):
            await app.workers.drain("eve")
        async with app.worker() as one, app.worker() as two:
            start = one.id[:2]
            both = rf"the ids of 2 live workers begin with '{start}': ({one.id}, {two.id}|{two.id}, {one.id})"
            with pytest.raises(BadInput, match=both):
                await app.workers.get(start)


async def test_concurrent_commands_do_not_undo_each_other(app: Mainspring, clock: VirtualClock) -> None:
    sleeper(app, clock)
    async with app, app.worker() as worker:
        told = await asyncio.gather(
            app.workers.drain(worker.id), app.workers.stop(worker.id), app.workers.resize(worker.id, 3),
            app.workers.drain(worker.id), return_exceptions=True,
        )  # fmt: skip
        orders = (await only(app)).orders
        given = [isinstance(answer, list) for answer in told]
        assert given[1]
        assert orders == WorkerCommands(3 if given[2] else None, drained=given[0] or given[3], stopped=True)


async def test_a_worker_that_is_being_stopped_shows_so_at_once(app: Mainspring, clock: VirtualClock) -> None:
    begun = asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await clock.sleep(10)

    async with app, app.worker() as worker:
        await slow.enqueue()
        await clock.elapse(seconds=1)
        assert begun.is_set()
        worker._on_signal()
        await clock.elapse(seconds=0.1)
        (row,) = await app.workers.list()
        assert row.state == "stopping"
        (other,) = [reason for reason in await app.jobs.why((await slow.enqueue()).id) if reason.code == "draining"]
        assert "stopping; start another" in other.text
        await clock.elapse(seconds=20)
