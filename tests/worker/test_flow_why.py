"""Why a flow waits, and why steps were not run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from flow_kit import STORES, ended

from mainspring import BadInput, Mainspring
from mainspring.testing import VirtualClock


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


async def test_flow_that_waits_names_the_job_at_its_root(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=5)
    async def charge() -> int:
        raise ValueError("down")

    @app.task
    async def ship(n: int) -> int:
        return n

    @app.flow
    def pay() -> int:
        return ship.using(step="book").step(charge.step())

    @app.flow
    def fulfil() -> int:
        return ship.step(pay.step())

    async with app:
        run = await fulfil.enqueue()
        async with app.worker():
            await clock.elapse(seconds=2)
            (reason,) = await app.jobs.why(run.id)
            assert (reason.code, reason.cause) == ("waits_for_steps", "not_due")
            assert reason.text.startswith("waits for ship <- pay: waits for book <- charge: retrying, its next attempt")
            assert reason.until is not None
            assert len(reason.holders) == 1


async def test_flow_that_waits_for_a_map_says_how_far_it_is(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def item(n: int) -> int:
        if n:
            await clock.sleep(100)
        return n

    @app.task
    async def total(parts: list[int]) -> int:
        return sum(parts)

    @app.flow
    def many() -> int:
        return total.step(item.map([0, 1, 2]))

    async with app:
        run = await many.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            (reason,) = await app.flows.why(run.id)
            assert reason.text.startswith("waits for total <- item: 1 of 3 items have ended; the next one: it has been")
            await clock.elapse(minutes=5)


async def test_picture_of_a_flow_before_it_is_planned_and_of_a_job_that_is_none(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def one() -> int:
        return 1

    @app.flow
    def small() -> int:
        return one.step()

    async with app:
        run, plain = await small.enqueue(), await one.enqueue()
        with pytest.raises(BadInput, match="it was not planned yet"):
            await app.flows.get(run.id)
        with pytest.raises(BadInput, match="it is no flow"):
            await app.flows.get(plain.id)
        await ended(app, clock, run)
        view = await app.flows.get(run.id)
        assert (view.id, view.task, view.state) == (run.id, "small", "completed")
        (step,) = view.steps
        assert (step.name, step.task, step.state, step.attempts) == ("one", "one", "completed", 1)
        assert step.job_id is not None
        assert view.step("one") == step
        listed = await app.flows.list()
        assert [job.id for job in listed] == [run.id]


async def test_flow_made_with_a_builder_runs_without_a_function(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    async with app:
        plan = app.plan("import")
        plan.returns(plan.step(double, plan.step(double, 1)))
        run = await plan.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == 4
        assert (await app.flows.list())[0].id == run.id
