"""Tasks that sleep on the app's clock, in a harness: time passes in advance(), and stands still everywhere else."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from mainspring import Mainspring, State, Task
from mainspring.events import JobLost
from mainspring.testing import Recorder, driver
from mainspring.testing.clock import START


class Sleepers:
    """An app whose tasks record when they act: `seen` has pairs of virtual seconds and text."""

    def __init__(self) -> None:
        self.app = app = Mainspring("memory://")
        self.seen: list[tuple[float, str]] = []

        @app.task(timeout=None, max_retries=0)
        async def nap(name: str, *seconds: float) -> str:
            for n, some in enumerate(seconds):
                await app.clock.sleep(some)
                self.note(f"{name} {n}")
            return name

        @app.task(timeout=None, max_retries=0)
        def plain_nap(name: str, seconds: float) -> str:
            app.sync.clock.sleep(seconds)
            self.note(name)
            return name

        @app.task
        async def quick(name: str) -> None:
            self.note(name)

        self.nap: Task[..., str] = nap
        self.plain_nap: Task[..., str] = plain_nap
        self.quick: Task[..., None] = quick

    def note(self, words: str) -> None:
        self.seen.append(((self.app.clock.now() - START).total_seconds(), words))


@pytest.fixture
def sleepers() -> Sleepers:
    return Sleepers()


# advance()


@pytest.mark.parametrize("count", [1, 1000])
async def test_advance_wakes_concurrent_sleeping_runs(sleepers: Sleepers, count: int) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.app.enqueue_many(sleepers.nap.job(f"nap {n}", 60, 60) for n in range(count))
        ran = await jobs.advance(minutes=5)
        assert jobs.clock.now() - START == timedelta(minutes=5)
    assert [(job.state, job.attempt) for job in ran] == [(State.COMPLETED, 1)] * count
    assert {job.finished_at for job in ran} == {START + timedelta(minutes=2)}
    first = [(60, f"nap {n} 0") for n in range(count)]
    assert sleepers.seen == first + [(120, f"nap {n} 1") for n in range(count)]


async def test_advance_interleaves_sleeping_runs_and_due_jobs_in_the_order_of_time(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.nap.enqueue("long", 30, 30)
        await sleepers.nap.enqueue("short", 10, 35)
        await sleepers.quick.using(delay=40).enqueue("delayed")
        await sleepers.quick.enqueue("at once")
        await jobs.advance(minutes=2)
    assert sleepers.seen == [
        (0, "at once"), (10, "short 0"), (30, "long 0"), (40, "delayed"), (45, "short 1"), (60, "long 1"),
    ]  # fmt: skip


async def test_sleep_beyond_an_advance_ends_in_the_next_one(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        handle = await sleepers.nap.enqueue("nap", 90)
        assert await jobs.advance(minutes=1) == []
        assert (await handle.job()).state is State.RUNNING
        await sleepers.quick.enqueue("beside")
        assert [job.task for job in await jobs.drain()] == ["quick"]
        assert [job.task for job in await jobs.advance(minutes=1)] == ["nap"]
        assert await handle.result() == "nap"
    assert sleepers.seen == [(60, "beside"), (90, "nap 0")]


async def test_suspended_run_wakes_after_a_clock_jump(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.nap.enqueue("nap", 90)
        await jobs.advance(minutes=1)
        jobs.clock.advance(days=400)
        (job,) = await jobs.drain()
    assert (job.state, job.attempt) == (State.COMPLETED, 1)


async def test_timeout_ends_a_sleeping_run_at_its_instant(sleepers: Sleepers) -> None:
    app = sleepers.app

    @app.task(timeout=30, max_retries=0)
    async def late() -> None:
        await app.clock.sleep(3600)

    async with app.testing() as jobs:
        await late.enqueue()
        await sleepers.nap.enqueue("nap", 20, 20)
        ran = await jobs.advance(minutes=1)
    assert [(job.task, job.state, (job.finished_at or START) - START) for job in ran] == [
        ("late", State.DEAD, timedelta(seconds=30)), ("nap", State.COMPLETED, timedelta(seconds=40)),
    ]  # fmt: skip


async def test_sleeping_run_keeps_its_lease_while_schedules_fire(sleepers: Sleepers) -> None:
    sleepers.app.every(hours=1)(sleepers.app.task(name="hourly")(lambda: None))
    told = Recorder(sleepers.app)
    async with sleepers.app.testing() as jobs:
        handle = await sleepers.nap.enqueue("nap", 86_400)
        ran = await jobs.advance(hours=25)
        assert (await handle.job()).attempt == 1
    assert [job.task for job in ran].count("hourly") == 25
    assert ran[-2].task == "nap" or ran[-3].task == "nap"
    assert told.of(JobLost) == []


async def test_cancelled_suspended_run_ends_in_the_next_advance(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        handle = await sleepers.nap.enqueue("nap", 3600)
        await jobs.advance(minutes=1)
        await sleepers.app.jobs.cancel(handle.id)
        (job,) = await jobs.advance(minutes=1)
    assert job.state is State.CANCELLED


async def test_task_awaits_the_result_of_another_job(sleepers: Sleepers) -> None:
    @sleepers.app.task(timeout=None)
    async def parent() -> str:
        return await (await sleepers.nap.enqueue("child", 10)).result()

    async with sleepers.app.testing() as jobs:
        handle = await parent.enqueue()
        assert {job.task for job in await jobs.advance(minutes=5)} == {"nap", "parent"}
        assert await handle.result() == "child"


async def test_sync_tasks_sleep_in_advance(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.plain_nap.enqueue("long", 3600)
        await sleepers.plain_nap.enqueue("short", 60)
        ran = await jobs.advance(hours=2)
    assert [(job.task, job.state) for job in ran] == [("plain_nap", State.COMPLETED)] * 2
    assert sleepers.seen == [(60, "short"), (3600, "long")]


def test_sync_advance_wakes_sleeping_runs(sleepers: Sleepers) -> None:
    with sleepers.app.testing() as jobs:
        sleepers.nap.sync.enqueue("nap", 60)
        sleepers.plain_nap.sync.enqueue("plain", 90)
        assert [job.task for job in jobs.sync.advance(minutes=1)] == ["nap"]
    assert sleepers.seen == [(60, "nap 0")]


async def test_advance_waits_for_real_time_in_a_task(sleepers: Sleepers) -> None:
    app = sleepers.app

    @app.task(timeout=60)
    async def real() -> None:
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, answered.set)  # as a remote server would
        await answered.wait()
        sleepers.note("real")

    async with app.testing() as jobs:
        await real.enqueue()
        (job,) = await jobs.advance(hours=1)
    assert job.state is State.COMPLETED
    assert sleepers.seen == [(0, "real")]


async def test_advance_ends_a_hanging_run_by_its_timeout(sleepers: Sleepers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "REAL_SECONDS", 0.02)

    @sleepers.app.task(timeout=30, max_retries=0)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with sleepers.app.testing() as jobs:
        await hang.enqueue()
        (job,) = await jobs.advance(hours=1)
    assert job.state is State.DEAD
    assert job.finished_at == START + timedelta(seconds=30)


# where time stands still


@pytest.mark.parametrize("way", ["drain", "process_one"])
@pytest.mark.parametrize("task", ["nap", "plain_nap"])
async def test_drain_fails_if_a_task_sleeps(sleepers: Sleepers, way: str, task: str) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.quick.enqueue("before")
        handle = await sleepers.app.tasks[task].enqueue("nap", 60)
        await sleepers.quick.enqueue("after")
        if way == "process_one":
            await jobs.process_one()
        with pytest.raises(AssertionError, match=rf"task '{task}' waits for time to pass.*jobs\.advance\("):
            await getattr(jobs, way)()
        job = await handle.job()
        assert (job.state, job.attempt, job.worker) == (State.PENDING, 0, None)
        assert [job.task for job in await jobs.advance(minutes=2)] == ["quick", task]
        assert await handle.result() == "nap"


async def test_drain_interrupts_a_sync_task_that_sleeps(
    sleepers: Sleepers,
) -> None:
    ended = threading.Event()

    @sleepers.app.task(timeout=None)
    def careful() -> None:
        try:
            sleepers.app.sync.clock.sleep(3600)
        finally:
            ended.set()

    async with sleepers.app.testing() as jobs:
        await careful.enqueue()
        with pytest.raises(AssertionError, match="task 'careful' waits for time to pass"):
            await jobs.drain()
        assert await asyncio.to_thread(ended.wait, 10)


async def test_inline_enqueue_fails_if_a_task_sleeps(sleepers: Sleepers) -> None:
    async with sleepers.app.testing("inline"):
        with pytest.raises(AssertionError, match="task 'nap' waits for time to pass"):
            await sleepers.nap.enqueue("nap", 60)


async def test_elapse_during_process_one_wakes_its_run(sleepers: Sleepers) -> None:
    async with sleepers.app.testing() as jobs:
        await sleepers.nap.enqueue("nap", 60, 60)
        run = asyncio.create_task(jobs.process_one())
        await jobs.clock.elapse(minutes=1)
        await jobs.clock.elapse(minutes=1)
        job = await run
    assert job is not None
    assert job.state is State.COMPLETED


# the end of a block


async def test_leaving_the_harness_cancels_suspended_runs(sleepers: Sleepers) -> None:
    ended = []

    @sleepers.app.task(timeout=None)
    async def careful() -> None:
        try:
            await sleepers.app.clock.sleep(3600)
        finally:
            ended.append("cancelled")

    async with sleepers.app.testing() as jobs:
        await careful.enqueue()
        await jobs.advance(minutes=1)
    assert ended == ["cancelled"]
    async with sleepers.app.testing() as jobs:
        await sleepers.nap.enqueue("again", 1)
        assert len(await jobs.advance(seconds=1)) == 1
