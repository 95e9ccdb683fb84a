"""Leaks: a run that ignores its interruption is finished, its slot counts as leaked, and other jobs go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring import Context, Handle, Mainspring, State, Task
from mainspring.events import JobEnded, SlotLeaked
from mainspring.records.run import Ending
from mainspring.records.worker import WorkerInfo
from mainspring.task.interruption import Interrupted
from mainspring.testing import Recorder, VirtualClock


@pytest.fixture
def url() -> str:
    """Slots know of no store."""
    return "memory://"


BOUND = 10.0
Leaky = Callable[[Mainspring], Task[[], Any]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock need not wait long for threads that these tests hold on purpose."""
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.1)


class Hold:
    """Keeps runs that ignore every interruption until the test lets them go."""

    def __init__(self) -> None:
        self.going = threading.Event()
        self.free = threading.Event()

    async def coroutine(self, ctx: Context) -> str:
        self.going.set()
        while not self.free.is_set():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
        ctx.log.info("late words")
        return "late"

    def stuck_in_c(self, ctx: Context) -> str:
        self.going.set()
        self.free.wait(BOUND)
        ctx.log.info("late words")
        return "late"

    def deaf_thread(self, ctx: Context) -> str:
        while not self.free.is_set():
            try:
                self.going.set()
                self.free.wait(0.005)
            except Interrupted:
                continue
        return "late"


@pytest.fixture
def hold() -> Iterator[Hold]:
    hold = Hold()
    yield hold
    hold.free.set()


KINDS = ["coroutine", "stuck_in_c", "deaf_thread"]


@pytest.fixture(params=KINDS)
def leaky(request: pytest.FixtureRequest, hold: Hold) -> Any:
    return getattr(hold, request.param)


async def info(app: Mainspring) -> WorkerInfo:
    (worker,) = await app.workers.list()
    return worker.info


async def begun(hold: Hold, clock: VirtualClock) -> None:
    await clock.settle()
    assert await asyncio.to_thread(hold.going.wait, BOUND)


async def cancelled(app: Mainspring, handle: Handle[Any], hold: Hold, clock: VirtualClock) -> None:
    """Cancels the job once it runs, and lets the interrupt grace pass."""
    await begun(hold, clock)
    await app.jobs.cancel(handle.id, "enough")
    await clock.elapse(seconds=16)


async def test_a_run_that_ignores_its_cancel_leaks_its_slot_and_harms_no_other_job(
    app: Mainspring, clock: VirtualClock, hold: Hold, leaky: Any
) -> None:
    recorder = Recorder(app)
    task = app.task(name="leaky")(leaky)

    @app.task
    async def innocent(n: int) -> int:
        await clock.sleep(n)
        return n

    async with app:
        handle = await task.enqueue()
        others = await app.enqueue_many(innocent.job(n) for n in range(10))
        async with app.worker(concurrency=11) as worker:
            await cancelled(app, handle, hold, clock)
            assert [await other.result(0) for other in others] == list(range(10))
            assert (await handle.job()).state is State.CANCELLED
            (leak,) = recorder.of(SlotLeaked)
            assert (await info(app)).leaked == 1
            assert worker._slots.free == 10
            assert worker.recycled is None
            hold.free.set()
    assert leak.job.id == handle.id
    assert leaky.__name__ in leak.stack


async def test_a_leaked_slot_is_free_again_when_its_run_ends(
    app: Mainspring, clock: VirtualClock, hold: Hold, leaky: Any
) -> None:
    recorder = Recorder(app)
    task = app.task(name="leaky")(leaky)

    @app.task
    async def next_one() -> str:
        return "ran"

    async with app:
        handle = await task.enqueue()
        async with app.worker(concurrency=1):
            await cancelled(app, handle, hold, clock)
            waiting = await next_one.enqueue()
            await clock.elapse(seconds=10)
            assert (await waiting.job()).state is State.PENDING
            assert (await app.health()).reasons[0].endswith("every slot is leaked")
            assert [reason.code for reason in await app.jobs.why(waiting.id)] == ["workers_full"]
            hold.free.set()
            await release(leaky, clock)
            await recorder.wait(JobEnded, job=waiting.id)
            await clock.elapse(seconds=5)
            assert await waiting.result(0) == "ran"
            assert (await info(app)).leaked == 0
            job = await handle.job()
            runs = await app.executions.list(job_id=handle.id)
            lines = await app.jobs.logs(handle.id)
    assert (job.state, job.result, [run.ending for run in runs]) == (State.CANCELLED, None, [Ending.CANCELLED])
    assert lines == []


