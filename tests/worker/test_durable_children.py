"""Children of durable tasks: ctx.run() and ctx.map() start each job once, and wait for it in no slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec import Struct

from mainspring import BadInput, ChildFailed, Context, Handle, Mainspring, Skip, State
from mainspring.records.job import Job
from mainspring.testing import VirtualClock
from mainspring.worker import durable_children


class Photo(Struct):
    name: str
    width: int = 0


async def work(app: Mainspring, clock: VirtualClock, run: Handle[Any], seconds: float = 60, slots: int = 10) -> Job:
    async with app.worker(concurrency=slots):
        await clock.elapse(seconds=seconds)
    return await run.job()


async def test_a_child_runs_once_and_its_result_comes_as_its_type(app: Mainspring, clock: VirtualClock) -> None:
    seen = Counter[str]()

    @app.task
    async def resize(photo: Photo, width: int) -> Photo:
        seen["resize"] += 1
        return Photo(photo.name, width)

    @app.task(max_retries=2, backoff=lambda _: 0.0)
    async def work_on(ctx: Context, name: str) -> str:
        seen["begun"] += 1
        first = await ctx.run(resize, Photo(name), width=100)
        if seen["begun"] < 3:
            raise ValueError("after the child")
        second = await ctx.run(resize, first, 50)
        return f"{second.name} {first.width} {second.width}"

    async with app:
        run = await work_on.enqueue("a")
        assert (await work(app, clock, run)).state is State.COMPLETED
        assert await run.result(timeout=0) == "a 100 50"
        assert seen == {"resize": 2, "begun": 4}
        found = await app.flows.get(run.id)
        assert [(step.name, step.state) for step in found.steps] == [("resize", "completed"), ("resize#2", "completed")]


@pytest.mark.parametrize("count", [0, 1, 1000])
async def test_a_map_ends_with_one_slot_for_all(app: Mainspring, clock: VirtualClock, count: int) -> None:
    @app.task
    async def double(n: int, by: int) -> int:
        return n * by

    @app.task
    async def total(ctx: Context) -> int:
        return sum(await ctx.map(double, range(count), 2))

    async with app:
        run = await total.enqueue()
        await work(app, clock, run, slots=1)
        assert await run.result(timeout=0) == count * (count - 1)


async def test_what_is_called_at_once_is_waited_for_at_once(app: Mainspring, clock: VirtualClock) -> None:
    runs = Counter[str]()

    @app.task
    async def part(n: int) -> int:
        return n

    def note(n: int) -> int:
        runs["note"] += 1
        return n

    @app.task
    async def whole(ctx: Context) -> list[Any]:
        runs["whole"] += 1
        return [
            *await asyncio.gather(
                ctx.run(part, 1), ctx.map(part, [2, 3]), ctx.step(note, 4), ctx.run(part, 5), ctx.sleep("1s")
            )
        ]

    async with app:
        run = await whole.enqueue()
        await work(app, clock, run)
        assert await run.result(timeout=0) == [1, [2, 3], 4, 5, None]
        assert (runs["note"], runs["whole"]) in ((1, 2), (1, 3))


async def test_a_signal_beside_a_child_comes_first(app: Mainspring, clock: VirtualClock) -> None:
    order = list[str]()

    @app.task
    async def slow() -> str:
        await clock.sleep(30)
        return "slow"

    async def wait_for(ctx: Context, what: Any, name: str) -> None:
        await what
        if name not in order:
            order.append(name)

    @app.task
    async def both(ctx: Context) -> None:
        await asyncio.gather(wait_for(ctx, ctx.run(slow), "child"), wait_for(ctx, ctx.signal("go"), "signal"))

    async with app:
        run = await both.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            assert {reason.code for reason in await app.jobs.why(run.id)} == {"waits_for_steps", "waits_for_signal"}
            await run.signal("go")
            await clock.elapse(seconds=5)
            assert order == ["signal"]
            await clock.elapse(seconds=60)
        assert order == ["signal", "child"]
        assert (await run.job()).state is State.COMPLETED


async def test_a_dead_child_raises_and_is_remembered(app: Mainspring, clock: VirtualClock) -> None:
    seen = list[ChildFailed]()
    healed = False

    @app.task(max_retries=0)
    async def charge() -> str:
        if healed:
            return "paid"
        raise ValueError("no money")

    @app.task
    async def order(ctx: Context) -> str:
        try:
            return await ctx.run(charge)
        except ChildFailed as failed:
            seen.append(failed)
        await ctx.step(len, "abc", name="note")
        await ctx.sleep("10m")
        return "on account"

    async with app:
        run = await order.enqueue()
        await work(app, clock, run)
        (failed,) = seen
        child = await app.jobs.get(failed.job_id or "")
        assert (child.task, child.state, failed.state, failed.failure) == ("charge", State.DEAD, "dead", child.failure)
        assert str(failed) == f"charge (job {child.id}) is dead: ValueError: no money"
        healed = True  # too late for the job: it has gone on without
        await app.dead.redrive(child.id)
        await work(app, clock, run, 700)
        assert await run.result(timeout=0) == "on account"
        assert len(seen) == len([one for one in seen if str(one) == str(failed)]) > 1
        assert (await app.jobs.get(child.id)).result == '"paid"'


async def test_a_failure_is_remembered_before_the_run_ends(app: Mainspring, clock: VirtualClock) -> None:
    healed = False

    @app.task(max_retries=0)
    async def charge() -> str:
        if healed:
            return "paid"
        raise ValueError("no money")

    @app.task
    async def order(ctx: Context) -> str:
        try:
            return await ctx.run(charge)
        except ChildFailed as failed:
            return await ctx.signal("instead", str) + f" of {failed.job_id}"

    async with app:
        run = await order.enqueue()
        assert (await work(app, clock, run)).state is State.WAITING
        (step,) = (await app.flows.get(run.id)).steps
        assert step.job_id is not None
        healed = True
        await app.dead.redrive(step.job_id)
        assert (await work(app, clock, run)).state is State.WAITING
        await run.signal("instead", "cash")
        await work(app, clock, run)
        assert await run.result(timeout=0) == f"cash of {step.job_id}"


async def test_a_dead_child_ends_the_job_and_a_retry_of_the_job_runs_it_again(
    app: Mainspring, clock: VirtualClock
) -> None:
    healed = False
    runs = Counter[str]()

    @app.task(max_retries=0)
    async def charge(n: int) -> int:
        runs["charge"] += 1
        if n == 2 and not healed:
            raise ValueError("no money")
        return n

    @app.task(max_retries=5)
    async def order(ctx: Context) -> int:
        runs["order"] += 1
        return sum(await asyncio.gather(*(ctx.run(charge, n) for n in range(4))))

    async with app:
        run = await order.enqueue()
        job = await work(app, clock, run)
        assert job.state is State.DEAD
        assert job.failure is not None
        assert (job.failure.type, runs) == ("ChildFailed", {"charge": 4, "order": 2})
        healed = True
        await app.jobs.retry(run.id)
        assert (await run.job()).state is State.WAITING
        await work(app, clock, run)
        assert await run.result(timeout=0) == 6
        assert runs == {"charge": 5, "order": 3}


async def test_a_map_with_dead_items_says_which(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def score(n: int) -> int:
        if n % 10 == 3:
            raise ValueError(f"no {n}")
        return n

    @app.task
    async def lenient(ctx: Context) -> int:
        return len(await ctx.map(score.using(failed_ratio=0.2, step="most"), range(20)))

    @app.task
    async def strict(ctx: Context) -> int:
        return len(await ctx.map(score, range(20)))

    async with app:
        one, other = await lenient.enqueue(), await strict.enqueue()
        await work(app, clock, one)
        assert await one.result(timeout=0) == 18
        failure = (await other.job()).failure
        assert failure is not None
        assert "2 of 20 items of score, the first one (job " in failure.message
        assert failure.message.endswith("are dead: ValueError: no 3")


async def test_a_cancel_ends_the_children_first(app: Mainspring, clock: VirtualClock) -> None:
    runs = Counter[str]()

    @app.task
    async def slow(n: int) -> None:
        runs["slow"] += 1
        await clock.sleep(1000)

    @app.task
    async def parent(ctx: Context) -> None:
        runs["parent"] += 1
        await asyncio.gather(*(ctx.run(slow, n) for n in range(3)))

    async with app:
        run = await parent.enqueue()
        async with app.worker(concurrency=2):
            await clock.elapse(seconds=10)
            await app.jobs.cancel(run.id, reason="enough")
            await clock.elapse(seconds=30)
        job = await run.job()
        assert (job.state, job.cancel_reason, runs["parent"]) == (State.CANCELLED, "enough", 1)
        steps = await app.flows.get(run.id)
        assert {step.state for step in steps.steps} == {"cancelled"}


async def test_flows_and_durable_tasks_are_children_too(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.flow
    def plan(a: int) -> int:
        return add.step(add.step(a, 1), 2)

    @app.task
    async def inner(ctx: Context, a: int) -> int:
        await ctx.sleep("1m")
        return await ctx.run(plan, a)

    @app.task
    def outer(ctx: Context, a: int) -> int:
        first = ctx.sync.run(inner, a)
        return sum(ctx.sync.map(add, [first], 10)) + ctx.sync.run(add, 1, 2)

    async with app:
        run = await outer.enqueue(1)
        await work(app, clock, run, 200)
        assert await run.result(timeout=0) == 17


async def test_a_skipped_child_has_no_result(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def nothing() -> str | None:
        raise Skip("nothing to do")

    @app.task
    async def parent(ctx: Context) -> str:
        result = await ctx.run(nothing)
        return f"{result}"

    async with app:
        run = await parent.enqueue()
        await work(app, clock, run)
        assert await run.result(timeout=0) == "None"


async def test_large_results_are_read_again(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def large() -> str:
        return "x" * 200_000

    @app.task
    async def parent(ctx: Context) -> int:
        first = await ctx.run(large)
        await ctx.sleep("1m")
        return len(first) + len((await ctx.map(large_item, [1, 2]))[1])

    @app.task
    async def large_item(n: int) -> str:
        return "y" * 100_000

    async with app:
        run = await parent.enqueue()
        await work(app, clock, run, 200)
        assert await run.result(timeout=0) == 300_000
        assert [one.name for one in await app.jobs.checkpoints(run.id)] == ["sleep"]


async def test_what_cannot_be_a_child_is_refused(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = list[str]()

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    async def parent(ctx: Context) -> None:
        for call in (
            lambda: ctx.run(len, "abc"),  # type: ignore[arg-type]
            lambda: ctx.run(child.using(optional=True), 1),
            lambda: ctx.run(child.using(unique_key="a"), 1),
            lambda: ctx.run(child, "one"),  # type: ignore[arg-type]
            lambda: ctx.map(child, 5),  # type: ignore[arg-type]
            lambda: ctx.sync.run(child, 1),
        ):
            with pytest.raises(BadInput) as caught:
                await call()  # type: ignore[misc]
            errors.append(str(caught.value))
        monkeypatch.setattr(durable_children, "MAX_STEPS", 0)
        with pytest.raises(BadInput, match="'child#4' is one too many"):
            await ctx.run(child, 1)
        monkeypatch.setattr(durable_children, "MAX_STEPS", 10)
        monkeypatch.setattr(durable_children, "MAX_ARGUMENTS_BYTES", 100)
        with pytest.raises(BadInput, match="exceed 100 bytes"):
            await ctx.map(child, range(1000))

    async with app:
        run = await parent.enqueue()
        job = await work(app, clock, run)
        assert (job.state, job.failure) == (State.COMPLETED, None)
    assert [text.split(":")[0] for text in errors] == [
        "ctx.run() takes a task or a flow and its arguments, got <built-in function len>",
        "ctx.run()",
        "step 'child'",
        "step 'child'",
        "step 'child'",
        "ctx.sync.run() would block the event loop",
    ]
