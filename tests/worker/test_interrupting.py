"""Timeouts, cancels and stops interrupt async tasks and threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mainspring import Context, JobCancelled, Mainspring, State
from mainspring.events import JobEnded, JobStarted
from mainspring.testing import Recorder, VirtualClock


@pytest.fixture
def url() -> str:
    """What interrupts a run knows of no store."""
    return "memory://"


async def endings(app: Mainspring, id: str) -> list[str]:
    return [str(run.ending) for run in await app.executions.list(job_id=id)]


async def test_an_async_task_is_interrupted_at_its_timeout_and_retried(app: Mainspring, clock: VirtualClock) -> None:
    interrupted: list[float] = []

    @app.task(timeout=30, max_retries=1)
    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(clock.monotonic())
            raise

    async with app:
        handle = await stuck.enqueue()
        async with app.worker():
            await clock.elapse(seconds=29.9)
            assert interrupted == []
            await clock.elapse(seconds=40)
        job = await handle.job()
    assert interrupted[0] == 30
    assert len(interrupted) == 2
    assert job.state is State.DEAD
    assert job.failure is not None
    assert "timeout of 30 s" in job.failure.message


async def test_a_thread_is_interrupted_at_its_timeout(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    started, ended = threading.Event(), threading.Event()

    @app.task(timeout=3, max_retries=0)
    def spin() -> None:
        started.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    async with app:
        handle = await spin.enqueue()
        async with app.worker():
            await recorder.wait(JobStarted)
            await asyncio.to_thread(started.wait)
            await clock.elapse(seconds=4)
            await recorder.wait(JobEnded)
        assert ended.is_set()
        assert await endings(app, handle.id) == ["timeout"]


async def test_a_run_that_swallows_its_interruption_is_interrupted_again(app: Mainspring, clock: VirtualClock) -> None:
    tries: list[float] = []

    @app.task(timeout=10, max_retries=0)
    async def stubborn() -> None:
        while len(tries) < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                tries.append(clock.monotonic())
        await asyncio.Event().wait()

    async with app:
        handle = await stubborn.enqueue()
        async with app.worker():
            await clock.elapse(seconds=20)
            assert tries == [10, 11, 12]
            assert await endings(app, handle.id) == ["timeout"]


async def test_a_task_with_timeout_none_is_not_interrupted(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task(timeout=None)
    async def long() -> str:
        await go.wait()
        return "done"

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=400)
            go.set()
            assert await handle.result(5) == "done"


@pytest.mark.parametrize("fails_on_the_way_out", [False, True])
async def test_a_cancel_interrupts_a_running_job_at_the_next_beat(
    app: Mainspring, clock: VirtualClock, fails_on_the_way_out: bool
) -> None:
    seen: list[bool] = []

    @app.task
    async def long(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            if fails_on_the_way_out:
                raise ValueError from None
            raise

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id, "wrong customer")
            await app.jobs.cancel(handle.id, "told twice")
            await clock.elapse(seconds=5)
            assert seen == [True]
            with pytest.raises(JobCancelled, match="wrong customer"):
                await handle.result(1)
        assert await endings(app, handle.id) == ["cancelled"]


async def test_a_cancelled_thread_stops_at_its_next_bytecode(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    started = threading.Event()

    @app.task
    def spin() -> None:
        started.set()
        while True:
            pass

    async with app:
        handle = await spin.enqueue()
        async with app.worker():
            await asyncio.to_thread(started.wait)
            await app.jobs.cancel(handle.id, "enough")
            await clock.elapse(seconds=6)
            await recorder.wait(JobEnded)
        assert (await handle.job()).state is State.CANCELLED


async def test_a_cancelled_job_that_waits_never_runs(app: Mainspring, clock: VirtualClock) -> None:
    runs: list[int] = []

    @app.task
    async def later() -> None:
        runs.append(1)

    async with app:
        handle = await later.using(delay=10).enqueue()
        await app.jobs.cancel(handle.id)
        async with app.worker():
            await clock.elapse(minutes=1)
    assert runs == []


async def test_a_stop_lets_jobs_finish_within_grace(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def steady() -> str:
        await clock.sleep(20)
        return "finished"

    async with app:
        handle = await steady.enqueue()
        worker = app.worker()
        async with worker:
            await clock.elapse(seconds=1)
            stopping = asyncio.create_task(worker.stop())
            late = await steady.enqueue()
            await clock.elapse(seconds=25)
            await stopping
        assert await handle.result() == "finished"
        assert (await late.job()).shown(clock.now()) == "pending"


async def test_a_stop_releases_unfinished_runs_and_costs_no_attempt(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def endless() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await endless.enqueue()
        worker = app.worker()
        async with worker:
            await clock.elapse(seconds=1)
            stopping = asyncio.create_task(worker.stop(grace=10))
            await clock.elapse(seconds=9)
            assert (await handle.job()).state is State.RUNNING
            await clock.elapse(seconds=2)
            await stopping
        job = await handle.job()
        assert (job.state, job.attempt, job.runs) == (State.PENDING, 0, 1)
        assert await endings(app, handle.id) == ["released"]
        assert await app.workers.list() == []


async def test_a_run_that_ignores_the_stop_is_released_all_the_same(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task
    async def deaf() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with app:
        handle = await deaf.enqueue()
        worker = app.worker()
        async with worker:
            await clock.elapse(seconds=1)
            stopping = asyncio.create_task(worker.stop(grace=1))
            await clock.elapse(seconds=10)
            await stopping
        assert (await handle.job()).state is State.PENDING
        go.set()
        await clock.settle()
        assert (await handle.job()).state is State.PENDING


async def test_repeated_and_concurrent_stops_of_a_worker_are_safe(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def quick() -> None: ...

    async with app:
        worker = app.worker()
        async with worker:
            await quick.enqueue()
            await clock.settle()
            await asyncio.gather(*(worker.stop() for _ in range(100)))
            for _ in range(10):
                await worker.stop()


async def test_a_worker_stopped_before_its_start_does_not_start(app: Mainspring) -> None:
    @app.task
    async def quick() -> None: ...

    async with app:
        worker = app.worker()
        await worker.stop()
        async with asyncio.timeout(5):
            await worker.run()
        assert await app.workers.list() == []


async def test_a_job_on_a_real_clock_is_stopped_at_once_when_there_is_no_grace() -> None:
    app = Mainspring("memory://")
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app:
        handle = await endless.enqueue()
        async with asyncio.timeout(2):
            worker = app.worker()
            async with worker:
                await started.wait()
                await worker.stop(grace=0)
        assert (await handle.job()).state is State.PENDING
