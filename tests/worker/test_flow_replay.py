"""Replays of flows: a new flow that repeats one which has ended, all of it or from one of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from flow_kit import ended, states

from mainspring import (
    BadInput,
    BadPayload,
    FlowFailed,
    Handle,
    InvalidTransition,
    JobExists,
    Mainspring,
    Results,
    State,
    act_as,
)
from mainspring.records.audit import AuditFilter
from mainspring.records.query import Filter
from mainspring.testing import VirtualClock


class Shop:
    """A flow of orders: what ran, and whether the bank is open."""

    def __init__(self, app: Mainspring) -> None:
        self.runs: Counter[str] = Counter()
        self.open = True

        @app.task
        async def check(order: int) -> str:
            self.runs["check"] += 1
            return f"order {order}"

        @app.task(max_retries=0)
        async def charge(checked: str) -> str:
            self.runs["charge"] += 1
            if not self.open:
                raise ConnectionError("the bank is closed")
            return f"{checked} charged"

        @app.task
        async def ship(charged: str, checked: str) -> str:
            self.runs["ship"] += 1
            return f"{charged}, {checked} shipped"

        @app.flow(priority=7, tags=["shop"])
        def fulfil(order: int) -> str:
            checked = check.step(order)
            return ship.step(charge.step(checked), checked)

        self.fulfil = fulfil


async def prune(app: Mainspring, run: Handle[Any]) -> None:
    await app.jobs.delete(run.id)
    assert [job.id for job in await app.jobs.list(Filter(), limit=100) if job.id == run.id] == []


async def test_flow_is_replayed_from_its_start_with_what_it_had(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.using(metadata={"by": "post"}).enqueue(3)
        await ended(app, clock, run)
        with act_as("ada"):
            again = await app.flows.replay(run.id)
        job = await ended(app, clock, again)
        assert (job.result, job.priority, job.tags) == ('"order 3 charged, order 3 shipped"', 7, ("shop",))
        assert job.metadata == {"by": "post", "replay_of": run.id}
        assert shop.runs == {"check": 2, "charge": 2, "ship": 2}
        assert (await app.flows.get(again.id)).replay_of == run.id
        assert ((await app.flows.get(run.id)).replay_of, (await run.job()).state) == (None, "completed")
        (entry,) = await app.audit.list(AuditFilter(action="flows.replay"))
        assert (entry.who, entry.target) == ("ada", run.id)


async def test_flow_is_replayed_from_its_start_with_other_arguments(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        await ended(app, clock, run)
        with pytest.raises(BadPayload):
            await app.flows.replay(run.id, arguments={"order": "three"})
        again = await app.flows.replay(run.id, arguments={"order": 4})
        assert (await ended(app, clock, again)).result == '"order 4 charged, order 4 shipped"'
        with pytest.raises(BadInput, match="keeps what other arguments have led to"):
            await app.flows.replay(run.id, from_="ship", arguments={"order": 4})
        assert len(await app.jobs.list(Filter(tasks=("fulfil",)))) == 2


async def test_replay_from_a_step_takes_over_what_came_before(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    shop.open = False
    async with app:
        run = await shop.fulfil.enqueue(3)
        assert (await ended(app, clock, run)).state == State.DEAD
        shop.open = True
        again = await app.flows.replay(run.id, from_="charge")
        await prune(app, run)
        assert await states(app, again) == {"check": "completed", "charge": "pending", "ship": "waiting"}
        job = await ended(app, clock, again)
        assert (job.state, job.result) == ("completed", '"order 3 charged, order 3 shipped"')
        assert job.runs == 1
        assert shop.runs == {"check": 1, "charge": 2, "ship": 1}
        step = (await app.flows.get(again.id)).step("check")
        assert (step.job_id, step.note) == (None, "it ended so in the flow that this one replays")


async def test_replay_is_retried_skipped_cancelled_and_replayed(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        await ended(app, clock, run)
        shop.open = False
        second = await app.flows.replay(run.id, from_="charge")
        await prune(app, run)
        assert (await ended(app, clock, second)).state == "dead"
        assert await states(app, second) == {"check": "completed", "charge": "dead", "ship": "not_run"}
        cancelled = await app.flows.replay(second.id, from_="charge")
        await app.flows.cancel(cancelled.id)
        assert (await ended(app, clock, cancelled)).state == "cancelled"
        third = await app.flows.replay(second.id, from_="charge")
        await prune(app, second)
        await ended(app, clock, third)
        shop.open = True
        await app.flows.retry(third.id)
        assert (await ended(app, clock, third)).result == '"order 3 charged, order 3 shipped"'
        fourth = await app.flows.replay(third.id, from_="ship")
        await prune(app, third)
        assert (await ended(app, clock, fourth)).result == '"order 3 charged, order 3 shipped"'
        whole = await app.flows.replay(fourth.id)
        await ended(app, clock, whole)
        assert shop.runs["check"] == 2
        with pytest.raises(BadInput, match=r"the flow has no step 'chage' \(it has 'check', 'charge', 'ship'\)"):
            await app.flows.replay(whole.id, from_="chage")


async def test_values_of_any_kind_are_taken_over(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def large() -> dict[str, Any]:
        return {"text": "x" * 100_000, "ok": True}

    @app.task
    async def pages(n: int) -> int:
        return n * n

    @app.task(max_retries=0)
    async def odd(n: int) -> int:
        if n == 1:
            raise ValueError("one is odd")
        return n

    @app.task
    async def report(text: str, squares: list[int], some: Results[int]) -> list[Any]:
        failures = [(index, failure.line) async for index, failure in some.failures()]
        return [len(text), squares, [pair async for pair in some.items()], failures]

    @app.task
    async def each(n: int, text: str) -> int:
        return n + len(text)

    @app.flow
    def flow() -> Any:
        found, squares, some = large.step(), pages.map([1, 2, 3]), odd.using(failed_ratio=0.5).map([0, 1, 2])
        told = report.using(when=found["ok"]).step(found["text"], squares, some)
        return [each.map(squares, found["text"]), told, squares]

    async with app:
        run = await flow.enqueue()
        first = await ended(app, clock, run)
        assert first.state == "completed"
        again = await app.flows.replay(run.id, from_="report")
        both = await app.flows.replay(run.id, from_="each")
        await prune(app, run)
        assert (await ended(app, clock, again)).result == first.result
        assert (await both.job()).result == first.result
        view = await app.flows.get(again.id)
        items = view.step("odd").items
        assert items is not None
        assert (items.made, items.ended, items.dead, view.step("each").state) == (3, 3, 1, "completed")
        assert [job.state for job in await app.flows.items(both.id, "each")] == ["completed"] * 3


async def test_values_that_are_too_large_together_are_refused(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def part(n: int) -> str:
        return "x" * 400_000

    @app.task
    async def join(a: list[str]) -> int:
        return sum(map(len, a))

    @app.task
    async def double(total: int) -> int:
        return total * 2

    @app.flow
    def flow() -> int:
        return double.step(join.step(part.map([1, 2, 3])))

    async with app:
        run = await flow.enqueue()
        await ended(app, clock, run)
        with pytest.raises(BadInput, match=r"result of step 'part', the new flow would take over more than 1,048,576"):
            await app.flows.replay(run.id, from_="join")
        again = await app.flows.replay(run.id, from_="double")  # which does not need them
        assert (await ended(app, clock, again)).result == "2400000"
        with pytest.raises(BadInput, match="the result of step 'part' is gone: replay from that step"):
            await app.flows.replay(again.id, from_="join")


async def test_kept_step_that_has_failed(app: Mainspring, clock: VirtualClock) -> None:
    runs: Counter[str] = Counter()

    @app.task(max_retries=0)
    async def work(name: str, good: bool, value: int | None = None) -> int:
        runs[name] += 1
        if not good and runs[name] == 1:
            raise ValueError("no")
        return runs[name]

    @app.flow
    def flow() -> list[int]:
        first = work.using(step="first").step("first", True)
        bad = work.using(step="bad").step("bad", False, first)
        later = work.using(step="later").step("later", True, bad)
        side = work.using(step="side").step("side", True, first)
        work.using(step="both", after=later).step("both", True, side)
        work.using(step="tidy", on="failure", after=bad).step("tidy", True)
        return [side, later]

    async with app:
        run = await flow.enqueue()
        await ended(app, clock, run)
        with pytest.raises(BadInput, match="'both' needs 'later', which was not run and would be kept: replay from"):
            await app.flows.replay(run.id, from_="side")
        again = await app.flows.replay(run.id, from_="tidy")
        await prune(app, run)
        job = await ended(app, clock, again)
        assert runs == {"first": 1, "bad": 1, "side": 1, "tidy": 2}
        assert job.state == "dead"
        with pytest.raises(FlowFailed, match="it ended so in the flow that this one replays"):
            await again.result(timeout=1)
        await app.flows.retry(again.id)
        assert (await ended(app, clock, again)).result == "[1,1]"
        assert runs == {"first": 1, "bad": 2, "side": 1, "later": 1, "both": 1, "tidy": 2}


async def test_map_over_a_task_that_yields_is_replayed_with_that_task(app: Mainspring, clock: VirtualClock) -> None:
    yielded: list[int] = []

    @app.task
    async def base() -> int:
        return 3

    @app.task
    async def extract(count: int) -> AsyncIterator[int]:
        for n in range(count):
            yielded.append(n)
            yield n

    @app.task
    async def load(n: int) -> int:
        return n + 1

    @app.flow
    def flow() -> Any:
        return load.map(extract.step(base.step()))

    async with app:
        run = await flow.enqueue()
        first = await ended(app, clock, run)
        again = await app.flows.replay(run.id, from_="load")
        await prune(app, run)
        assert (await ended(app, clock, again)).result == first.result == "[1,2,3]"
        assert yielded == [0, 1, 2, 0, 1, 2]


async def test_flow_made_from_a_plan_is_replayed_with_that_plan(app: Mainspring, clock: VirtualClock) -> None:
    runs: Counter[str] = Counter()

    @app.task
    async def one(n: int) -> int:
        runs[str(n)] += 1
        return n + 1

    async with app:
        plan = app.plan("sum up", timeout=3600)
        plan.returns(plan.step(one.using(step="last"), plan.step(one, 1)))
        run = await plan.enqueue()
        await ended(app, clock, run)
        part = await app.flows.replay(run.id, from_="last")
        assert (await ended(app, clock, part)).result == "3"
        whole = await app.flows.replay(part.id)
        job = await ended(app, clock, whole)
        assert (job.result, job.metadata) == ("3", {"flow": "sum up", "replay_of": part.id})
        assert runs == {"1": 2, "2": 3}
        with pytest.raises(BadInput, match="was made from a plan, and has no arguments"):
            await app.flows.replay(run.id, arguments={"n": 1})


async def test_what_cannot_be_replayed_is_refused(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)

    @app.task(max_retries=0)
    async def number() -> int:
        return 1

    @app.flow(max_retries=0)
    def wrong(order: int) -> None:
        if order:
            raise ValueError("no")

    @app.flow
    def outer() -> None:
        shop.fulfil.step(number.step())

    async with app:
        run = await shop.fulfil.using(unique_key="one").enqueue(3)
        with pytest.raises(InvalidTransition, match=r"cannot replay job .* it is pending, replay needs completed"):
            await app.flows.replay(run.id)
        plain = await number.enqueue()
        dead = await wrong.enqueue(1)
        nested = await outer.enqueue()
        await ended(app, clock, run)
        with pytest.raises(BadInput, match=r"job \S+ \(number\) has no steps: it is no flow"):
            await app.flows.replay(plain.id)
        with pytest.raises(BadInput, match=r"flow \S+ \(wrong\) was not planned yet: replay it from the start"):
            await app.flows.replay(dead.id, from_="number")
        inner = (await app.flows.get(nested.id)).step("fulfil").job_id
        assert inner is not None
        again = await app.flows.replay(inner)  # its arguments are in its own record
        assert (await ended(app, clock, again)).result == '"order 1 charged, order 1 shipped"'
        planned = await app.flows.replay(dead.id, arguments={"order": 0})
        assert (await ended(app, clock, planned)).state == "completed"
        holder = await shop.fulfil.using(unique_key="one").enqueue(4)
        with pytest.raises(JobExists, match="one"):
            await app.flows.replay(run.id)
        await ended(app, clock, holder)


async def test_reasons_name_no_value_that_was_not_taken_over(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def kind() -> str:
        return "plain"

    @app.task
    async def tell(text: str) -> str:
        return text

    @app.flow
    def flow() -> None:
        found = kind.step()
        tell.using(step="thank", when=found == "gold").step("thanks")
        tell.using(step="note", after=found).step("noted")

    async with app:
        run = await flow.enqueue()
        await ended(app, clock, run)
        again = await app.flows.replay(run.id, from_="note")
        await ended(app, clock, again)
        assert [await why_skipped(app, one) for one in (run, again)] == [
            'thank was skipped: kind == "gold" did not hold (kind = "plain")',
            'thank was skipped: kind == "gold" did not hold',
        ]


async def why_skipped(app: Mainspring, run: Handle[Any]) -> str:
    """Why a step of the flow was skipped."""
    (text,) = [reason.text for reason in await app.flows.why(run.id) if reason.code == "step_skipped"]
    return text
