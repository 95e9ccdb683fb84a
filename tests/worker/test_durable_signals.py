"""Signals of durable tasks: a job waits for them in no slot, none is lost, and a timeout stays a timeout."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec import Struct

from mainspring import BadInput, Context, Handle, Mainspring, SignalLate, SignalTimeout, State
from mainspring.records.job import Job
from mainspring.testing import VirtualClock


class Call(Struct):
    by: str


async def work(app: Mainspring, clock: VirtualClock, run: Handle[Any], seconds: float = 60) -> Job:
    async with app.worker():
        await clock.elapse(seconds=seconds)
    return await run.job()


@pytest.mark.parametrize("when", ["before", "while it waits"])
async def test_a_signal_comes_as_its_type(app: Mainspring, clock: VirtualClock, when: str) -> None:
    runs = Counter[str]()

    @app.task
    async def onboard(ctx: Context) -> str:
        runs["begun"] += 1
        first = await ctx.step(note, 5)
        call = await ctx.signal("call", Call)
        again = await ctx.signal("call", Call)
        assert call == again
        return f"{first} {call.by}"

    def note(n: int) -> int:
        runs["note"] += 1
        return n

    async with app:
        run = await onboard.enqueue()
        if when == "while it waits":
            job = await work(app, clock, run)
            assert (job.state, job.attempt, job.lease) == (State.WAITING, 0, None)
            (reason,) = await app.jobs.why(run.id)
            assert (reason.code, reason.until) == ("waits_for_signal", None)
        await run.signal("call", Call("ada"))
        await work(app, clock, run)
        assert await run.result(timeout=0) == "5 ada"
        assert runs == {"note": 1, "begun": 1 if when == "before" else 2}
        with pytest.raises(SignalLate):
            await run.signal("more", 1)


async def test_a_timeout_stays_a_timeout(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[Any] = []

    @app.task(max_retries=1)
    async def onboard(ctx: Context) -> str | None:
        seen.append(await ctx.signal("call", Call, timeout="10m", default=None))
        with pytest.raises(SignalTimeout):
            await ctx.signal("call", Call, timeout="10m")
        if len(seen) == 1:
            raise ValueError("fails once")
        await ctx.sleep("5m")
        return "nobody called"

    async with app:
        run = await onboard.enqueue()
        assert (await work(app, clock, run, 540)).state is State.WAITING
        await work(app, clock, run, 120)
        with pytest.raises(SignalLate, match="its time was over"):
            await run.signal("call", Call("ada"))
        await work(app, clock, run, 400)
        assert await run.result(timeout=0) == "nobody called"
        assert seen == [None, None, None]


async def test_the_timeout_counts_from_the_first_wait(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def onboard(ctx: Context) -> list[Any]:
        return await asyncio.gather(
            ctx.signal("a", int, timeout="10m", default=0), ctx.signal("b", int, timeout="10m", default=0)
        )

    async with app:
        run = await onboard.enqueue()
        await work(app, clock, run, 300)
        await run.signal("b", 5)
        assert (await work(app, clock, run, 240)).state is State.WAITING
        await work(app, clock, run, 120)
        assert await run.result(timeout=0) == [0, 5]


async def test_a_sleep_beside_a_signal_ends_with_either(app: Mainspring, clock: VirtualClock) -> None:
    ends: list[str] = []

    async def nap(ctx: Context) -> None:
        await ctx.sleep("10m")
        ends.append("slept")

    async def listen(ctx: Context) -> None:
        ends.append(await ctx.signal("call", str))

    @app.task
    async def both(ctx: Context) -> None:
        await asyncio.gather(nap(ctx), listen(ctx))

    async with app:
        run = await both.enqueue()
        await work(app, clock, run, 60)
        await run.signal("call", "ada")
        assert (await work(app, clock, run, 60)).state is not State.COMPLETED
        assert ends == ["ada"]
        assert (await work(app, clock, run, 600)).state is State.COMPLETED
        assert sorted(ends) == ["ada", "ada", "slept"]


async def test_many_jobs_wait_beside_one_slot(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def wait(ctx: Context) -> int:
        return await ctx.signal("n", int)

    async with app:
        runs = [await wait.enqueue() for _ in range(20)]
        async with app.worker(concurrency=1):
            await clock.elapse(seconds=30)
            assert {(await run.job()).state for run in runs} == {State.WAITING}
            for n, run in enumerate(runs):
                await run.signal("n", n)
            await clock.elapse(seconds=30)
        assert [await run.result(timeout=0) for run in runs] == list(range(20))


async def test_a_waiting_job_is_cancelled_and_retried(app: Mainspring, clock: VirtualClock) -> None:
    cleaned: list[int] = []

    @app.task
    async def wait(ctx: Context) -> int:
        try:
            return await ctx.signal("n", int)
        except Exception:
            raise AssertionError("a suspension is no Exception") from None
        finally:
            cleaned.append(ctx.job.runs)

    async with app:
        run = await wait.enqueue()
        await work(app, clock, run)
        await app.jobs.cancel(run.id)
        assert (await run.job()).state is State.CANCELLED
        await app.jobs.retry(run.id)
        assert (await work(app, clock, run)).state is State.WAITING
        await run.signal("n", 7)
        await work(app, clock, run)
        assert (await run.result(timeout=0), cleaned) == (7, [1, 2, 3])


async def test_a_value_that_does_not_fit_ends_the_job(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=5)
    async def wait(ctx: Context) -> int:
        return await ctx.signal("n", int)

    async with app:
        run = await wait.enqueue()
        await run.signal("n", "seven")
        job = await work(app, clock, run)
        assert (job.state, job.runs) == (State.DEAD, 1)
        assert job.failure is not None
        assert "the value of signal 'n' does not fit" in job.failure.message


async def test_plain_functions_wait_for_signals(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    def wait(ctx: Context) -> int:
        return ctx.sync.signal("n", int) + ctx.sync.signal("m", int, timeout="5m", default=1)

    async with app:
        run = await wait.enqueue()
        assert (await work(app, clock, run)).state is State.WAITING
        await run.signal("n", 7)
        assert (await work(app, clock, run)).state is State.WAITING
        await work(app, clock, run, 400)
        assert await run.result(timeout=0) == 8


async def test_wrong_calls_are_refused(app: Mainspring, clock: VirtualClock) -> None:
    found: list[str] = []

    @app.task
    async def wait(ctx: Context) -> None:
        async def inside() -> None:
            await ctx.signal("n", int)

        for call in (
            lambda: ctx.signal("", int),
            lambda: ctx.signal("n", int, default=5),  # type: ignore[call-overload]
            lambda: ctx.signal("n", int, timeout=-1),
            lambda: ctx.step(inside),
        ):
            with pytest.raises(BadInput) as bad:
                await call()
            found.append(str(bad.value))

    async with app:
        run = await wait.enqueue()
        assert (await work(app, clock, run)).state is State.COMPLETED
    assert "a signal's name" in found[0]
    assert "it needs a timeout=" in found[1]
    assert "timeout=" in found[2]
    assert "inside of step 'inside'" in found[3]
