"""Middleware around a run, events after the fact."""

from __future__ import annotations

from typing import Any

from mainspring import Context, Mainspring, State
from mainspring.events import Event, JobEnded, JobEnqueued, WorkerStarted, WorkerStopped
from mainspring.middleware import Middleware, Next
from mainspring.testing import Recorder, VirtualClock


def note(name: str, log: list[str]) -> Middleware:
    async def layer(ctx: Context, call_next: Next) -> Any:
        log.append(f"{name} in")
        try:
            return await call_next(ctx)
        finally:
            log.append(f"{name} out")

    return layer


async def test_task_middleware_is_outside_app_middleware_and_the_first_is_outermost(clock: VirtualClock) -> None:
    log: list[str] = []
    app = Mainspring("memory://", clock=clock, middleware=[note("app 1", log), note("app 2", log)])

    @app.task(middleware=[note("task", log)])
    async def work() -> None:
        log.append("work")

    async with app:
        await work.enqueue()
        await app.drain()
    assert log == ["task in", "app 1 in", "app 2 in", "work", "app 2 out", "app 1 out", "task out"]


async def test_middleware_may_change_the_result_or_keep_the_task_from_running(clock: VirtualClock) -> None:
    async def guard(ctx: Context, call_next: Next) -> Any:
        return "blocked" if ctx.job.metadata.get("blocked") else (await call_next(ctx)).upper()

    app = Mainspring("memory://", clock=clock, middleware=[guard])

    @app.task
    async def greet() -> str:
        return "hello"

    async with app:
        open_, blocked = await greet.enqueue(), await greet.using(metadata={"blocked": True}).enqueue()
        await app.drain()
        assert (await open_.result(), await blocked.result()) == ("HELLO", "blocked")


async def test_middleware_receives_system_exit_as_an_ordinary_exception(clock: VirtualClock) -> None:
    met: list[str] = []

    async def watch(ctx: Context, call_next: Next) -> Any:
        try:
            return await call_next(ctx)
        except Exception as error:
            met.append(type(error).__name__)
            raise

    app = Mainspring("memory://", clock=clock, middleware=[watch])

    @app.task(max_retries=0)
    async def leave() -> None:
        raise SystemExit(1)

    async with app:
        await leave.enqueue()
        await app.drain()
    assert met == ["TaskExit"]


async def test_failing_middleware_fails_the_run(clock: VirtualClock) -> None:
    async def broken(ctx: Context, call_next: Next) -> Any:
        raise RuntimeError("layer")

    app = Mainspring("memory://", clock=clock, middleware=[broken])

    @app.task(max_retries=0)
    async def work() -> None: ...

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert (await handle.job()).state is State.DEAD


async def test_a_raising_subscriber_does_not_fail_the_job(app: Mainspring) -> None:
    @app.task
    async def work() -> int:
        return 1

    @app.on(JobEnded)
    def angry(event: JobEnded) -> None:
        raise RuntimeError("hook")

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await handle.result() == 1


async def test_events_are_emitted_in_order_with_the_time_of_the_clock(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task
    async def work() -> None: ...

    async with app:
        async with app.worker():
            await work.enqueue()
            await clock.elapse(seconds=1)
        kinds = [type(event).__name__ for event in recorder.events]
    assert kinds == ["WorkerStarted", "JobEnqueued", "JobStarted", "JobEnded", "WorkerStopping", "WorkerStopped"]
    assert {event.at for event in recorder.of(JobEnqueued)} == {clock.now().replace(second=0)}
    recorder.clear()
    assert recorder.of(Event) == []
    assert recorder.of(WorkerStarted) == recorder.of(WorkerStopped) == []
