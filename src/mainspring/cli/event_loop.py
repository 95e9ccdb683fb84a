"""The event loop of commands that stay: uvloop where it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from ..survived_errors import SurvivedErrors

T = TypeVar("T")
_ended_loop = SurvivedErrors("event_loop", "code of a job has ended the event loop, which goes on")
# Seconds for the tasks that are left when the work is done.
LAST = 1.0


def run(work: Coroutine[Any, Any, T], *, goes_on: bool = False) -> T:
    """The value of the work. A task that swallows its cancellation does not keep the process from ending.

    With `goes_on` the work goes on where other code on its loop ends that loop, by SystemExit or by stop().
    """
    collect_less()
    runner = asyncio.Runner(loop_factory=_factory())
    try:
        return _to_its_end(runner, work) if goes_on else runner.run(work)
    finally:
        # Closing the loop waits for its tasks, however long they take.
        if runner.run(_left_alone()):
            runner.close()


def _to_its_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    begun: list[asyncio.Task[T]] = []

    async def main() -> T:
        begun.append(cast("asyncio.Task[T]", asyncio.current_task()))
        return await work

    try:
        return runner.run(main())
    except (SystemExit, RuntimeError) as error:
        if not begun:
            raise
        return _again(runner.get_loop(), begun[0], error)


def _again(loop: asyncio.AbstractEventLoop, main: asyncio.Task[T], error: BaseException) -> T:
    while True:
        if main.done() or (isinstance(error, RuntimeError) and "stopped before" not in str(error)):
            raise error
        _ended_loop(error)
        try:
            return loop.run_until_complete(main)
        except (SystemExit, RuntimeError) as next_error:
            error = next_error


def collect_less() -> None:
    """A worker makes objects by the thousand that are gone in no time. With Python's own threshold, meant for programs
    that make few, a busy one spent a sixth of its time looking for rings among them, and what was imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


async def _left_alone() -> bool:
    """Whether every other task of this loop has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return not others or not (await asyncio.wait(others, timeout=LAST))[1]
