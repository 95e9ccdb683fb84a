"""Durable steps of process tasks: the functions run in the child, and the worker keeps the checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import durable_for_children as children
import pytest
from durable_for_children import lines

from mainspring import Mainspring, State
from mainspring.executor.pool import _ChildCall
from mainspring.records.job import Job
from mainspring.records.run import Checkpoint
from mainspring.task.handle import Handle
from mainspring.testing import VirtualClock
from mainspring.worker.report_buffer import RunReports


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "notes")


@pytest.fixture
def app(clock: VirtualClock) -> Mainspring:
    return Mainspring("memory://", clock=clock, max_crashes=2)


async def enqueued(app: Mainspring, fn: Callable[..., Any], *args: Any, **options: Any) -> Handle[Any]:
    return await app.task(executor="process", **{"max_retries": 0} | options)(fn).enqueue(*args)


async def run_once(app: Mainspring, clock: VirtualClock, handle: Handle[Any]) -> Job:
    """The job after the worker has run what is due, in two minutes."""
    await app.drain()
    clock.advance(seconds=120)
    return await handle.job()


async def ended(app: Mainspring, clock: VirtualClock, fn: Callable[..., Any], *args: Any, **options: Any) -> Job:
    handle = await enqueued(app, fn, *args, **options)
    while not (job := await run_once(app, clock, handle)).state.final:
        pass
    return job


async def test_a_stored_step_does_not_run_again_and_its_value_comes_back_as_its_type(
    app: Mainspring, clock: VirtualClock, file: str
) -> None:
    async with app:
        job = await ended(app, clock, children.walk, file, max_retries=1)
        names = [one.name for one in await app.jobs.checkpoints(job.id)]
    assert (job.state, job.result, job.runs) == (State.COMPLETED, "[0,1,2]", 2), job.failure
    assert lines(file) == ["take 0", "take 1", "take 2"]
    assert names == ["take", "take#2", "take_later"]


async def test_a_sleep_unwinds_the_child_and_the_next_run_goes_on_behind_it(
    app: Mainspring, clock: VirtualClock, file: str
) -> None:
    async with app:
        handle = await enqueued(app, children.rest, file)
        await app.drain()
        job = await handle.job()
        assert (job.state, str((await app.jobs.why(handle.id))[0].code)) == (State.PENDING, "asleep")
        assert lines(file) == ["take 1", "finally"]
        clock.advance(seconds=120)
        work = asyncio.create_task(app.drain())
        while not work.done():  # a child may take longer to start than the clock waits for it
            await clock.elapse(seconds=0.5)
        job = await handle.job()
        chunks = [(chunk.run, chunk.resumed) for chunk in await app.jobs.output(handle.id)]
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, '"rested"', 1), job.failure
    assert lines(file)[2:] == ["take 2", "finally"]
    assert chunks == [(1, False), (2, True), (2, True)]


async def test_a_suspension_that_the_function_swallows_stands(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        job = await ended(app, clock, children.swallow, file)
    assert (job.state, job.result, job.runs) == (State.COMPLETED, '"awake"', 2)
    assert lines(file) == ["swallowed"]


async def test_signals_are_awaited_and_time_out(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        handle = await enqueued(app, children.wait, file)
        assert (await run_once(app, clock, handle)).state is State.WAITING
        await handle.signal("first", 7)
        while not (job := await run_once(app, clock, handle)).state.final:
            pass
    assert (job.state, job.result) == (State.COMPLETED, "8"), job.failure
    assert lines(file) == ["signal 'third' was not given in time"]


async def test_wrong_calls_and_values_are_refused_inside_the_task(
    app: Mainspring, clock: VirtualClock, file: str
) -> None:
    async with app:
        handle = await enqueued(app, children.refused, file)
        await app.drain()
        found = await handle.result(timeout=0)
        job = await ended(app, clock, children.awaits)
    for text, part in zip(
        found,
        (
            "was called inside of step 'outer'",
            "without '#'",
            "needs a name",
            "returned 1,048,578 bytes, the limit is 1,048,576",
            "the value of step 'object' cannot be stored",
            "ctx.sleep()",
            "it needs a timeout=",
            "use ctx.sync",
        ),
        strict=True,
    ):
        assert part in text
    assert job.failure is not None
    assert "write a plain function there, with ctx.sync" in job.failure.message


async def test_a_value_that_no_longer_fits_makes_the_job_dead(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        job = await ended(app, clock, children.misfit, file, max_retries=5)
    assert job.failure is not None
    assert (job.state, job.runs) == (State.DEAD, 2)
    assert "checkpoint 'changed' of the run before does not fit" in job.failure.message


async def test_a_child_that_is_killed_behind_each_step_runs_none_of_them_again(
    app: Mainspring, clock: VirtualClock, file: str
) -> None:
    async with app:
        job = await ended(app, clock, children.die_behind_each, file)
    assert (job.state, job.result, job.runs) == (State.COMPLETED, "3", 4), job.failure
    assert lines(file) == ["take 0", "take 1", "take 2"]


async def test_a_value_that_a_child_has_sent_is_stored_though_it_died_before_the_answer(
    app: Mainspring, clock: VirtualClock, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_died, keep, store_last_values = asyncio.Event(), RunReports.keep, _ChildCall._store_last_values

    async def keep_late(self: RunReports, checkpoint: Checkpoint) -> bool:
        await has_died.wait()
        return await keep(self, checkpoint)

    async def died(self: _ChildCall) -> None:
        has_died.set()
        await store_last_values(self)
        has_died.clear()

    monkeypatch.setattr(RunReports, "keep", keep_late)
    monkeypatch.setattr(_ChildCall, "_store_last_values", died)
    async with app:
        job = await ended(app, clock, children.die_before_each_answer, file)
    assert (job.state, job.result, job.runs) == (State.COMPLETED, "3", 4), job.failure
    assert lines(file) == ["take 0", "take 1", "take 2"]


async def test_a_step_in_which_the_child_was_killed_runs_again(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        job = await ended(app, clock, children.die_in_step, file)
    assert (job.state, job.result, job.runs) == (State.COMPLETED, "5", 2), job.failure
    assert lines(file) == ["in step", "in step"]


async def test_threads_of_a_child_may_be_in_steps_at_once(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        job = await ended(app, clock, children.in_threads, file)
        names = {one.name for one in await app.jobs.checkpoints(job.id)}
    assert job.result == "[10,11,12,13,14,15,16,17]"  # a second call of a name is another step
    assert names == {f"thread {n}{number}" for n in range(8) for number in ("", "#2")}


async def test_a_thread_that_outlives_its_run_stores_nothing_in_the_next_one(
    app: Mainspring, clock: VirtualClock, file: str
) -> None:
    app.configure(concurrency=1)  # both runs in one child
    async with app:
        first = await enqueued(app, children.leave_a_thread, file)
        following = await enqueued(app, children.follow, file)
        await app.drain()
        assert [len(await app.jobs.checkpoints(run.id)) for run in (first, following)] == [0, 0]
    assert lines(file) == ["next", "durable steps end with their run, and this one has ended"]


async def test_a_process_that_the_task_has_forked_has_no_steps(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        assert (await ended(app, clock, children.fork, file)).state is State.COMPLETED
    assert lines(file) == ["durable steps are for the task's own process, not for one that it has forked"]


async def test_a_soft_timeout_interrupts_a_step(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        handle = await enqueued(app, children.held, file, soft_timeout=5)
        work = asyncio.create_task(app.drain())
        while "held" not in lines(file):
            await clock.settle()
        await clock.elapse(seconds=5)
        await work
        job = await handle.job()
    assert job.failure is not None
    assert (job.failure.type, lines(file)) == ("JobTimeout", ["held", "finally"])


async def test_a_cancel_ends_a_child_in_its_step(app: Mainspring, clock: VirtualClock, file: str) -> None:
    async with app:
        handle = await enqueued(app, children.held, file)
        async with app.worker():
            while "held" not in lines(file):
                await clock.settle()
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=30)
        assert (await handle.job()).state is State.CANCELLED
        assert await app.jobs.checkpoints(handle.id) == []


async def test_a_run_that_has_lost_its_job_ends_at_its_next_checkpoint(
    app: Mainspring, clock: VirtualClock, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(self: RunReports, checkpoint: Checkpoint) -> bool:
        return False

    monkeypatch.setattr(RunReports, "keep", refused)
    async with app:
        handle = await enqueued(app, children.walk, file, max_retries=1)
        await app.drain()
        job = await handle.job()
    assert (job.state, lines(file)) == (State.RUNNING, ["take 0"])


async def test_a_thousand_steps(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        job = await ended(app, clock, children.many, 1000)
        assert len(await app.jobs.checkpoints(job.id)) == 1000
    assert job.result == str(sum(range(1000)))
