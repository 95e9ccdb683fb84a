"""An operator's stop command: received with a beat, as graceful as a signal, and recorded with the worker."""

from __future__ import annotations

import asyncio
import signal

import msgspec
import pytest
from msgspec.structs import replace

from mainspring import BadInput, InvalidTransition, Mainspring
from mainspring.clock import EPOCH
from mainspring.events import WorkersOrdered, WorkerStopping
from mainspring.records.worker import WorkerCommands, WorkerInfo, WorkerRow
from mainspring.testing import VirtualClock


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    app = Mainspring(url, clock=clock, grace=30)

    @app.task
    async def nap(seconds: float) -> None:
        await app.clock.sleep(seconds)

    return app


async def only(app: Mainspring) -> WorkerRow:
    (worker,) = await app.workers.list()
    return worker


async def test_stop_lets_runs_finish_within_grace_and_releases_longer_ones(
    app: Mainspring, clock: VirtualClock
) -> None:
    async with app:
        nap = app.tasks["nap"]
        await app.enqueue_many(nap.job(seconds) for seconds in (10, 100))
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            assert await app.workers.stop(worker.id) == [worker.id]
            assert (await only(app)).state == "stopping"
            await clock.elapse(seconds=6)
            late = await nap.enqueue(0)
            assert [reason.code for reason in await app.jobs.why(late.id)] == ["draining"]
            await clock.elapse(seconds=40)
            assert await app.workers.list() == []
            stats = await app.stats()
            assert (stats.completed, stats.pending, stats.running) == (1, 2, 0)
            assert (await late.job()).runs == 0


async def test_stop_of_an_idle_worker_takes_effect_with_the_next_beat(app: Mainspring, clock: VirtualClock) -> None:
    told: list[WorkersOrdered] = []
    app.events.subscribe(WorkersOrdered, told.append)
    async with app:
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await clock.elapse(seconds=1)
        await app.workers.stop(None)
        assert (told[-1].action, told[-1].workers) == ("stop", (worker.id,))
        await clock.elapse(seconds=6)
        await running
        assert await app.workers.list() == []
        assert worker.stopped_by_operator
        async with app.worker() as another:
            await clock.elapse(seconds=6)
            assert ((await only(app)).info.id, (await only(app)).state) == (another.id, "open")


async def test_stop_is_idempotent_and_keeps_its_grace(app: Mainspring, clock: VirtualClock) -> None:
    begun: list[WorkerStopping] = []
    app.events.subscribe(WorkerStopping, begun.append)
    async with app:
        await app.tasks["nap"].enqueue(20)
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            for _ in range(2):
                assert await app.workers.stop(worker.id) == [worker.id]
                await clock.elapse(seconds=6)
            await clock.elapse(seconds=20)
            assert await app.workers.list() == []
        assert (await app.stats()).completed == 1
    assert [(event.running, event.grace) for event in begun] == [(1, 30)]


@pytest.mark.parametrize("signalled_first", [False, True])
async def test_stop_after_a_signal_keeps_the_grace_of_running_jobs(
    app: Mainspring, clock: VirtualClock, signalled_first: bool
) -> None:
    async with app:
        await app.tasks["nap"].enqueue(20)
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await clock.elapse(seconds=1)
        if signalled_first:
            signal.raise_signal(signal.SIGTERM)
        await app.workers.stop(worker.id)
        await clock.elapse(seconds=6)
        if not signalled_first:
            signal.raise_signal(signal.SIGTERM)
        await clock.elapse(seconds=20)
        await running
        assert worker.recycled is None
        assert (await app.stats()).completed == 1


async def test_the_second_signal_of_a_stopping_worker_does_not_wait(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.tasks["nap"].enqueue(20)
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await clock.elapse(seconds=1)
        await app.workers.stop(worker.id)
        await clock.elapse(seconds=6)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        await clock.elapse(seconds=1)
        await running
        assert (await app.stats()).pending == 1


async def test_a_recycling_worker_that_is_stopped_is_not_replaced(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await app.tasks["nap"].enqueue(20)
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            worker.recycle("a slot leaked")
            await app.workers.stop(worker.id)
            await clock.elapse(seconds=30)
        assert (worker.recycled, worker.stopped_by_operator) == ("a slot leaked", True)


@pytest.mark.parametrize("action", ["resume", "drain", "resize"])
async def test_a_stopping_worker_refuses_other_commands(app: Mainspring, clock: VirtualClock, action: str) -> None:
    async def give(id: str | None) -> object:
        return await app.workers.resize(id, 3) if action == "resize" else await getattr(app.workers, action)(id)

    async with app, app.worker() as going, app.worker() as staying:
        await app.workers.stop(going.id)
        needs = "drained, draining, open, resuming"
        with pytest.raises(InvalidTransition) as refused:
            await give(going.id)
        assert str(refused.value) == f"cannot {action} worker {going.id}: it is stopping, {action} needs {needs}"
        assert (refused.value.worker_id, refused.value.job_id, refused.value.state) == (going.id, "", "stopping")
        assert await give(None) == [staying.id]
        assert (await app.workers.get(going.id)).state == "stopping"


async def test_stop_is_refused_for_a_worker_of_an_earlier_release(app: Mainspring, clock: VirtualClock) -> None:
    async with app, app.worker() as worker:
        store, now = await app.connect(), clock.now()
        info = (await app.workers.get(worker.id)).info
        old = replace(info, id="old-1", host="web", pid=7, grace=None)
        await store.beat(old, until=now.replace(year=now.year + 1), now=now)
        with pytest.raises(BadInput, match="cannot be stopped remotely: send SIGTERM to process 7 on web"):
            await app.workers.stop("old-1")
        assert await app.workers.stop(None) == [worker.id]
        assert (await app.workers.get("old-1")).state == "open"


async def test_stop_works_from_synchronous_code(app: Mainspring, clock: VirtualClock) -> None:
    async with app, app.worker() as worker:
        assert await asyncio.to_thread(app.sync.workers.stop, worker.id) == [worker.id]
        assert (await only(app)).orders.stopped


def test_worker_commands_are_compatible_with_an_earlier_release() -> None:
    class Earlier(msgspec.Struct):
        concurrency: int | None = None
        drained: bool = False

    assert msgspec.json.decode(b'{"drained":true}', type=WorkerCommands) == WorkerCommands(drained=True)
    ours = msgspec.json.encode(WorkerCommands(drained=True, stopped=True))
    assert msgspec.json.decode(ours, type=Earlier) == Earlier(drained=True)
    row = {"id": "a", "host": "h", "pid": 1, "queues": None, "tasks": [], "concurrency": 1, "started_at": EPOCH}
    assert msgspec.json.decode(msgspec.json.encode(row), type=WorkerInfo).grace is None
