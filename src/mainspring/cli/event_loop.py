"""The event loop of long-running commands: uvloop if it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from ..survived_errors import SurvivedErrors

T = TypeVar("T")
_ended_loop = SurvivedErrors("event_loop", "code of a job has ended the event loop, which goes on")
# Time for the remaining tasks when the work is done.
LAST_TASKS_SECONDS = 1.0


def run(work: Coroutine[Any, Any, T], *, goes_on: bool = False, tune_gc: bool = True) -> T:
    """Runs the work and returns its value. A task that ignores its cancellation does not block the end of the process.

    With `goes_on` the work continues if other code on its loop ends that loop, by SystemExit or by stop().
    """
    if tune_gc:
        tune_garbage_collector()
    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        return _run_to_end(runner, work) if goes_on else runner.run(work)
    finally:
        # Closing the loop would wait for its tasks without a limit.
        if runner.run(_cancel_other_tasks()):
            runner.close()


def _run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    started: list[asyncio.Task[T]] = []

    async def main() -> T:
        started.append(cast("asyncio.Task[T]", asyncio.current_task()))
        return await work

    try:
        return runner.run(main())
    except (SystemExit, RuntimeError) as error:
        if not started:
            raise
        return _resume(runner.get_loop(), started[0], error)


def _resume(loop: asyncio.AbstractEventLoop, main: asyncio.Task[T], error: BaseException) -> T:
    while True:
        if main.done() or (isinstance(error, RuntimeError) and "stopped before" not in str(error)):
            raise error
        _ended_loop(error)
        try:
            return loop.run_until_complete(main)
        except (SystemExit, RuntimeError) as next_error:
            error = next_error


def tune_garbage_collector() -> None:
    """Raises the thresholds of the garbage collector.

    A worker creates many short-lived objects. With Python's default thresholds collections take some 5 % of the
    time of a busy one, and also visit all imported modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


async def _cancel_other_tasks() -> bool:
    """Cancels every other task of this loop. Returns whether all of them have ended in time."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return not others or not (await asyncio.wait(others, timeout=LAST_TASKS_SECONDS))[1]
