"""Items of a run: they are counted with it, and too many failed items fail the run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import BadInput, Context, Items, Mainspring, State
from mainspring.testing import VirtualClock


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        (Items(), "success"),
        (Items(success=10), "success"),
        (Items(skipped=10), "success"),
        (Items(success=9, failed=1), "partial"),
        (Items(success=5, failed=5), "partial"),
        (Items(success=49, failed=51), "failed"),
        (Items(failed=1), "failed"),
        (Items(failed=5, skipped=5), "partial"),
    ],
)
def test_items_fail_above_half_and_no_items_are_a_success(items: Items, verdict: str) -> None:
    assert items.verdict() == verdict


@pytest.mark.parametrize(
    ("ratio", "failed", "verdict"),
    [(0, 0, "success"), (0, 1, "failed"), (0.1, 10, "partial"), (0.1, 11, "failed"), (1, 100, "partial")],
)
def test_failed_ratio_decides_how_many_items_may_fail(ratio: float, failed: int, verdict: str) -> None:
    assert Items(success=100 - failed, failed=failed).verdict(ratio) == verdict


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ((0, 0, 0), State.COMPLETED),
        ((5, 5, 0), State.COMPLETED),
        ((4, 5, 0), State.DEAD),
        ((0, 5, 5), State.COMPLETED),
        ((0, 1, 0), State.DEAD),
    ],
)
async def test_failed_items_decide_the_outcome_of_a_run_and_are_kept(
    app: Mainspring, counts: tuple[int, int, int], state: State
) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context, success: int, failed: int, skipped: int) -> str:
        for _ in range(success):
            ctx.items(success=1)
        ctx.items(failed=failed, skipped=skipped)
        return "done"

    async with app:
        handle = await work.enqueue(*counts)
        await app.drain()
        job = await handle.job()
        (run,) = await app.executions.list(job_id=handle.id)
    assert job.state is state
    assert run.items == Items(*counts)
    if state is State.DEAD:
        assert job.failure is not None
        total = sum(counts)
        assert (job.failure.type, job.failure.message) == (
            "ItemsFailed",
            f"{counts[1]} of {total} items failed; up to 50% may",
        )


@pytest.mark.parametrize(("ratio", "state"), [(0, State.DEAD), (0.2, State.COMPLETED), (1, State.COMPLETED)])
async def test_a_task_may_have_its_own_failed_ratio(app: Mainspring, ratio: float, state: State) -> None:
    @app.task(max_retries=0, failed_ratio=ratio)
    def work(ctx: Context) -> None:
        ctx.items(success=8, failed=2)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert (await handle.job()).state is state


async def test_too_many_failed_items_are_retried_as_any_failure_is(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=2)
    async def work(ctx: Context) -> int:
        ctx.items(success=ctx.attempt, failed=2)
        return ctx.attempt

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=20)
        runs = await app.executions.list(job_id=handle.id)
        assert await handle.result(0) == 2
    assert [run.items for run in runs] == [Items(1, 2), Items(2, 2)]


async def test_a_run_that_raises_keeps_its_items_too(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ctx.items(success=3, skipped=1)
        raise ValueError

    async with app:
        handle = await work.enqueue()
        await app.drain()
        (run,) = await app.executions.list(job_id=handle.id)
    assert run.items == Items(3, 0, 1)
    assert run.failure is not None
    assert run.failure.type == "ValueError"


async def test_a_run_without_a_count_has_no_items(app: Mainspring) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        ctx.log.info("busy with something else")

    async with app:
        handle = await work.enqueue()
        await app.drain()
        (run,) = await app.executions.list(job_id=handle.id)
    assert (run.items, run.metadata) == (None, {})


@pytest.mark.parametrize("count", [-1, 0.5, "many", True, None, 2**63], ids=repr)
async def test_item_counts_that_are_no_whole_numbers_are_refused(app: Mainspring, count: Any) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ctx.items(failed=count)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        job = await handle.job()
    assert job.failure is not None
    assert job.failure.message.startswith("ctx.items() takes whole numbers of 0 or more, got ")


@pytest.mark.parametrize("ratio", [-0.1, 1.1, True, "half", float("nan")])
def test_a_failed_ratio_outside_of_0_to_1_is_refused(app: Mainspring, ratio: Any) -> None:
    with pytest.raises(BadInput, match="option failed_ratio of task 'work': takes a share from 0 to 1"):

        @app.task(failed_ratio=ratio)
        async def work() -> None: ...


# notes


async def test_notes_are_kept_with_the_execution_as_json(app: Mainspring) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        ctx.note(host="a", rows=1)
        ctx.note(rows=2, at=datetime(2030, 1, 1, tzinfo=UTC), nested={"list": (1, 2)})

    async with app:
        handle = await work.enqueue()
        await app.drain()
        (run,) = await app.executions.list(job_id=handle.id)
    assert run.metadata == {"host": "a", "rows": 2, "at": "2030-01-01T00:00:00Z", "nested": {"list": [1, 2]}}


@pytest.mark.parametrize(
    "value", [object(), float("nan"), 2**64, "\x00", "\ud800", "x" * 70_000], ids=lambda value: repr(value)[:12]
)
async def test_a_note_that_cannot_be_stored_fails_the_run_and_not_the_worker(app: Mainspring, value: Any) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ctx.note(kept=1)
        ctx.note(bad=value)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        (run,) = await app.executions.list(job_id=handle.id)
        job = await handle.job()
    assert (job.state, run.metadata) == (State.DEAD, {"kept": 1})
