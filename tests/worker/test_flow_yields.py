"""Tasks that yield the items of a map: page by page, bounded, each index exactly one job whatever crashes."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flow_kit import STORES, ended, states
from msgspec.structs import replace

from mainspring import (
    BadInput,
    BadTask,
    Context,
    Discard,
    Filter,
    Finish,
    Job,
    Mainspring,
    Results,
    Skip,
    State,
)
from mainspring.task.yields import NO_MAP_TAKES_ITEMS
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.worker import item_pages
from mainspring.worker.flow_reads import FlowReads, flow_store


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_pages, "PAGE_ITEMS", 10)
    monkeypatch.setattr(item_pages, "MAX_UNFINISHED_ITEMS", 100)


async def source_of(app: Mainspring, task: str = "rows") -> Job:
    (job,) = await app.jobs.list(Filter(tasks=(task,)))
    return job


@pytest.mark.parametrize("plain", [False, True])
async def test_what_a_task_yields_are_the_items_of_the_maps_over_it(
    app: Mainspring, clock: VirtualClock, plain: bool
) -> None:
    @app.task
    async def rows(count: int) -> AsyncIterator[int]:
        for n in range(count):
            yield n

    @app.task
    def lines(count: int) -> Iterator[int]:
        yield from range(count)

    @app.task
    async def double(n: int, times: int) -> int:
        return n * times

    @app.task
    async def total(parts: Results[int], more: list[int]) -> int:
        return sum([value async for value in parts]) - sum(more)

    @app.flow
    def load(count: int) -> int:
        source = (lines if plain else rows).step(count)
        return total.step(double.map(source, 3), double.map(source, 1))

    async with app:
        run, none = await load.enqueue(2500), await load.enqueue(0)
        async with app.worker(concurrency=200):
            await clock.elapse(minutes=10)
        assert await run.result(timeout=1) == 2 * sum(range(2500))
        assert await none.result(timeout=1) == 0
        view = await app.flows.get(run.id)
        assert [step.items.made for step in view.steps if step.items is not None] == [2500, 2500]
        jobs = await app.jobs.list(Filter(tasks=("lines" if plain else "rows",)))
        assert sorted(job.result or "" for job in jobs) == ["0", "2500"]


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_run_that_crashed_makes_each_item_once(
    clock: VirtualClock, url: str, told: bool, moment: Any, small_pages: None
) -> None:
    app, faults = Mainspring(url, clock=clock), Faults()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    ran: list[int] = []
    begun: list[int] = []

    @app.task
    async def rows(ctx: Context) -> AsyncIterator[int]:
        begun.append(first := ctx.made if told else 0)
        for n in range(first, 45):
            yield n

    @app.task
    async def note(n: int) -> int:
        ran.append(n)
        return n

    @app.flow
    def many() -> list[int]:
        return note.map(rows.step())

    async with app:
        run = await many.enqueue()
        # The third page is stored, or not, and its reply is lost.
        faults.fail("enqueue", after=2, moment=moment, error=lambda: RuntimeError("killed"))
        async with app.worker(concurrency=20):
            await clock.elapse(minutes=10)
        assert (await run.job()).state is State.COMPLETED
        assert await run.result(timeout=1) == list(range(45))
        assert sorted(ran) == list(range(45))
        assert begun == [0, (30 if moment == "after" else 20) if told else 0]


async def test_twelve_thousand_items_are_never_more_than_ten_thousand_jobs_to_claim(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished, row_bytes, reads = list[int](), list[int](), list[int]()
    read = FlowReads.items

    async def counted(self: FlowReads, flow: str, position: int, after: int, limit: int = 1000) -> Any:
        page = await read(self, flow, position, after, limit)
        reads.append(len(page))
        return page

    monkeypatch.setattr(FlowReads, "items", counted)

    @app.task
    async def rows(ctx: Context) -> AsyncIterator[int]:
        for n in range(ctx.made, 12_000):
            yield n

    @app.task
    async def score(n: int) -> int:
        if n % 100 == 0:
            (found,) = await flow_store(app._engine._root).flows([run.id])  # type: ignore[attr-defined]
            counts = found.row.counts[1]
            unfinished.append(counts.made - counts.ended)
            row_bytes.append(len(msgspec.json.encode(found.row)))
        return n

    @app.task
    async def total(parts: Results[int]) -> int:
        return sum([n async for n in parts])

    @app.flow
    def load() -> int:
        return total.step(score.map(rows.step()))

    async with app:
        run = await load.enqueue()
        async with app.worker(concurrency=500):
            await clock.elapse(minutes=10)
        assert await run.result(timeout=1) == sum(range(12_000))
        assert 5_000 < max(unfinished) <= 10_000
        assert max(row_bytes) < 4096
        assert max(reads) == 1000


@pytest.mark.parametrize("told", [True, False])
async def test_it_gives_its_slot_back_while_enough_items_are_unfinished(
    app: Mainspring, clock: VirtualClock, told: bool, small_pages: None
) -> None:
    unfinished: list[int] = []
    begun: list[int] = []

    @app.task(priority=5)  # it is claimed before the items that wait
    async def rows(ctx: Context) -> AsyncIterator[int]:
        begun.append(first := ctx.made if told else 0)
        for n in range(first, 500):
            yield n

    @app.task
    async def slow(n: int) -> int:
        await clock.sleep(0.1 if n < 150 else 5)  # so that it takes longer than before
        (run,) = await app.jobs.list(Filter(tasks=("many",)))
        counts = (await app.flows.get(run.id)).step("slow").items
        assert counts is not None
        unfinished.append(counts.made - counts.ended)
        return n

    @app.flow
    def many() -> list[int]:
        return slow.map(rows.step())

    async with app:
        run = await many.enqueue()
        async with app.worker(concurrency=10):
            await clock.elapse(minutes=5)
        assert await run.result(timeout=1) == list(range(500))
        assert 90 <= max(unfinished) <= 100
        # It is not called until half of them have ended, so that one that begins anew is not called for each page.
        assert len(begun) in range(8, 11)
        assert (await source_of(app)).attempt == 1


async def test_an_error_is_retried_behind_what_is_made_and_the_last_one_ends_the_map(
    app: Mainspring, clock: VirtualClock, small_pages: None
) -> None:
    begun: list[int] = []

    @app.task(max_retries=2)
    def rows(ctx: Context, fails: int) -> Iterator[int]:
        begun.append(ctx.made)
        for n in range(ctx.made, 100):
            if len(begun) <= fails and n == 20 * len(begun) + 5:
                raise OSError("the file is gone")
            yield n

    @app.task
    async def note(n: int) -> int:
        return n

    @app.flow
    def many(fails: int) -> list[int]:
        return note.map(rows.step(fails))

    async with app:
        run = await many.enqueue(2)
        await ended(app, clock, run)
        assert await run.result(timeout=1) == list(range(100))
        assert begun == [0, 20, 40]
        begun.clear()
        run = await many.enqueue(3)
        job = await ended(app, clock, run)
        assert job.state is State.DEAD
        assert job.failure is not None
        assert "rows (OSError: the file is gone" in job.failure.message
        assert await states(app, run) == {"rows": "dead", "note": "dead"}
        counts = (await app.flows.get(run.id)).step("note").items
        assert counts is not None
        assert (counts.made, counts.ended) == (60, 60)
        # An operator redrives the dead job: it goes on, and so does the map, behind what is made.
        await app.flows.retry(run.id)
        await ended(app, clock, run)
        assert await run.result(timeout=1) == list(range(100))
        assert begun == [0, 20, 40, 60]


async def test_it_waits_for_what_its_maps_need_and_runs_again_for_a_map_that_comes_later(
    app: Mainspring, clock: VirtualClock, small_pages: None
) -> None:
    order: list[str] = []
    broken = [True]

    @app.task
    async def rows() -> AsyncIterator[int]:
        order.append("rows")
        for n in range(25):
            yield n

    @app.task(max_retries=0)
    async def factor() -> int:
        order.append("factor")
        if broken:
            raise ValueError("no factor")
        return 10

    @app.task
    async def times(n: int, by: int) -> int:
        order.append("item")
        return n * by

    @app.flow
    def both() -> list[list[int]]:
        source = rows.step()
        return [times.map(source, factor.step()), times.map(source, 1)]

    async with app:
        run = await both.enqueue()
        await ended(app, clock, run)
        assert order == ["factor", "rows", *["item"] * 25]
        assert await states(app, run) == {
            "factor": "dead", "rows": "completed", "times": "not_run", "times-2": "completed"
        }  # fmt: skip
        broken.clear()
        await app.flows.retry(run.id)
        await ended(app, clock, run)
        assert await run.result(timeout=1) == [[10 * n for n in range(25)], list(range(25))]
        assert order[27:] == ["factor", "rows", *["item"] * 25]


async def test_a_cancel_stops_it_and_what_it_made(app: Mainspring, clock: VirtualClock, small_pages: None) -> None:
    @app.task
    async def rows() -> AsyncIterator[int]:
        for n in range(1000):
            yield n
            await clock.sleep(0.05)

    @app.task
    async def slow(n: int) -> int:
        await clock.sleep(60)
        return n

    @app.flow
    def many() -> list[int]:
        return slow.map(rows.step())

    async with app:
        run = await many.enqueue()
        async with app.worker(concurrency=10):
            await clock.elapse(seconds=3)
            await app.flows.cancel(run.id, "no more")
            await clock.elapse(minutes=2)
        assert (await run.job()).state is State.CANCELLED
        assert await states(app, run) == {"rows": "cancelled", "slow": "cancelled"}
        counts = (await app.flows.get(run.id)).step("slow").items
        assert counts is not None
        assert 0 < counts.made == counts.ended < 1000


async def test_words_of_a_task_that_yields(app: Mainspring, clock: VirtualClock, small_pages: None) -> None:
    @app.task(max_retries=0)
    async def rows(what: str) -> AsyncIterator[Any]:
        if what == "none":
            raise Skip("no file")
        yield 1
        match what:
            case "skip":
                raise Skip("too late")
            case "finish":
                raise Finish("found")
            case "large":
                yield "x" * 2_000_000
            case "object":
                yield object()
            case "discard":
                raise Discard("broken")

    @app.task
    async def note(n: int) -> int:
        return n

    @app.flow
    def many(what: str) -> Any:
        return note.map(rows.step(what))

    words = ["none", "skip", "finish", "large", "object", "discard"]
    async with app:
        runs = {what: await many.enqueue(what) for what in words}
        await ended(app, clock, runs["none"])
        jobs = {what: await run.job() for what, run in runs.items()}
        assert (jobs["none"].state, await runs["none"].result(timeout=1)) == (State.COMPLETED, None)
        assert await states(app, runs["none"]) == {"rows": "skipped", "note": "skipped"}
        assert (jobs["finish"].state, await runs["finish"].result(timeout=1)) == (State.COMPLETED, "found")
        reasons = {
            "skip": "it raised Skip (too late) after it had yielded items: return instead",
            "large": "item 1 is 2,000,002 bytes, the limit is 1,048,576 (payload_limit)",
            "object": "item 1 cannot be sent",
            "discard": "Discard: broken",
        }
        for what, reason in reasons.items():
            job = jobs[what]
            assert job.state is State.DEAD
            assert job.failure is not None
            assert reason in job.failure.message


async def test_it_is_no_job_of_its_own_and_no_transaction(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def rows(ctx: Context) -> AsyncIterator[int]:
        async with ctx.transaction():
            yield 1

    @app.task(max_retries=0)
    async def plain(ctx: Context) -> int:
        return ctx.made

    @app.flow
    def many() -> Any:
        return app.tasks["mark"].map(rows.step())

    @app.task
    async def mark(n: int) -> int:
        return n

    with pytest.raises(BadInput, match="task 'rows' yields items, and no map takes them"):
        await rows.enqueue()
    with pytest.raises(BadTask, match="task 'halves' yields, which executor='process' cannot"):
        app.task(name="halves", executor="process")(_halves)
    async with app:
        with pytest.raises(BadInput, match="no map takes them"):
            await app.enqueue("rows")
        # As a process that does not have the code, or an older release, enqueues it.
        (by_name,) = await app.enqueue_many([replace(plain.job(), task="rows")])
        wrong, run = await plain.enqueue(), await many.enqueue()
        await ended(app, clock, run)
        reasons = [(await one.job()).failure for one in (by_name, wrong, run)]
        assert [reason is not None and reason.message for reason in reasons][:2] == [
            f"task 'rows' {NO_MAP_TAKES_ITEMS}",
            "ctx.made is for tasks that yield",
        ]
        assert reasons[2] is not None
        assert "ctx.transaction() is not for tasks that yield" in reasons[2].message


def _halves() -> Iterator[int]:
    yield 1
