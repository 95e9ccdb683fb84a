"""`jobs.faults.crash_at()`: the worker of a test dies at a durable step, and another one goes on."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mainspring import BadInput, Context, Mainspring, State
from mainspring.events import JobEnded, JobLost
from mainspring.records.run import Ending
from mainspring.task.task import Task

Done = Counter[str]


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://", lease=20, max_crashes=5)


@pytest.fixture
def done() -> Done:
    return Counter()


@pytest.fixture
def pay(app: Mainspring, done: Done) -> Task[[int], int]:
    def take(name: str, n: int) -> int:
        done[name] += 1
        return n

    @app.task(max_retries=0)
    async def pay(ctx: Context, n: int) -> int:
        try:
            total = await ctx.step(take, "reserve", n, name="reserve")
            total += await ctx.step(take, "charge", n, name="charge")
            done["behind charge"] += 1
            await ctx.sleep(minutes=5)
            return total + await ctx.step(take, "send", n, name="send")
        finally:
            done["finally"] += 1

    return pay


async def test_the_worker_dies_behind_the_step_and_another_goes_on_there(
    app: Mainspring, pay: Task[[int], int], done: Done
) -> None:
    async with app.testing() as jobs:
        with jobs.faults.crash_at("charge"):
            run = await pay.enqueue(1)
            await jobs.advance(seconds=19)
            assert (await run.job()).state is State.RUNNING
            assert done == {"reserve": 1, "charge": 1}  # and no `finally`
            ran = await jobs.advance(seconds=1)
        assert [job.state for job in ran] == [State.PENDING]  # the rescue is no end of a run; it sleeps
        await jobs.advance(minutes=5)
        assert await run.result() == 3
        endings = [one.ending for one in await app.executions.list(job_id=run.id)]
    assert sorted(endings) == sorted([Ending.CRASHED, Ending.SUSPENDED, Ending.COMPLETED])
    assert done == {"reserve": 1, "charge": 1, "behind charge": 2, "send": 1, "finally": 2}


async def test_a_step_runs_again_if_the_worker_dies_before_it_is_stored(
    app: Mainspring, pay: Task[[int], int], done: Done
) -> None:
    async with app.testing() as jobs:
        with jobs.faults.crash_at("charge", stored=False):
            run = await pay.enqueue(1)
            await jobs.advance(minutes=1)
        await jobs.advance(minutes=5)
        assert await run.result() == 3
    assert done == {"reserve": 1, "charge": 2, "behind charge": 2, "send": 1, "finally": 2}


async def test_workers_die_one_after_the_other(app: Mainspring, pay: Task[[int], int], done: Done) -> None:
    async with app.testing() as jobs:
        crash_at = jobs.faults.crash_at
        with crash_at("reserve"), crash_at("charge"), crash_at("sleep"), crash_at("send"):
            run = await pay.enqueue(1)
            await jobs.advance(minutes=10)
        assert await run.result() == 3
    assert {name: done[name] for name in ("reserve", "charge", "send")} == {"reserve": 1, "charge": 1, "send": 1}
    assert done["finally"] == 2  # at the end of the sleep, and at that of the job


async def test_plain_functions_and_steps_beside_others_die_too(app: Mainspring, done: Done) -> None:
    def take(name: str) -> str:
        done[name] += 1
        return name

    async def take_late(name: str) -> str:
        await asyncio.sleep(0)
        return take(name)

    @app.task
    def plain(ctx: Context) -> str:
        try:
            return ctx.sync.step(take, "a", name="a") + ctx.sync.step(take, "b", name="b")
        finally:
            done["finally"] += 1

    @app.task
    async def beside(ctx: Context) -> list[str]:
        return await asyncio.gather(*(ctx.step(take_late, str(n)) for n in range(5)))

    async with app.testing() as jobs:
        with jobs.faults.crash_at("a"), jobs.faults.crash_at("take_late#3"):
            runs = [await plain.enqueue(), await beside.enqueue()]
            await jobs.advance(minutes=2)
        assert [await run.result() for run in runs] == ["ab", ["0", "1", "2", "3", "4"]]
    assert (done["a"], done["b"], done["finally"]) == (1, 1, 1)


async def test_other_jobs_run_before_the_rescue_and_drain_leaves_it_to_advance(
    app: Mainspring, pay: Task[[int], int], done: Done
) -> None:
    async with app.testing() as jobs:
        with jobs.faults.crash_at("charge"):
            first, other = await pay.enqueue(1), await pay.enqueue(2)
            ran = await jobs.drain()
        assert [job.id for job in ran] == [other.id]
        assert [(await run.job()).state for run in (first, other)] == [State.RUNNING, State.PENDING]
        await jobs.advance(minutes=6)
        assert [await run.result() for run in (first, other)] == [3, 6]


def test_it_works_without_await(app: Mainspring, pay: Task[[int], int], done: Done) -> None:
    with app.testing() as jobs:
        with jobs.faults.crash_at("charge"):
            run = pay.sync.enqueue(1)
            jobs.sync.advance(minutes=1)
        jobs.sync.advance(minutes=5)
        assert run.result() == 3
    assert done["charge"] == 1


async def test_a_dead_worker_tells_nothing(app: Mainspring, pay: Task[[int], int]) -> None:
    told = list[object]()
    app.on(JobLost)(told.append)
    app.on(JobEnded)(lambda event: told.append(event.outcome.ending))
    async with app.testing() as jobs:
        with jobs.faults.crash_at("charge"):
            await pay.enqueue(1)
            await jobs.drain()
            assert told == []
            await jobs.advance(minutes=1)
    assert told == [Ending.CRASHED, Ending.SUSPENDED]


async def test_a_crash_that_did_not_happen_is_an_error(app: Mainspring, pay: Task[[int], int]) -> None:
    async with app.testing() as jobs:
        await pay.enqueue(1)
        with pytest.raises(AssertionError, match="no worker has died at step 'chrage'"), jobs.faults.crash_at("chrage"):
            await jobs.drain()
        with pytest.raises(ZeroDivisionError), jobs.faults.crash_at("chrage"):
            raise ZeroDivisionError
        await jobs.advance(minutes=6)


async def test_it_is_refused_where_no_time_can_pass(app: Mainspring, pay: Task[[int], int]) -> None:
    @app.task
    async def nap() -> None:
        await app.clock.sleep(100)

    async with app.testing("inline") as jobs:
        with pytest.raises(BadInput, match="without 'inline'"), jobs.faults.crash_at("charge"):
            pass
    async with app.testing() as jobs:
        await nap.enqueue()
        await jobs.advance(seconds=1)
        with pytest.raises(BadInput, match="before it begins"), jobs.faults.crash_at("charge"):
            pass
