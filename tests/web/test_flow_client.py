"""app.flows over an API returns and raises the same as with the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import BadFlow, BadInput, JobNotFound, Mainspring, Results, SignalTwice, signal
from mainspring.api.server import Server, listen, url_of

BROKEN = {"bank": True}


def with_tasks(app: Mainspring) -> Mainspring:
    @app.task
    async def double(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return 2 * n

    @app.task
    async def total(parts: Results[int]) -> int:
        return sum([part async for part in parts])

    @app.task(max_retries=0)
    async def pay(amount: int) -> str:
        if BROKEN["bank"]:
            raise ConnectionError("the bank is closed")
        return f"paid {amount}"

    @app.flow
    def buy(amounts: list[int]) -> str:
        return pay.step(total.step(double.map(amounts)))

    return app


@pytest.fixture
def near() -> Mainspring:
    """The app on the side of the database."""
    BROKEN["bank"] = True
    return with_tasks(Mainspring("memory://"))


@asynccontextmanager
async def serving(near: Mainspring, *, tasks: bool = True) -> AsyncIterator[Mainspring]:
    """An app that uses the API of `near`, with or without the tasks."""
    listener = listen("127.0.0.1", 0)
    service: Any = near.asgi()
    server = Server(service, grace=1)
    async with near:
        running = asyncio.create_task(server.run(listener))
        far = Mainspring(url_of(listener), api_key=await near.keys.create("far", "operator"))
        try:
            async with asyncio.timeout(30), with_tasks(far) if tasks else far:
                yield far
        finally:
            server.stop()
            await running


async def done(call: Awaitable[Any]) -> Any:
    """The result of a call, or the type and the message of its error."""
    try:
        return await call
    except Exception as error:
        return type(error), str(error)


async def test_flows_are_read_over_an_api_as_from_the_database(near: Mainspring) -> None:
    async with serving(near) as far:
        dead = await far.tasks["buy"].enqueue([1, 2, 3])
        await near.drain()
        pending = await far.tasks["buy"].enqueue([1])
        for id in (dead.id, pending.id, "nope"):
            for read in ("get", "steps", "why"):
                here, there = await done(getattr(near.flows, read)(id)), await done(getattr(far.flows, read)(id))
                if read == "steps" and id == dead.id:
                    assert "the bank is closed" in here[2].failure.message
                assert without_stacks(there) == without_stacks(here), (read, id)
        assert await far.flows.items(dead.id, "double") == await near.flows.items(dead.id, "double")
        assert await far.flows.items(dead.id, "double", after=0, limit=1) == [
            (await near.flows.items(dead.id, "double"))[1]
        ]
        refused = await done(far.flows.items(dead.id, "pay"))
        assert refused == await done(near.flows.items(dead.id, "pay"))
        assert refused[0] is BadInput
        here, there = await near.flows.list(limit=1), await far.flows.list(limit=1)
        assert (there, there.next) == (here, here.next)
        assert await far.flows.list(after=there.next) == await near.flows.list(after=here.next)
        assert (there.progress, len(there.progress)) == (here.progress, 0)
        here, there = await near.flows.list(states=["dead"]), await far.flows.list(states=["dead"])
        assert (there.progress, len(there.progress)) == (here.progress, 1)
        formats: list[Any] = ["svg", "mermaid", "png"]
        for format in formats:
            assert await done(far.flows.draw(dead.id, format)) == await done(near.flows.draw(dead.id, format))
        assert await done(far.flows.draw(pending.id)) == await done(near.flows.draw(pending.id))
        refused = await done(far.flows.list(["pay"]))
        assert refused == await done(near.flows.list(["pay"]))
        assert refused[0] is BadInput
        assert await far.flows.list(["of another app"]) == []
        assert await far.flows.list(states=["dead"], newest=False) == await near.flows.list(states=["dead"])


async def test_the_deadline_of_a_flow_is_read_over_an_api(near: Mainspring) -> None:
    async with serving(near) as far:
        run = await near.tasks["buy"].using(timeout=60, queue="flows").enqueue([1])
        await near.drain(queues=["flows"])
        here = await near.flows.get(run.id)
        assert here.deadline is not None
        assert await far.flows.get(run.id) == here


def without_stacks(found: Any) -> Any:
    """A list of steps leaves out stacks over an API, which the jobs have."""
    return str(found).partition("stack=")[0]


async def test_flows_are_changed_over_an_api(near: Mainspring) -> None:
    async with serving(near) as far:
        job = await far.tasks["buy"].enqueue([1, 2])
        await near.drain()
        assert (await far.flows.get(job.id)).state == "dead"
        BROKEN["bank"] = False
        assert (await far.flows.retry(job.id)).done == [job.id]
        await near.drain()
        assert await job.result(timeout=10) == "paid 6"
        with pytest.raises(BadInput, match="limit= needs the database itself"):
            await far.flows.retry(job.id, limit=1)
        other = await far.tasks["buy"].enqueue([1])
        await far.flows.cancel(other.id, "no longer wanted")
        assert (await near.jobs.get(other.id)).cancel_reason == "no longer wanted"


async def test_steps_are_skipped_over_an_api(near: Mainspring) -> None:
    async with serving(near) as far:
        job = await far.tasks["buy"].enqueue([1, -1])
        await near.drain()
        step = await far.flows.skip(job.id, "total", "counted by hand")
        assert step == (await near.flows.get(job.id)).step("total")
        assert (step.state, step.skipped_because, step.note) == ("skipped", "operator", "counted by hand")
        assert await done(far.flows.skip(job.id, "totel")) == await done(near.flows.skip(job.id, "totel"))


async def test_flows_are_replayed_over_an_api(near: Mainspring) -> None:
    async with serving(near) as far:
        job = await far.tasks["buy"].enqueue([1, 2])
        await near.drain()
        BROKEN["bank"] = False
        part, whole = (
            await far.flows.replay(job.id, from_="pay"),
            await far.flows.replay(job.id, arguments={"amounts": [5]}),
        )
        await near.drain()
        assert (await part.result(timeout=10), await whole.result(timeout=10)) == ("paid 6", "paid 10")
        assert await far.flows.get(part.id) == (view := await near.flows.get(part.id))
        assert view.replay_of == job.id
        wrong: list[dict[str, Any]] = [{"from_": "totel"}, {"from_": "pay", "arguments": {}}]
        for options in wrong:
            assert await done(far.flows.replay(job.id, **options)) == await done(near.flows.replay(job.id, **options))
        with pytest.raises(BadInput, match="new_id= needs the database itself"):
            await far.flows.replay(job.id, new_id=job.id)


async def test_signals_are_given_over_an_api(near: Mainspring) -> None:
    def with_signal(app: Mainspring) -> Mainspring:
        @app.flow
        def ask() -> int:
            return signal("size", int, timeout="3d", default=5)

        return app

    with_signal(near)
    async with serving(near) as far:
        with_signal(far)
        run = await far.tasks["ask"].enqueue()
        await near.drain()
        assert await far.flows.get(run.id) == await near.flows.get(run.id)
        for name, value in (("sise", 7), ("size", "seven")):
            assert await done(far.flows.signal(run.id, name, value)) == await done(
                near.flows.signal(run.id, name, value)
            )
        assert await done(far.flows.signal("none", "size", 7)) == await done(near.flows.signal("none", "size", 7))
        with pytest.raises(BadInput, match="printable ASCII"):
            await run.signal("size", 7, delivery="é")
        await run.signal("size", 7, delivery="m-1")
        await near.drain()
        assert await run.result(timeout=10) == 7
        refused = await done(run.signal("size", 8))
        assert refused == await done(near.flows.signal(run.id, "size", 8))
        assert refused[0] is SignalTwice


PLAN: dict[str, Any] = {
    "name": "sum up",
    "steps": [{"name": "a", "task": "double", "args": {"n": 4}}],
    "result": {"$step": "a"},
}


async def test_plans_are_enqueued_over_an_api(near: Mainspring) -> None:
    async with serving(near, tasks=False) as far:
        for plan in (PLAN, '{"name": "x", "steps": [{"name": "a", "task": "double", "args": {"n": 4}}]}'):
            job = await far.flows.enqueue(plan, unique_key=f"k{len(plan)}", tags=["night"], timeout=None)
            await near.drain()
            stored = await near.jobs.get(job.id)
            assert (stored.state, stored.tags, stored.timeout) == ("completed", ("night",), None)
        assert (await far.flows.enqueue(PLAN)).status == "new"
        wrong = {"steps": [{"name": "a", "task": "doubel"}]}
        assert await done(far.flows.enqueue(wrong)) == await done(near.flows.enqueue(wrong))
        for bad, error in {'["a"]': BadFlow, '{"name": "a", "steps": []}': BadInput}.items():
            with pytest.raises(error):
                await far.flows.enqueue(bad)
        with pytest.raises(JobNotFound):
            await far.flows.get("nope")


async def test_a_plan_of_a_builder_is_enqueued_over_an_api(near: Mainspring) -> None:
    async with serving(near) as far:
        plan = far.plan("sums", priority=3)
        plan.returns(plan.step("total", plan.map("double", [1, 2, 3])))
        job = await plan.enqueue()
        await near.drain()
        assert await job.result(timeout=10) == 12
        stored = await near.jobs.get(job.id)
        assert (stored.priority, stored.metadata) == (3, {"flow": "sums"})
        with pytest.raises(BadInput, match="one at a time"):
            await far.enqueue_many([plan.job(), plan.job()])
