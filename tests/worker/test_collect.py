"""Tasks that collect the items of several calls in one job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadFlow, BadInput, BadPayload, BadTask, Collect, Context, Mainspring, State, every
from mainspring.testing import VirtualClock


@dataclass
class Update:
    account: str
    n: int


ITEMS = [Update("a", 1), Update("b", 2), Update("a", 3)]


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://")


def collecting(app: Mainspring, **options: Any) -> tuple[Any, list[list[int]]]:
    """A task that collects updates, and what its runs got."""
    ran = list[list[int]]()
    given = {"size": 3, "delay": 5, "grace": 1, "by": "account", **options}

    @app.task(collect=Collect(**given))
    async def sync(updates: list[Update]) -> int:
        ran.append([update.n for update in updates])
        return len(updates)

    return sync, ran


async def test_size_items_run_at_once_and_the_rest_waits(app: Mainspring) -> None:
    sync, ran = collecting(app)
    async with app.testing() as jobs:
        handles = [await sync.enqueue(Update("a", n)) for n in range(4)]
        assert [handle.status for handle in handles] == ["new", "collected", "collected", "new"]
        assert [handle.duplicate for handle in handles] == [False] * 4
        await jobs.drain()
        assert ran == [[0, 1, 2]]
        assert [await handle.result() for handle in handles[:3]] == [3, 3, 3]
        await jobs.advance(seconds=1)
        assert ran == [[0, 1, 2], [3]]


async def test_a_job_is_due_after_the_delay_or_the_grace(app: Mainspring) -> None:
    sync, ran = collecting(app, size=100)
    async with app.testing() as jobs:
        for n in range(8):
            await sync.enqueue(Update("a", n))
            await jobs.advance(seconds=0.75)
        assert ran == [[0, 1, 2, 3, 4, 5, 6]]  # five seconds after the first
        await jobs.advance(seconds=0.25)
        assert ran[1:] == [[7]]  # a second after the last


async def test_inline_the_call_that_fills_a_job_runs_it(app: Mainspring) -> None:
    sync, ran = collecting(app)
    async with app.testing("inline") as jobs:
        for n in range(4):
            await sync.enqueue(Update("a", n))
            assert ran == ([] if n < 2 else [[0, 1, 2]])
        await jobs.advance(seconds=1)
        assert ran == [[0, 1, 2], [3]]


@pytest.mark.parametrize(
    ("by", "sets"), [("account", [[1, 3], [2]]), (lambda item: item.n % 2, [[1, 3], [2]]), (None, [[1, 2, 3]])]
)
async def test_items_are_collected_by_a_field_a_function_or_all_together(
    app: Mainspring, by: Any, sets: list[list[int]]
) -> None:
    sync, ran = collecting(app, size=9, by=by)
    async with app.testing() as jobs:
        await app.enqueue_many(sync.job(item) for item in ITEMS)
        await jobs.advance(seconds=1)
    assert sorted(ran) == sets


async def test_queues_collect_apart(app: Mainspring) -> None:
    sync, _ = collecting(app, size=9)
    async with app.testing() as jobs:
        for queue in ("a", "b", "a"):
            await sync.using(queue=queue).enqueue(Update("x", len(queue)))
        assert [(job.queue, job.collect and job.collect.count) for job in jobs.enqueued] == [("a", 2), ("b", 1)]


async def test_several_items_are_given_at_once_by_name(app: Mainspring) -> None:
    sync, ran = collecting(app)
    async with app.testing() as jobs:
        await sync.enqueue(Update("a", 1))
        assert (await app.enqueue("sync", updates=[Update("a", 2), Update("a", 3)])).status == "collected"
        await app.enqueue("sync", updates=[Update("a", n) for n in (4, 5, 6)])
        await jobs.drain()
        assert ran == [[1, 2, 3], [4, 5, 6]]
        for updates, error in (([], "1 to 3 items"), ([Update("a", 1)] * 4, "got 4"), (ITEMS, "items of one key")):
            with pytest.raises(BadInput, match=error):
                await app.enqueue("sync", updates=updates)


async def test_the_parameter_may_be_by_name_or_by_position_only(app: Mainspring) -> None:
    ran = list[list[int]]()

    @app.task(collect=Collect(size=2, delay=5))
    def named(*, items: list[int]) -> None:
        ran.append(items)

    @app.task(collect=Collect(size=2, delay=5))
    def placed(items: list[int], /) -> None:
        ran.append(items)

    async with app.testing() as jobs:
        for task in (named, placed):
            for n in (1, 2):
                await app.insert([task.job(n)])  # type: ignore[call-arg, arg-type]
        await jobs.drain()
    assert ran == [[1, 2], [1, 2]]


async def test_an_item_without_the_field_is_refused(app: Mainspring) -> None:
    @app.task(collect=Collect(size=2, delay=1, by="a"))
    async def take(items: list[dict[str, int]]) -> None: ...

    with pytest.raises(BadInput, match="collects by 'a', which this item does not have"):
        take.job({"b": 1})


async def test_an_item_that_does_not_fit_is_refused(app: Mainspring) -> None:
    sync, _ = collecting(app)
    async with app.testing() as jobs:
        with pytest.raises(BadPayload, match="do not fit"):
            await sync.enqueue(5)
        for call in (lambda: sync.job(), lambda: sync.job(ITEMS[0], ITEMS[1])):
            with pytest.raises(BadInput):
                call()
        jobs.assert_not_enqueued()


async def test_a_retry_keeps_the_items_and_a_repeat_has_them_for_itself(app: Mainspring) -> None:
    ran = list[list[int]]()

    @app.task(collect=Collect(size=2, delay=5), max_retries=1, backoff=lambda n: 60)
    def flaky(ctx: Context, items: list[int]) -> None:
        ran.append(items)
        if ctx.attempt == 1:
            raise ValueError("not yet")

    async with app.testing() as jobs:
        first = await flaky.enqueue(1)
        await flaky.enqueue(2)
        await jobs.drain()
        assert (await flaky.enqueue(3)).id != first.id
        await jobs.advance(seconds=61)
        assert ran == [[1, 2], [3], [1, 2]]
        repeat = await app.jobs.run_again(first.id)
        assert (await flaky.enqueue(4)).status == "new"
        await jobs.process_one()
        assert ran[3:] == [[1, 2]]
        assert (await repeat.job()).collect is None


async def test_why_says_what_a_job_has_collected(app: Mainspring) -> None:
    sync, _ = collecting(app, size=40)
    async with app.testing():
        await sync.enqueue(Update("a", 1))
        run = await sync.enqueue(Update("a", 2))
        reason = (await app.jobs.why(run.id))[0]
        assert reason.code == "collecting"
        assert (
            reason.text == "it collects items: 2 of 40 so far; without more of them it is due at 2030-01-01 00:00:01Z"
        )
        await app.jobs.reschedule(run.id, 60)
        assert (await app.jobs.why(run.id))[0].code == "not_due"
        assert (await sync.enqueue(Update("a", 3))).id != run.id


async def test_a_worker_runs_a_full_job_without_a_poll(app: Mainspring, clock: VirtualClock) -> None:
    """The worker sleeps until the time of the job, and wakes when that is full."""
    app = Mainspring("memory://", clock=clock)
    sync, ran = collecting(app, delay=60, grace=None, size=2)
    async with app, app.worker():
        await sync.enqueue(Update("a", 1))
        await clock.elapse(seconds=1)
        assert ran == []
        handle = await sync.enqueue(Update("a", 2))
        await clock.elapse(timedelta(milliseconds=1))
        assert (await handle.job()).state is State.COMPLETED
        assert ran == [[1, 2]]


# what makes no sense


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ({"size": 1}, "from 2 to 1,000, got 1"),
        ({"size": 1001}, "from 2 to 1,000"),
        ({"size": True}, "whole number"),
        ({"delay": 0}, r"Collect\(delay=…\) takes more than 0 seconds"),
        ({"grace": 0}, r"Collect\(grace=…\) takes more than 0 seconds"),
        ({"grace": 5}, "acts only if it is less than delay=5"),
        ({"by": 7}, "takes the name of a field"),
    ],
    ids=str,
)
def test_bad_bounds_are_refused(bounds: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput, match=error):
        Collect(**{"size": 2, "delay": 5, **bounds})


def test_bounds_take_spans_as_text() -> None:
    assert Collect(size=2, delay="1m", grace=timedelta(seconds=2)) == Collect(2, 60, 2)


def test_a_function_that_cannot_collect_is_refused(app: Mainspring) -> None:
    async def single(item: int) -> None: ...
    async def two(items: list[int], more: int) -> None: ...
    async def rest(*items: int) -> None: ...
    async def yields(items: list[int]) -> AsyncIterator[int]:
        yield items[0]

    def updates(items: list[Update]) -> None: ...

    plain = Collect(size=2, delay=5)
    for fn in (single, two, rest):
        with pytest.raises(BadTask, match=r"takes one argument, annotated list\[…\]"):
            app.task(collect=plain)(fn)
    with pytest.raises(BadTask, match="yields"):
        app.task(collect=plain)(yields)
    with pytest.raises(BadTask, match="collects by 'acount', which its items do not have; did you mean 'account'"):
        app.task(collect=Collect(size=2, delay=5, by="acount"))(updates)
    options: list[dict[str, Any]] = [{"unique_key": "k"}, {"expires": 5}, {"on_conflict": "replace"}]
    for one in options:
        with pytest.raises(BadTask, match=f"so it has no {next(iter(one))}"):
            app.task(collect=plain, **one)(updates)
    with pytest.raises(BadInput, match="takes a Collect"):
        app.task(collect=5)(updates)  # type: ignore[call-overload]
    with pytest.raises(BadTask, match="option collect does not belong on a flow"):
        app.flow(collect=plain)(updates)  # type: ignore[call-overload]
    assert app.tasks == {}


def test_options_of_one_call_are_refused(app: Mainspring) -> None:
    sync, _ = collecting(app)
    options: list[dict[str, Any]] = [{"delay": 5}, {"priority": 3}, {"unique_key": None}, {"tags": ["x"]}]
    for one in options:
        with pytest.raises(BadInput, match=f"using.. takes queue and within there, not {next(iter(one))}"):
            sync.using(**one)


async def test_a_step_cannot_collect(app: Mainspring) -> None:
    sync, _ = collecting(app)

    @app.flow
    def flow() -> None:
        sync.step([])

    async with app.testing() as jobs:
        with pytest.raises(BadFlow, match="a step cannot collect items"):
            jobs.plan(flow)


# elsewhere


async def test_a_stub_collects_for_a_task_elsewhere(app: Mainspring) -> None:
    sync, ran = collecting(app, by=None)

    far = Mainspring("memory://")

    @far.stub(name="sync", collect=Collect(size=3, delay=5, grace=1))
    async def elsewhere(updates: list[Update]) -> int: ...

    async with app.testing() as jobs:
        await app.enqueue_many([elsewhere.job(Update("a", 1)), sync.job(Update("b", 2)), elsewhere.job(Update("c", 3))])
        await jobs.drain()
        assert ran == [[1, 2, 3]]


async def test_a_schedule_gives_its_own_list(app: Mainspring) -> None:
    sync, ran = collecting(app)
    app.schedule("nightly", every(minutes=1), sync, kwargs={"updates": [{"account": "a", "n": 1}] * 5})
    async with app.testing() as jobs:
        await jobs.advance(minutes=1)
        assert ran == [[1] * 5]
