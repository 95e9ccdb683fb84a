"""Maps in a worker: a job for each item, in order, however many there are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from flow_kit import STORES, ended, states

from mainspring import Filter, Mainspring, Results, Skip, State
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.worker import item_pages


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


async def test_map_keeps_order_and_retries_only_the_failed_item(app: Mainspring, clock: VirtualClock) -> None:
    runs: list[int] = []

    @app.task(max_retries=3)
    async def double(n: int, times: int) -> int:
        runs.append(n)
        if n == 2 and runs.count(2) < 3:
            raise ValueError("not yet")
        return n * times

    @app.flow
    def doubled(numbers: list[int]) -> list[int]:
        return double.map(numbers, 10)

    async with app:
        run = await doubled.enqueue([3, 2, 1])
        job = await ended(app, clock, run)
        assert job.state is State.COMPLETED
        assert await run.result(timeout=1) == [30, 20, 10]
        assert sorted(runs) == [1, 2, 2, 2, 3]


async def test_map_over_an_empty_list_ends_at_once_with_an_empty_list(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    @app.task
    async def total(numbers: list[int], more: Results[int]) -> int:
        return sum(numbers) + sum([n async for n in more])

    @app.task
    async def none() -> list[int]:
        return []

    @app.flow
    def empty() -> int:
        return total.step(double.map([]), double.map(none.step()))

    async with app:
        run = await empty.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == 0


async def test_map_over_a_value_that_is_no_list_is_dead_without_a_retry(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def make(large: bool) -> Any:
        return {"text": "x" * 10_000} if large else 5

    @app.task
    async def double(n: Any) -> Any:
        return n

    @app.flow
    def wrong(large: bool) -> Any:
        return double.map(make.step(large))

    async with app:
        small, large = await wrong.enqueue(False), await wrong.enqueue(True)
        await ended(app, clock, small)
        for run, reason in ((small, "BadItems: a map needs a list, and got 5"), (large, "Discard: a map needs a list")):
            job = await run.job()
            assert job.state is State.DEAD
            assert job.failure is not None
            assert reason in job.failure.message
            assert await states(app, run) == {"make": "completed", "double": "dead"}


async def test_map_over_null_is_skipped_whether_it_is_small_or_made_by_a_job(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def make() -> dict[str, Any]:
        return {"items": None, "rest": "x" * 10_000}

    @app.task
    async def nothing() -> list[int] | None:
        return None

    @app.task
    async def double(n: int) -> int:
        return n

    @app.task
    async def total(numbers: list[int] | None, other: list[int] | None, made: dict[str, Any]) -> str:
        return f"{numbers} {other}"

    @app.flow
    def absent() -> str:
        made = make.step()
        return total.step(double.map(made["items"]), double.map(nothing.step()), made)

    async with app:
        run = await absent.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == "None None"
        steps = {step.name: step.skipped_because for step in await app.flows.steps(run.id)}
        assert (steps["double"], steps["double-2"]) == ("absent", "absent")


async def test_map_of_3000_items_goes_through_a_job_that_makes_them(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    @app.task
    async def pages(parts: Results[int]) -> list[int]:
        return [value async for value in parts]

    @app.task
    def plain(parts: Results[int]) -> int:
        return sum(index * value for index, value in parts.items())

    @app.task
    async def whole(parts: list[int]) -> int:
        return len(parts)

    @app.flow
    def many(count: int) -> list[Any]:
        parts = double.map(list(range(count)))
        return [pages.step(parts), plain.step(parts), whole.step(parts)]

    async with app:
        run = await many.enqueue(3000)
        async with app.worker(concurrency=200):
            await clock.elapse(minutes=10)
        job = await run.job()
        assert job.state is State.COMPLETED, job.failure
        listed, summed, count = await run.result(timeout=1)
        assert listed == [2 * n for n in range(3000)]
        assert (summed, count) == (sum(2 * n * n for n in range(3000)), 3000)
        (found,) = await app._engine._root.flows([run.id])  # type: ignore[attr-defined]
        assert found.row.counts[0].made == 3000


async def test_killed_fan_out_job_makes_each_item_once(clock: VirtualClock, url: str) -> None:
    app, faults = Mainspring(url, clock=clock), Faults()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    ran: list[int] = []

    @app.task
    async def note(n: int) -> int:
        ran.append(n)
        return n

    @app.flow
    def many() -> list[int]:
        return note.map(list(range(2500)))

    async with app:
        run = await many.enqueue()
        # The second page is stored, and the reply is lost; the run fails, and is made again.
        faults.fail("enqueue", after=1, moment="after", error=lambda: RuntimeError("killed"))
        async with app.worker(concurrency=200):
            await clock.elapse(minutes=10)
        assert (await run.job()).state is State.COMPLETED
        assert sorted(ran) == list(range(2500))
        (made,) = await app.jobs.list(Filter(tasks=("mainspring.fan_out",)))
        assert made.runs == 2


async def test_fan_out_waits_while_too_many_items_are_unfinished(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_pages, "MAX_UNFINISHED_ITEMS", 500)
    monkeypatch.setattr(item_pages, "PAGE_ITEMS", 250)
    most: list[int] = []

    @app.task
    async def slow(n: int) -> int:
        await clock.sleep(1)
        most.append(sum((await app.jobs.filtered_counts(Filter(tasks=("slow",)))).counts.values()) if n == 400 else 0)
        return n

    @app.flow
    def many() -> list[int]:
        return slow.map(list(range(1200)))

    async with app:
        run = await many.enqueue()
        async with app.worker(concurrency=100):
            await clock.elapse(minutes=5)
        assert (await run.job()).state is State.COMPLETED
        assert await run.result(timeout=1) == list(range(1200))
        (made,) = await app.jobs.list(Filter(tasks=("mainspring.fan_out",)))
        assert made.runs > 2


async def test_failed_ratio_lets_some_items_be_dead(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def flaky(n: int, bad: int) -> int:
        if n < bad:
            raise ValueError(f"item {n}")
        return n

    @app.task
    async def report(parts: Results[int]) -> list[Any]:
        failures = [(index, failure.message) async for index, failure in parts.failures()]
        return [len([value async for value in parts]), failures[:2]]

    @app.flow
    def tolerant(bad: int) -> Any:
        return report.step(flaky.using(failed_ratio=0.1).map(list(range(100)), bad))

    async with app:
        nine, eleven = await tolerant.enqueue(9), await tolerant.enqueue(11)
        await ended(app, clock, nine)
        assert await nine.result(timeout=1) == [91, [[0, "item 0"], [1, "item 1"]]]
        job = await eleven.job()
        assert job.state is State.DEAD
        assert job.failure is not None
        assert "flaky (11 of 100 items, first item 0: ValueError: item 0, job " in job.failure.message


async def test_item_that_raises_skip_has_no_value(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def even(n: int) -> int:
        if n % 2:
            raise Skip("odd")
        return n

    @app.flow
    def evens() -> list[int]:
        return even.map(list(range(6)))

    async with app:
        run = await evens.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == [0, 2, 4]


async def test_results_that_exceed_the_limit_kill_the_step_with_the_way_out(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.worker.flow_runs.MAX_LOADED_BYTES", 10_000)

    @app.task
    async def make(n: int) -> str:
        return "x" * 200

    @app.task
    async def join(parts: list[str]) -> int:
        return len(parts)

    @app.flow
    def heavy() -> int:
        return join.step(make.map(list(range(100))))

    async with app:
        run = await heavy.enqueue()
        await ended(app, clock, run)
        (job,) = await app.jobs.list(Filter(tasks=("join",)))
        assert (job.state, job.runs) == (State.DEAD, 1)
        assert job.failure is not None
        assert "take the results of a map as Results[…]" in job.failure.message


async def test_map_of_flows_and_map_of_a_map(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    @app.flow
    def one(n: int) -> int:
        return double.step(double.step(n))

    @app.flow
    def outer() -> list[int]:
        return double.map(one.map([1, 2, 3]))

    async with app:
        run = await outer.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == [8, 16, 24]


async def test_items_of_a_map_are_listed_in_pages(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    @app.flow
    def doubled() -> list[int]:
        return double.map(list(range(25)))

    async with app:
        run = await doubled.enqueue()
        await ended(app, clock, run)
        page = await app.flows.items(run.id, "double", after=9, limit=10)
        assert [job.result for job in page] == [str(2 * n) for n in range(10, 20)]