async def release(leaky: Any, clock: VirtualClock) -> None:
    """Waits for the end of a freed run: a coroutine must be woken, a thread must have notified its loop."""
    for task in asyncio.all_tasks():
        if leaky.__name__ == "coroutine" and "Slots._start_runs" in repr(task.get_coro()):
            task.cancel()
    for _ in range(3):
        await clock.elapse(seconds=1)
        await asyncio.to_thread(threading.Event().wait, 0.02)


async def test_a_run_that_ignores_its_timeout_has_timed_out(
    app: Mainspring, clock: VirtualClock, hold: Hold, leaky: Any
) -> None:
    recorder = Recorder(app)
    task = app.task(name="leaky", timeout=3, max_retries=0)(leaky)

    async with app:
        handle = await task.enqueue()
        async with app.worker():
            await begun(hold, clock)
            await clock.elapse(seconds=20)
            job = await handle.job()
            (run,) = await app.executions.list(job_id=handle.id)
            assert len(recorder.of(SlotLeaked)) == 1
            hold.free.set()
    assert (job.state, run.ending) == (State.DEAD, Ending.TIMEOUT)


@pytest.mark.parametrize("recycle", [True, False])
async def test_a_leak_recycles_the_worker_only_with_the_recycle_option(
    app: Mainspring, clock: VirtualClock, hold: Hold, recycle: bool
) -> None:
    task = app.task(name="leaky")(hold.coroutine)

    async with app:
        handle = await task.enqueue()
        worker = app.worker(recycle=recycle)
        async with worker:
            await cancelled(app, handle, hold, clock)
            alive = len(await app.workers.list())
            hold.free.set()
    assert alive == (0 if recycle else 1)
    assert worker.recycled == (f"a slot leaked: leaky {handle.id} ignores its interruption" if recycle else None)


async def test_a_coroutine_that_ignores_its_interruption_does_not_outlive_its_worker(
    app: Mainspring, clock: VirtualClock, hold: Hold
) -> None:
    """An event loop waits for all of its tasks before it closes: the process would never end."""
    task = app.task(name="leaky")(hold.coroutine)

    async with app:
        given_up = await task.enqueue()
        async with app.worker() as worker:
            await cancelled(app, given_up, hold, clock)
            released = await task.enqueue()
            await clock.elapse(seconds=2)
            stopping = asyncio.create_task(worker.stop(grace=1))
            await clock.elapse(seconds=10)
            await stopping
        await clock.settle()
        assert (await released.job()).state is State.PENDING
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_leak_does_not_block_a_drain(app: Mainspring, clock: VirtualClock, hold: Hold) -> None:
    task = app.task(name="leaky", timeout=1, max_retries=0)(hold.coroutine)

    @app.task
    async def innocent() -> str:
        return "ran"

    async with app:
        handle, other = await task.enqueue(), await innocent.enqueue()
        draining = asyncio.create_task(app.drain())
        await clock.elapse(seconds=20)
        hold.free.set()
        assert await draining == 2
        assert (await handle.job()).state is State.DEAD
        assert await other.result(0) == "ran"


async def test_a_stop_after_a_leak_is_graceful_and_ends(app: Mainspring, clock: VirtualClock, hold: Hold) -> None:
    task = app.task(name="leaky")(hold.stuck_in_c)

    async with app:
        handle = await task.enqueue()
        async with app.worker() as worker:
            await cancelled(app, handle, hold, clock)
            await worker.stop()
        assert await app.workers.list() == []
        assert (await handle.job()).state is State.CANCELLED


async def test_the_event_log_has_the_leak_with_its_stack(
    app: Mainspring, clock: VirtualClock, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(name="leaky")(hold.stuck_in_c)

    async with app:
        handle = await task.enqueue()
        async with app.worker():
            await cancelled(app, handle, hold, clock)
            hold.free.set()
    (record,) = [record for record in caplog.records if "leaked slot" in record.getMessage()]
    assert record.levelname == "ERROR"
    assert "self.free.wait(BOUND)" in record.getMessage()


async def test_a_job_with_endless_recursion_dies_and_other_jobs_complete(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=1)
    async def deep(n: int = 0) -> None:
        async def deeper(n: int) -> None:
            await deeper(n + 1)

        await deeper(n)

    @app.task(max_retries=1)
    def deep_thread() -> None:
        deep_thread()

    @app.task
    async def innocent(n: int) -> int:
        await clock.sleep(1)
        return n

    async with app:
        poison = [await deep.enqueue(), await deep_thread.enqueue()]
        others = await app.enqueue_many(innocent.job(n) for n in range(10))
        async with app.worker():
            await clock.elapse(seconds=30)
        assert [await other.result(0) for other in others] == list(range(10))
        for handle in poison:
            job = await handle.job()
            assert (job.state, job.failure and job.failure.type) == (State.DEAD, "RecursionError")
