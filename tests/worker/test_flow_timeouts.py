"""Timeouts of whole flows: a flow that is not over at its deadline is stopped, and dead."""

from __future__ import annotations

import pytest
from flow_kit import ended, states

from mainspring import Filter, FlowFailed, FlowFailure, Mainspring, State
from mainspring.records.flow import FLOW_DEADLINE
from mainspring.testing import Faults, FaultStore, VirtualClock


async def test_flow_that_is_not_over_in_time_is_stopped_and_dead(app: Mainspring, clock: VirtualClock) -> None:
    heard: list[FlowFailure] = []

    @app.task
    async def alert(failure: FlowFailure) -> None:
        heard.append(failure)

    @app.task
    async def wait() -> None:
        await clock.sleep(3600)

    @app.task
    async def tidy() -> None: ...

    @app.flow(timeout="1m", on_failure=alert)
    def slow() -> None:
        first = wait.step()
        last = tidy.using(after=first, step="last").step()
        tidy.using(after=last, on="end").step()

    async with app:
        run = await slow.enqueue()
        async with app.worker():
            await clock.elapse(seconds=30)
            view = await app.flows.get(run.id)
            assert view.deadline is not None
            assert (view.deadline - view.began_at).total_seconds() == 60
            await clock.elapse(minutes=2)
        job = await run.job()
        assert (job.state, job.cancel_reason) == (State.DEAD, None)
        assert job.failure is not None
        assert job.failure.line == "FlowTimeout: it took longer than its timeout of 60 s; cancelled: wait, last"
        assert await states(app, run) == {"wait": "cancelled", "last": "cancelled", "tidy": "completed"}
        with pytest.raises(FlowFailed, match="FlowTimeout: it took longer"):
            await run.result(timeout=1)
        assert [failure.failure.line for failure in heard] == [job.failure.line]
        assert [dead.id for dead in await app.dead.list()] == [run.id]
        assert (await app.flows.get(run.id)).deadline is None


async def test_flow_that_is_being_stopped_at_its_deadline_says_why(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def tidy(text: str | None = None) -> None:
        await clock.sleep(200)

    @app.flow(timeout=60)
    def slow() -> None:
        tidy.using(on="end", after=tidy.using(step="first", delay=3600).step(), step="tidy").step()

    async with app:
        run = await slow.enqueue()
        async with app.worker():
            await clock.elapse(minutes=3)
            texts = [reason.text for reason in await app.flows.why(run.id)]
            assert texts[0] == "it took longer than its timeout of 60 s, and ends when its steps have ended"
            assert texts[1].startswith("waits for tidy: it has been running on")
            await clock.elapse(minutes=10)
        assert (await run.job()).state is State.DEAD


async def test_flow_that_is_over_in_time_leaves_no_job_behind(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> int:
        return 1

    @app.flow(timeout=60)
    def quick() -> int:
        return work.step()

    async with app:
        run = await quick.enqueue()
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert not list(await app.jobs.list(Filter(tasks=(FLOW_DEADLINE,))))


async def test_timeout_of_a_flow_is_not_that_of_the_run_that_plans(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[float | None] = []

    async def note(ctx: object, call_next: object) -> object:
        seen.append(ctx.timeout)  # type: ignore[attr-defined]
        return await call_next(ctx)  # type: ignore[operator]

    app.middleware.append(note)  # type: ignore[arg-type]

    @app.flow(timeout=0.001)
    def nothing() -> None: ...

    @app.flow(timeout=60)
    def other() -> None: ...

    async with app:
        runs = [await nothing.enqueue(), await other.using(timeout=5).enqueue()]
        async with app.worker():
            await clock.elapse(minutes=1)
        assert [(await run.job()).state for run in runs] == [State.COMPLETED] * 2
        assert seen == [app.settings.default_timeout] * 2


async def test_retried_flow_has_the_whole_timeout_again(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> int:
        await clock.sleep(80)
        return 1

    @app.flow(timeout=60)
    def flow() -> int:
        return work.step()

    async with app:
        run = await flow.enqueue()
        async with app.worker():
            await clock.elapse(minutes=2)
            assert (await run.job()).state is State.DEAD
            await app.flows.retry(run.id)
            await clock.elapse(seconds=30)
            assert (await run.job()).state is State.WAITING
            await clock.elapse(minutes=2)
        assert (await run.job()).state is State.DEAD
        assert await states(app, run) == {"work": "cancelled"}


async def test_timeout_is_given_by_the_call_the_step_or_the_plan(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> int:
        await clock.sleep(200)
        return 1

    @app.flow
    def inner() -> int:
        return work.step()

    @app.flow
    def outer() -> int:
        return inner.using(timeout=60, max_retries=0).step()

    async with app:
        plan = app.plan("built", timeout=60)
        plan.step(work)
        runs = [await inner.using(timeout=60).enqueue(), await outer.enqueue(), await plan.enqueue()]
        well = await inner.enqueue()
        async with app.worker():
            await clock.elapse(minutes=10)
        jobs = [await run.job() for run in runs]
        kinds = [job.failure.type for job in jobs if job.failure is not None]
        assert kinds == ["FlowTimeout", "FlowFailed", "FlowTimeout"]
        assert (await well.job()).state is State.COMPLETED


async def test_deadline_whose_reply_is_lost_stops_the_flow_once(app: Mainspring, clock: VirtualClock) -> None:
    faults = Faults()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]

    @app.task
    async def work() -> None:
        await clock.sleep(3600)

    @app.flow(timeout=60)
    def flow() -> None:
        work.step()

    async with app:
        run = await flow.enqueue()
        faults.fail("change_flow", moment="after")
        async with app.worker():
            await clock.elapse(minutes=10)
        assert (await run.job()).state is State.DEAD
        assert len(faults.injected) == 1


async def test_ten_days_of_a_timeout_pass_at_once_in_a_test() -> None:
    app = Mainspring("memory://")

    @app.task
    async def work() -> None: ...

    @app.flow(timeout="10d")
    def flow() -> None:
        work.using(delay="30d").step()

    async with app.testing(raises=False) as jobs:
        run = await flow.enqueue()
        await jobs.advance(days=9)
        assert await jobs.steps(run) == {"work": "scheduled"}
        await jobs.advance(days=2)
        job = await run.job()
        assert (job.state, job.failure and job.failure.type) == (State.DEAD, "FlowTimeout")
