"""Cancelling a running job: received with a beat, kept with its first reason, never followed by another run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Context, Discard, Filter, JobCancelled, Mainspring, Retry, Snooze, State
from mainspring.events import JobDied, JobEnded, JobRetrying, JobStarted, JobStopped
from mainspring.records.run import Ending
from mainspring.task.interruption import Interrupted
from mainspring.testing import Faults, FaultStore, Recorder, VirtualClock

BOUND = 10.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock need not wait long for threads that these tests hold on purpose."""
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.1)


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


ANSWERS: dict[str, Callable[[], Any]] = {
    "returns": lambda: "done all the same",
    "fails": raising(ValueError("on the way out")),
    "snoozes": raising(Snooze(5)),
    "hands back a snooze": lambda: Snooze(5),
    "wants a retry": raising(Retry(after=1)),
    "discards": raising(Discard("enough")),
    "exits": raising(SystemExit(3)),
}


async def ended(app: Mainspring, id: str, clock: VirtualClock) -> list[Ending]:
    """How each run ended, long after a retry would have been due."""
    await clock.elapse(seconds=20)
    return [run.ending for run in await app.executions.list(job_id=id)]


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_a_cancelled_coroutine_ends_cancelled_whatever_it_returns_or_raises(
    app: Mainspring, clock: VirtualClock, answer: Callable[[], Any]
) -> None:
    @app.task(max_retries=0)
    async def long() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return answer()

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id, "wrong customer")
            assert await ended(app, handle.id, clock) == [Ending.CANCELLED]
            with pytest.raises(JobCancelled, match="wrong customer"):
                await handle.result(1)


@pytest.mark.parametrize("answer", [ANSWERS[name] for name in ("returns", "fails", "snoozes")])
async def test_a_cancelled_thread_ends_cancelled_whatever_it_returns_or_raises(
    app: Mainspring, clock: VirtualClock, answer: Callable[[], Any]
) -> None:
    recorder, spinning, asleep = Recorder(app), threading.Event(), threading.Event()

    @app.task
    def long() -> Any:
        try:
            while True:
                spinning.set()
                asleep.wait(0.005)
        except Interrupted:
            return answer()

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await asyncio.to_thread(spinning.wait, BOUND)
            await app.jobs.cancel(handle.id, "wrong customer")
            await clock.elapse(seconds=5)
            await recorder.wait(JobEnded)
            assert await ended(app, handle.id, clock) == [Ending.CANCELLED]
            with pytest.raises(JobCancelled, match="wrong customer"):
                await handle.result(1)


@pytest.mark.parametrize("timeout", [4.99, 5, 5.01])
async def test_a_cancel_at_the_moment_of_a_timeout_is_never_followed_by_a_retry(
    app: Mainspring, clock: VirtualClock, timeout: float
) -> None:
    @app.task(timeout=timeout)
    async def long() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id, "too slow")
            assert len(await ended(app, handle.id, clock)) == 1
            assert (await handle.job()).state is State.CANCELLED


@pytest.mark.parametrize("answer", [ValueError("no"), Snooze(1), Retry(after=1)], ids=repr)
async def test_a_cancel_that_the_worker_has_not_read_wins_over_a_retry(
    app: Mainspring, clock: VirtualClock, answer: Exception
) -> None:
    go = asyncio.Event()

    @app.task
    async def failing() -> None:
        await go.wait()
        raise answer

    async with app:
        handle = await failing.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id, "too late to be heard")
            go.set()
            assert len(await ended(app, handle.id, clock)) == 1
            job = await handle.job()
    assert (job.state, job.cancel_reason) == (State.CANCELLED, "too late to be heard")


