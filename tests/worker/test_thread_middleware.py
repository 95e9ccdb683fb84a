"""Thread middleware: layers around plain functions, in the thread or the child process that runs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring import BadTask, Context, Mainspring, State
from mainspring.middleware import ThreadMiddleware, ThreadNext
from mainspring.testing import VirtualClock


def note(name: str, log: list[str]) -> ThreadMiddleware:
    def layer(ctx: Context, call_next: ThreadNext) -> Any:
        log.append(f"{name} in {threading.current_thread().name}")
        try:
            return call_next(ctx)
        finally:
            log.append(f"{name} out")

    return layer


def in_child(ctx: Context, call_next: ThreadNext) -> Any:
    value = call_next(ctx)
    ctx.log.info("layer of %s", ctx.job.task)
    return [os.getpid(), *value, *ctx.arguments[1].values()]


apart = Mainspring("memory://", thread_middleware=[in_child])


@apart.task(executor="process")
def own_process(number: int) -> list[int]:
    return [os.getpid()]


@apart.task(executor="process")
async def coroutine_in_process() -> list[int]:
    return [1]


async def test_layers_run_in_the_thread_of_the_function_and_the_first_is_outermost(clock: VirtualClock) -> None:
    log: list[str] = []
    app = Mainspring("memory://", clock=clock, thread_middleware=[note("1", log), note("2", log)])

    @app.task
    def work() -> str:
        return threading.current_thread().name

    async with app:
        handle = await work.enqueue()
        await app.drain()
        thread = await handle.result()
    assert thread != threading.current_thread().name
    assert log == [f"1 in {thread}", f"2 in {thread}", "2 out", "1 out"]


async def test_a_layer_may_change_the_value_and_its_error_fails_the_run(clock: VirtualClock) -> None:
    def layer(ctx: Context, call_next: ThreadNext) -> Any:
        if ctx.arguments[1] == {"text": "bad"}:
            raise ValueError("layer")
        return call_next(ctx).upper()

    app = Mainspring("memory://", clock=clock, thread_middleware=[layer])

    @app.task(max_retries=0)
    def work(ctx: Context, text: str) -> str:
        return f"{text} {ctx.attempt}"

    async with app:
        good, bad = await work.enqueue("good"), await work.enqueue("bad")
        await app.drain()
        assert await good.result() == "GOOD 1"
        failed = await bad.job()
        assert failed.state is State.DEAD
        assert failed.failure is not None
        assert failed.failure.message == "layer"


async def test_coroutine_functions_run_without_the_layers(clock: VirtualClock) -> None:
    log: list[str] = []
    app = Mainspring("memory://", clock=clock, thread_middleware=[note("1", log)])

    @app.task
    async def work() -> int:
        return 1

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await handle.result() == 1
    assert log == []


async def test_layers_are_around_functions_that_plan_flows_and_functions_that_yield(clock: VirtualClock) -> None:
    log: list[str] = []
    app = Mainspring("memory://", clock=clock, thread_middleware=[note("layer", log)])

    @app.task
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.flow
    def doubled() -> Any:
        return double.map(numbers.step())

    async with app:
        handle = await doubled.enqueue()
        await app.drain()
        assert (await handle.job()).state is State.COMPLETED
    assert [line.partition(" in ")[0] for line in log] == ["layer", "layer out"] * 2


async def test_layers_are_around_a_plain_function_in_a_child_process() -> None:
    async with apart:
        job = await own_process.enqueue(5)
        other = await coroutine_in_process.enqueue()
        await apart.drain()
        first, second, number = await job.result()
        assert first == second != os.getpid()
        assert number == 5
        assert await other.result() == [1]
        lines = await apart.jobs.logs(job.id)
        assert [line.text for line in lines] == ["layer of own_process"]


def test_an_async_layer_is_refused_with_the_list_it_belongs_to() -> None:
    async def layer(ctx: Context, call_next: ThreadNext) -> Any: ...

    app = Mainspring("memory://", thread_middleware=[layer])
    app.task(own_process.fn)
    with pytest.raises(BadTask, match=r"an `async def` one goes into middleware="):
        app.worker()
