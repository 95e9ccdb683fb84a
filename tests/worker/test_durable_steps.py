"""Durable steps: each runs once, its value comes back as its type, and sleeping takes no slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec import Struct

from mainspring import BadInput, Context, Mainspring, Retry, State
from mainspring.records.job import Job
from mainspring.records.outcome import Released, decide
from mainspring.records.run import Checkpoint, Ending
from mainspring.store import FlowStore
from mainspring.testing import VirtualClock
from mainspring.worker import durable
from mainspring.worker.report_buffer import RunReports

Calls = list[Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Key(Struct):
    user: int
    made: datetime


def adder(calls: Calls) -> Callable[[int], int]:
    def add(n: int) -> int:
        calls.append(n)
        return n + 1

    return add


async def ended(app: Mainspring, clock: VirtualClock, task: Any, *args: Any, seconds: float = 60) -> Job:
    """The job of the task after a worker has worked for that long."""
    handle = await task.enqueue(*args)
    async with app.worker():
        await clock.elapse(seconds=seconds)
    return await app.jobs.get(handle.id)


async def checkpoints(app: Mainspring, job: Job) -> list[Checkpoint]:
    return await cast(FlowStore, await app._engine.connect()).checkpoints(job.id)


async def test_a_step_that_was_stored_does_not_run_again(app: Mainspring, clock: VirtualClock) -> None:
    calls = Calls()
    add = adder(calls)

    @app.task(max_retries=2)
    async def work(ctx: Context) -> int:
        value = await ctx.step(add, 1)
        value = await ctx.step(add, value)
        if ctx.attempt < 2 and not ctx.resumed:
            raise ValueError("in between")
        return await ctx.step(add, value)  # type: ignore[no-any-return]

    async with app:
        job = await ended(app, clock, work)
    assert (job.state, job.result, calls) == (State.COMPLETED, "4", [1, 2, 3])


async def test_values_come_back_as_their_types(app: Mainspring, clock: VirtualClock) -> None:
    seen = Calls()

    async def create_key(user: int) -> Key:
        return Key(user, clock.now())

    def pair() -> tuple[int, str]:
        return 1, "a"

    def bare():  # type: ignore[no-untyped-def]
        return (1, 2)

    @app.task(max_retries=1, backoff=lambda _: 0.0)
    async def work(ctx: Context) -> None:
        seen.append([await ctx.step(create_key, 7), await ctx.step(pair), await ctx.step(bare)])
        if not ctx.resumed:
            raise Retry

    async with app:
        assert (await ended(app, clock, work)).state is State.COMPLETED
    first, second = seen
    assert first == second
    assert isinstance(first[0], Key)
    assert first[1:] == [(1, "a"), [1, 2]]


async def test_calls_of_one_name_are_numbered_in_the_order_in_which_they_were_called(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen = Calls()

    async def slow(n: int) -> int:
        await clock.sleep(10 - n)
        seen.append(n)
        return n

    @app.task(max_retries=1, backoff=lambda _: 0.0)
    async def work(ctx: Context) -> list[int]:
        values = await asyncio.gather(*(ctx.step(slow, n) for n in range(4)), ctx.step(slow, 9, name="last"))
        if not ctx.resumed:
            raise Retry
        return values

    async with app:
        job = await ended(app, clock, work)
        found = await checkpoints(app, job)
    assert job.result == "[0,1,2,3,9]"
    assert sorted(seen) == [0, 1, 2, 3, 9]
    assert {one.name: one.value for one in found} == {
        "slow": "0",
        "slow#2": "1",
        "slow#3": "2",
        "slow#4": "3",
        "last": "9",
    }


async def test_a_step_that_failed_runs_again_and_those_before_it_do_not(app: Mainspring, clock: VirtualClock) -> None:
    calls = Calls()

    def fragile(n: int) -> int:
        calls.append(n)
        if len(calls) < 4:
            raise OSError
        return n

    @app.task(max_retries=3, backoff=lambda _: 1.0)
    async def work(ctx: Context) -> None:
        await ctx.step(adder(calls), 0, name="first")
        await ctx.step(fragile, 5)

    async with app:
        job = await ended(app, clock, work)
    assert (job.state, calls) == (State.COMPLETED, [0, 5, 5, 5])


async def test_a_run_that_has_stored_a_step_starts_the_attempts_anew(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=1, backoff=lambda _: 1.0)
    async def work(ctx: Context) -> int:
        for n in range(6):
            fresh = Calls()
            await ctx.step(adder(fresh), n, name=f"step{n}")
            if fresh:
                raise OSError("unrelated")
        return ctx.attempt

    async with app:
        job = await ended(app, clock, work)
        runs = await app.executions.list(job_id=job.id)
    assert (job.state, job.result) == (State.COMPLETED, "2")
    assert len(runs) == 7


async def test_a_step_that_fails_for_good_uses_up_the_retries(app: Mainspring, clock: VirtualClock) -> None:
    def fail() -> None:
        raise OSError("for good")

    @app.task(max_retries=2, backoff=lambda _: 1.0)
    async def work(ctx: Context) -> None:
        await ctx.step(adder([]), 1)
        await ctx.step(fail)

    async with app:
        job = await ended(app, clock, work)
    assert (job.state, job.runs) == (State.DEAD, 3)


async def test_a_value_that_no_longer_fits_its_type_names_the_step(app: Mainspring, clock: VirtualClock) -> None:
    def key() -> Any:
        return "text" if first else 1

    def key_of_now() -> int:
        return 1

    first = True

    @app.task(max_retries=5, backoff=lambda _: 0.0)
    async def work(ctx: Context) -> None:
        nonlocal first
        if first:
            await ctx.step(key)
            first = False
            raise Retry
        await ctx.step(key_of_now, name="key")

    async with app:
        job = await ended(app, clock, work)
    assert (job.state, job.runs) == (State.DEAD, 2)
    assert job.failure is not None
    assert job.failure.message.startswith("checkpoint 'key' of the run before does not fit")
    assert "rename the step" in job.failure.message.lower()


@pytest.mark.parametrize("what", ["step", "sleep"])
async def test_a_step_in_a_step_is_refused(app: Mainspring, clock: VirtualClock, what: str) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        async def outer() -> None:
            await (ctx.sleep(5) if what == "sleep" else ctx.step(adder([]), 1))

        await ctx.step(outer)

    async with app:
        job = await ended(app, clock, work)
    assert job.state is State.DEAD
    assert job.failure is not None
    assert job.failure.type == "BadInput"
    assert "inside of step 'outer'" in job.failure.message


async def test_bad_steps_are_refused_before_they_run(app: Mainspring, clock: VirtualClock) -> None:
    refused = Calls()

    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        def lossy() -> int:
            return "text"  # type: ignore[return-value]

        calls: list[Callable[[], Any]] = [
            lambda: ctx.step(lambda: 1),
            lambda: ctx.step("no function"),  # type: ignore[arg-type]
            lambda: ctx.step(len, "", name=""),
            lambda: ctx.step(len, "", name="a#2"),
            lambda: ctx.step(len, "", name="x" * 201),
            lambda: ctx.step(lambda: object(), name="object"),
            lambda: ctx.step(lambda: "x" * (1 << 20), name="large"),
            lambda: ctx.step(lossy),
            lambda: ctx.sleep(-1),
        ]
        for call in calls:
            with pytest.raises(BadInput) as error:
                await call()
            refused.append(str(error.value))

    async with app:
        job = await ended(app, clock, work)
        assert await checkpoints(app, job) == []
    assert job.state is State.COMPLETED, job.failure
    assert len(refused) == 9


async def test_a_job_has_a_bounded_number_of_checkpoints(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "MAX_CHECKPOINTS", 3)

    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        for n in range(9):
            await ctx.step(adder([]), n)

    async with app:
        job = await ended(app, clock, work)
        assert len(await checkpoints(app, job)) == 3
    assert job.state is State.DEAD
    assert job.failure is not None
    assert "up to 3 checkpoints" in job.failure.message


async def test_the_checkpoint_of_a_run_that_lost_its_job_is_refused(app: Mainspring, clock: VirtualClock) -> None:
    reached, calls = Calls(), Calls()

    @app.task(max_retries=0)
    async def work(ctx: Context) -> str:
        if not ctx.resumed:
            await ctx.step(lambda: calls.append("zombie"), name="before")
            store = await app._engine.connect()
            assert await store.finish([decide(ctx.job, Released(), now=clock.now())])
            with suppress(Exception):
                await ctx.step(lambda: calls.append("late"), name="late")
            await clock.sleep(1)
            reached.append("behind a refused step")
        return "second"

    async with app:
        job = await ended(app, clock, work)
        names = [one.name for one in await checkpoints(app, job)]
    assert (job.state, job.result, reached, names) == (State.COMPLETED, '"second"', [], ["before"])


@pytest.mark.parametrize("first", ["plain", "async"])
async def test_a_soft_timeout_interrupts_what_comes_behind_a_plain_step(
    app: Mainspring, clock: VirtualClock, first: str
) -> None:
    async def waits() -> int:
        return 1

    @app.task(max_retries=0, soft_timeout=5, timeout=500)
    async def work(ctx: Context) -> str:
        await ctx.step(adder([]) if first == "plain" else waits, *([1] if first == "plain" else []))
        try:
            await clock.sleep(100)
        except asyncio.CancelledError:
            return "interrupted"
        return "late"

    async with app:
        assert (await ended(app, clock, work)).result == '"interrupted"'


# plain functions


async def test_plain_functions_have_durable_steps_too(app: Mainspring, clock: VirtualClock) -> None:
    calls = Calls()

    async def later() -> Key:
        calls.append("async")
        return Key(1, START)

    @app.task(max_retries=2, backoff=lambda _: 0.0)
    def work(ctx: Context) -> list[int]:
        found = [ctx.sync.step(adder(calls), n) for n in range(3)]
        assert isinstance(ctx.sync.step(later), Key)
        if not ctx.resumed:
            raise Retry
        ctx.sync.sleep(minutes=1)
        ctx.sync.sleep(0.5)
        return found

    async with app:
        job = await ended(app, clock, work, seconds=200)
        names = [one.name for one in await checkpoints(app, job)]
    assert (job.state, job.result, job.runs) == (State.COMPLETED, "[1,2,3]", 3)
    assert calls == [0, 1, 2, "async"]
    assert names == ["add", "add#2", "add#3", "later", "sleep"]


async def test_the_wrong_kind_of_step_is_refused_by_name(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    def plain(ctx: Context) -> None:
        ctx.step(adder([]), 1)

    @app.task(max_retries=0)
    async def fine(ctx: Context) -> None:
        ctx.sync.step(adder([]), 1)

    async with app:
        for task, way in ((plain, "use ctx.sync"), (fine, "await the method")):
            job = await ended(app, clock, task)
            assert job.failure is not None
            assert (job.state, job.failure.type) == (State.DEAD, "BadInput")
            assert way in job.failure.message


async def test_a_plain_function_that_waits_for_its_checkpoint_can_be_cancelled(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = asyncio.Event()

    async def keep(self: RunReports, checkpoint: Checkpoint) -> bool:
        return await never.wait()

    monkeypatch.setattr(RunReports, "keep", keep)

    @app.task(max_retries=0)
    def work(ctx: Context) -> None:
        ctx.sync.step(adder([]), 1)

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=30)
        assert (await app.jobs.get(handle.id)).state is State.CANCELLED


# sleep


async def test_a_sleep_ends_the_run_and_goes_on_at_its_instant(app: Mainspring, clock: VirtualClock) -> None:
    woken, cleaned = list[datetime](), Calls()

    @app.task(max_retries=0, timeout=60)
    async def work(ctx: Context) -> str:
        try:
            await ctx.step(adder([]), 1)
            await ctx.sleep(minutes=2)
            woken.append(clock.now())
            await ctx.sleep("20s")
            return "done"
        finally:
            cleaned.append(ctx.resumed)

    async with app:
        start = clock.now()
        handle = await work.enqueue()
        async with app.worker() as worker:
            await clock.elapse(seconds=30)
            job = await app.jobs.get(handle.id)
            assert (job.state, job.run_at, len(worker.running)) == (State.PENDING, start + timedelta(minutes=2), 0)
            await clock.elapse(seconds=200)
        job = await app.jobs.get(handle.id)
        endings = [run.ending for run in await app.executions.list(job_id=handle.id)]
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, '"done"', 1)
    assert endings == [Ending.SUSPENDED, Ending.SUSPENDED, Ending.COMPLETED]
    assert woken[0] == start + timedelta(minutes=2)
    assert cleaned == [False, True, True]


async def test_drain_goes_on_behind_a_sleep_whose_time_has_come(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work(ctx: Context) -> str:
        await ctx.sleep(minutes=2)
        return "awake"

    handle = await work.enqueue()
    await app.drain()
    clock.advance(minutes=2)
    async with asyncio.timeout(10):
        await app.drain()
    assert await handle.result(timeout=0) == "awake"


async def test_a_sleep_over_a_restart_ends_at_the_first_instant(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        await ctx.sleep(minutes=2)

    async with app:
        start = clock.now()
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
        await clock.elapse(minutes=1)
        async with app.worker():
            await clock.elapse(seconds=45)
            assert (await app.jobs.get(handle.id)).state is State.PENDING
            await clock.elapse(seconds=30)
        job = await app.jobs.get(handle.id)
    assert job.state is State.COMPLETED
    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - start - timedelta(minutes=2) < timedelta(seconds=5)


async def test_a_short_sleep_keeps_its_run(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        await ctx.sleep(0.9)

    async with app:
        job = await ended(app, clock, work)
        assert (job.state, job.runs, await checkpoints(app, job)) == (State.COMPLETED, 1, [])


@pytest.mark.parametrize("how", ["gather", "group"])
async def test_a_sleep_beside_steps_waits_for_them(app: Mainspring, clock: VirtualClock, how: str) -> None:
    calls = Calls()

    async def slow(n: int) -> int:
        await clock.sleep(20)
        calls.append(n)
        return n

    @app.task(max_retries=0)
    async def work(ctx: Context) -> list[int]:
        async def chain() -> list[int]:
            return [await ctx.step(slow, n) for n in range(3)]

        if how == "gather":
            return (await asyncio.gather(ctx.sleep(minutes=2), chain()))[1]
        async with asyncio.TaskGroup() as group:
            group.create_task(nap(ctx))
            found = group.create_task(chain())
        return found.result()

    async def nap(ctx: Context) -> None:
        await ctx.sleep(minutes=2)

    async with app:
        job = await ended(app, clock, work, seconds=200)
    assert (job.state, job.result, job.runs, calls) == (State.COMPLETED, "[0,1,2]", 2, [0, 1, 2])


async def test_a_task_that_catches_everything_is_suspended_all_the_same(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> str:
        try:
            await ctx.sleep(minutes=2)
        except BaseException:
            return "too early"
        return "in time"

    async with app:
        job = await ended(app, clock, work, seconds=200)
    assert (job.state, job.result, job.runs) == (State.COMPLETED, '"in time"', 2)


async def test_an_expiry_does_not_end_a_job_that_sleeps(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0, expires="1m")
    async def work(ctx: Context) -> None:
        await ctx.sleep(minutes=2)

    async with app:
        job = await ended(app, clock, work, seconds=200)
    assert job.state is State.COMPLETED


async def test_a_sleeping_job_can_be_cancelled(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        await ctx.sleep(minutes=2)

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            await app.jobs.cancel(handle.id)
            await clock.elapse(seconds=200)
        assert (await app.jobs.get(handle.id)).state is State.CANCELLED