async def test_a_cancel_while_the_retry_is_on_its_way_to_the_store_stops_the_job(
    app: Mainspring, clock: VirtualClock
) -> None:
    faults = Faults()
    store = FaultStore(await app.connect(), faults)
    other = Mainspring(store, clock=clock)  # type: ignore[arg-type]
    runs = []

    @other.task
    async def failing() -> None:
        runs.append(clock.monotonic())
        raise ValueError("no")

    async with other:
        handle = await failing.enqueue()
        faults.fail("finish", times=3)
        async with other.worker():
            await clock.settle()
            assert faults.injected
            await other.jobs.cancel(handle.id, "just in time")
            await clock.elapse(seconds=20)
            assert (await handle.job()).state is State.CANCELLED
    assert len(runs) == 1


async def test_a_second_cancel_is_no_error_and_the_first_reason_is_kept(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task
    async def long() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            for reason in ("the first", "the second"):
                assert (await app.jobs.cancel(handle.id, reason)).done == [handle.id]
            await clock.elapse(seconds=5)
            assert (await app.jobs.cancel(handle.id, "the third")).done == [handle.id]
            job = await handle.job()
            (stopped,) = recorder.of(JobStopped)
    assert (job.state, job.cancel_reason) == (State.CANCELLED, "the first")
    assert stopped.outcome.failure is not None
    assert stopped.outcome.failure.message == "the first"
    assert recorder.of(JobRetrying) == recorder.of(JobDied) == []


async def test_a_cancel_in_two_beats_interrupts_once(app: Mainspring, clock: VirtualClock) -> None:
    interrupted: list[float] = []

    @app.task
    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(clock.monotonic())
            await clock.sleep(3)
            interrupted.append(clock.monotonic())
            raise

    async with app:
        handle = await tidy.enqueue()
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=4)
            worker._heartbeat._wake_loop()  # a beat at once, which receives the cancel again
            await clock.elapse(seconds=4)
            assert (await handle.job()).state is State.CANCELLED
    assert interrupted == [5, 8]


async def test_the_context_shows_that_the_job_is_cancelled(app: Mainspring, clock: VirtualClock) -> None:
    recorder, asleep = Recorder(app), threading.Event()
    seen: list[bool] = []

    @app.task
    def polite(ctx: Context) -> str:
        seen.append(ctx.cancelled)
        try:
            while not ctx.cancelled:
                asleep.wait(0.005)
        except Interrupted:
            seen.append(ctx.cancelled)
        return "stopped"

    async with app:
        handle = await polite.enqueue()
        async with app.worker():
            await recorder.wait(JobStarted)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=5)
            await recorder.wait(JobEnded)
            assert (await handle.job()).state is State.CANCELLED
    assert (seen[0], seen[-1]) == (False, len(seen) > 1)


async def test_running_jobs_are_cancelled_by_filter_and_others_go_on(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task
    async def long(n: int) -> int:
        await go.wait()
        return n

    async with app:
        doomed = await app.enqueue_many(long.using(tags=["doomed"]).job(n) for n in range(3))
        spared = await long.enqueue(7)
        async with app.worker():
            await clock.elapse(seconds=1)
            changed = await app.jobs.cancel(Filter(tags=("doomed",)), "by tag")
            await clock.elapse(seconds=5)
            go.set()
            await clock.elapse(seconds=1)
            assert await spared.result(5) == 7
            assert {(await handle.job()).state for handle in doomed} == {State.CANCELLED}
    assert sorted(changed.done) == sorted(handle.id for handle in doomed)


async def test_a_cancel_during_a_stop_ends_cancelled_and_is_not_released(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def long() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await long.enqueue()
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            stopping = asyncio.create_task(worker.stop(grace=20))
            await app.jobs.cancel(handle.id, "and do not come back")
            await clock.elapse(seconds=30)
            await stopping
        assert (await handle.job()).state is State.CANCELLED


async def test_a_cancelled_job_can_be_retried_and_then_runs(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task
    async def long() -> str:
        await go.wait()
        return "in the end"

    async with app:
        handle = await long.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=5)
            go.set()
            await app.jobs.retry(handle.id)
            await clock.elapse(seconds=1)
            assert await handle.result(1) == "in the end"
            assert (await handle.job()).cancel_reason is None
