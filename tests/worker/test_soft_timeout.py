"""Soft and hard timeouts: a result after the soft one counts; the hard one ends the run for good."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, BadTask, Context, Mainspring, Snooze, State
from mainspring.events import JobEnded
from mainspring.middleware import Next
from mainspring.records.run import Ending
from mainspring.task.interruption import Interrupted
from mainspring.testing import Recorder, VirtualClock


@pytest.fixture
def url() -> str:
    """What interrupts a run knows of no store."""
    return "memory://"


BOUND = 10.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock need not wait long for threads that these tests hold on purpose."""
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.1)


async def endings(app: Mainspring, id: str) -> list[Ending]:
    return [run.ending for run in await app.executions.list(job_id=id)]


@pytest.mark.parametrize("timeout", [30, None])
async def test_a_result_of_a_coroutine_after_the_soft_timeout_counts(
    app: Mainspring, clock: VirtualClock, timeout: float | None
) -> None:
    @app.task(soft_timeout=10, timeout=timeout)
    async def saving() -> float:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return clock.monotonic()
        raise AssertionError

    async with app:
        handle = await saving.enqueue()
        async with app.worker():
            await clock.elapse(seconds=11)
            assert await handle.result(1) == 10
            assert await endings(app, handle.id) == [Ending.COMPLETED]


@pytest.mark.parametrize("timeout", [30, None])
async def test_a_result_of_a_thread_after_the_soft_timeout_counts(
    app: Mainspring, clock: VirtualClock, timeout: float | None
) -> None:
    recorder, running, asleep = Recorder(app), threading.Event(), threading.Event()

    @app.task(soft_timeout=10, timeout=timeout)
    def saving(ctx: Context) -> bool:
        try:
            while True:
                running.set()
                asleep.wait(0.005)
        except Interrupted:
            return ctx.cancelled

    async with app:
        handle = await saving.enqueue()
        async with app.worker():
            await asyncio.to_thread(running.wait, BOUND)
            await clock.elapse(seconds=10)
            await recorder.wait(JobEnded)
            assert await handle.result(1) is True


async def test_a_run_that_does_not_handle_its_soft_timeout_has_timed_out(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(soft_timeout=10, timeout=30, max_retries=0)
    async def deaf() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await deaf.enqueue()
        async with app.worker():
            await clock.elapse(seconds=11)
            job = await handle.job()
            assert await endings(app, handle.id) == [Ending.TIMEOUT]
    assert job.failure is not None
    assert (job.failure.type, job.failure.message) == ("JobTimeout", "took longer than its soft_timeout of 10 s")


async def test_a_snooze_after_the_soft_timeout_counts(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(soft_timeout=10, timeout=30)
    async def batch() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Snooze(3600) from None

    async with app:
        handle = await batch.enqueue()
        async with app.worker():
            await clock.elapse(seconds=11)
            assert await endings(app, handle.id) == [Ending.SNOOZED]
            assert (await handle.job()).attempt == 0


async def test_the_soft_timeout_interrupts_once_and_the_hard_timeout_for_good(
    app: Mainspring, clock: VirtualClock
) -> None:
    interrupted: list[float] = []

    @app.task(soft_timeout=10, timeout=15, max_retries=0)
    async def busy() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                interrupted.append(clock.monotonic())
        raise AssertionError("the time was over")

    async with app:
        handle = await busy.enqueue()
        async with app.worker():
            await clock.elapse(seconds=20)
            job = await handle.job()
            assert await endings(app, handle.id) == [Ending.TIMEOUT]
    assert interrupted == [10, 15]
    assert job.failure is not None
    assert job.failure.message == "took longer than its timeout of 15 s"
    assert "the time was over" in job.failure.stack


@pytest.mark.parametrize("answer", ["a value", Snooze(5)], ids=["a value", "a snooze"])
async def test_a_result_after_the_hard_timeout_does_not_count(
    app: Mainspring, clock: VirtualClock, answer: Any
) -> None:
    @app.task(timeout=10, max_retries=0)
    async def late() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return answer

    async with app:
        handle = await late.enqueue()
        async with app.worker():
            await clock.elapse(seconds=11)
            assert (await handle.job()).state is State.DEAD
            assert await endings(app, handle.id) == [Ending.TIMEOUT]


async def test_a_soft_timeout_after_the_hard_timeout_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadTask, match=r"soft_timeout \(60 s\) must come before timeout \(10 s\)"):

        @app.task(soft_timeout=60, timeout=10)
        async def work() -> None: ...


async def test_middleware_is_not_cancelled_after_the_task_has_swallowed_its_soft_timeout(
    app: Mainspring, clock: VirtualClock
) -> None:
    left: list[int] = []

    async def outer(ctx: Context, call_next: Next) -> Any:
        value = await call_next(ctx)
        task = asyncio.current_task()
        assert task is not None
        left.append(task.cancelling())
        return value

    @app.task(soft_timeout=10, middleware=[outer])
    async def saving() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "saved"

    async with app:
        handle = await saving.enqueue()
        async with app.worker():
            await clock.elapse(seconds=11)
            assert await handle.result(1) == "saved"
    assert left == [0]


async def test_a_cancel_after_the_soft_timeout_is_a_cancel(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(soft_timeout=2, timeout=60)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    async with app:
        handle = await slow.enqueue()
        async with app.worker():
            await clock.elapse(seconds=3)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=5)
            assert (await handle.job()).state is State.CANCELLED


@pytest.mark.parametrize(("timeout", "seconds"), [(30, 30), (timedelta(minutes=2), 120), (None, None)])
async def test_the_context_has_the_deadline(
    app: Mainspring, clock: VirtualClock, timeout: Any, seconds: float | None
) -> None:
    seen: list[Any] = []

    @app.task(timeout=timeout)
    async def look(ctx: Context) -> None:
        seen.extend([ctx.deadline, ctx.cancelled, ctx.timeout])

    async with app:
        clock.advance(hours=1)
        await look.enqueue()
        await app.drain()
    assert seen == [None if seconds is None else clock.now() + timedelta(seconds=seconds), False, seconds]


async def test_the_deadline_follows_the_timeout_of_the_job(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[Any] = []

    @app.task(timeout=30)
    async def look(ctx: Context) -> None:
        seen.append(ctx.deadline)

    async with app:
        await look.using(timeout=7).enqueue()
        await app.drain()
    assert seen == [clock.now() + timedelta(seconds=7)]


@pytest.mark.parametrize("bad", [0, -1, "soon", True, float("nan")])
def test_an_invalid_soft_timeout_is_refused(app: Mainspring, bad: Any) -> None:
    with pytest.raises(BadInput, match="option soft_timeout of task 'work'"):

        @app.task(soft_timeout=bad)
        async def work() -> None: ...
