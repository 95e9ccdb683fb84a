"""The event loop of commands that stay: uvloop where it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
# Seconds for the tasks that are left when the work is done.
LAST = 1.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """The value of the work. A task that swallows its cancellation does not keep the process from ending."""
    collect_less()
    runner = asyncio.Runner(loop_factory=_factory())
    try:
        return runner.run(work)
    finally:
        # Closing the loop waits for its tasks, however long they take.
        if runner.run(_left_alone()):
            runner.close()


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
