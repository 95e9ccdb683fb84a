"""The test kit for flows: app.testing() runs them to their ends, and shows their steps."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Literal

import pytest

from mainspring import Context, Mainspring, State, signal


def shop() -> Mainspring:
    app = Mainspring("memory://")

    @app.task(max_retries=1)
    async def charge(order: str, amount: int = 5) -> str:
        return f"{order}-{amount}"

    @app.task
    async def ship(txn: str) -> str:
        return txn

    @app.flow
    def fulfil(order: str, days: int = 0) -> str:
        return ship.using(delay=days * 86_400).step(charge.step(order))

    return app


async def test_drain_runs_a_flow_to_its_end() -> None:
    app = shop()
    async with app.testing() as jobs:
        run = await app.tasks["fulfil"].enqueue("a")
        await jobs.drain()
        assert await run.result() == "a-5"
        assert await jobs.steps(run) == {"charge": "completed", "ship": "completed"}


async def test_delay_of_three_days_is_milliseconds_in_advance() -> None:
    app, began = shop(), time.monotonic()
    async with app.testing() as jobs:
        run = await app.tasks["fulfil"].enqueue("a", days=3)
        await jobs.advance(days=2)
        assert await jobs.steps(run) == {"charge": "completed", "ship": "scheduled"}
        await jobs.advance(days=1)
        assert (await run.job()).state is State.COMPLETED
        assert (await run.job()).finished_at == jobs.clock.now()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("mode", ["manual", "inline"])
async def test_items_that_a_task_yields_run_in_the_kit(mode: Literal["manual", "inline"]) -> None:
    app = Mainspring("memory://")

    @app.task
    async def lines(ctx: Context, count: int) -> AsyncIterator[int]:
        for n in range(ctx.made, count):
            yield n

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.flow
    def load(count: int) -> list[int]:
        return double.map(lines.step(count))

    async with app.testing(mode) as jobs:
        run = await load.enqueue(300)
        await jobs.drain()
        assert await run.result() == [2 * n for n in range(300)]
        assert jobs.assert_step(run, "lines", 300).result == "300"
        assert jobs.plan(load, 1).steps[0].yields


async def test_plan_is_shown_and_nothing_is_stored() -> None:
    app = shop()
    async with app.testing() as jobs:
        plan = jobs.plan(app.tasks["fulfil"], "a")
        assert [step.name for step in plan.steps] == ["charge", "ship"]
        assert jobs.enqueued == []


async def test_assert_step_compares_the_arguments_of_a_step() -> None:
    app = shop()
    async with app.testing() as jobs:
        run = await app.tasks["fulfil"].enqueue("a", days=1)
        await jobs.drain()
        assert jobs.assert_step(run, "charge", "a").state is State.COMPLETED
        assert jobs.assert_step(run, "ship", "a-5").task == "ship"
        with pytest.raises(AssertionError, match="step 'charge' is no job charge"):
            jobs.assert_step(run, "charge", "b")


async def test_assert_step_says_what_a_step_without_a_job_waits_for() -> None:
    app = shop()
    async with app.testing() as jobs:
        run = await app.tasks["fulfil"].enqueue("a")
        await jobs.process_one()
        with pytest.raises(AssertionError, match="step 'ship' has no job: it is waiting"):
            jobs.assert_step(run, "ship")


async def test_assert_step_says_which_steps_there_are_and_where_items_are() -> None:
    app = Mainspring("memory://")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.flow
    def both() -> None:
        double.map([1, 2])
        double.using(step="last").step(3)

    async with app.testing() as jobs:
        run = await both.enqueue()
        await jobs.drain()
        with pytest.raises(AssertionError, match=r"the flow has no step 'lost' \(it has 'double', 'last'\)"):
            jobs.assert_step(run, "lost")
        with pytest.raises(AssertionError, match=r"step 'double' is a map: its items are jobs, see app.flows.items"):
            jobs.assert_step(run, "double", 1)


def test_steps_are_read_by_a_handle_of_sync() -> None:
    app = shop()
    with app.testing() as jobs:
        run = app.tasks["fulfil"].sync.enqueue("a")
        jobs.sync.drain()
        assert jobs.sync.steps(run) == {"charge": "completed", "ship": "completed"}


async def test_signals_and_days_pass_at_once() -> None:
    app = Mainspring("memory://")

    @app.flow
    def ask() -> str:
        return signal("go", str, timeout="3d", default="nobody")

    async with app.testing() as jobs:
        run, late = await app.tasks["ask"].enqueue(), await app.tasks["ask"].enqueue()
        await jobs.drain()
        assert await jobs.steps(run) == {"go": "waiting"}
        await jobs.signal(run, "go", "ada")
        await jobs.drain()
        assert await run.result() == "ada"
        await jobs.advance(days=3)
        await jobs.drain()
        assert await late.result() == "nobody"
