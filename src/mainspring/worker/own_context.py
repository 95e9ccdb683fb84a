"""Runs a coroutine step by step in a context of its own, inside a task that has another one."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context as ContextVars
from types import coroutine as awaitable
from typing import Any, TypeVar

T = TypeVar("T")


@awaitable
def run_on(work: Coroutine[Any, Any, T], variables: ContextVars, waits_for: Any) -> Generator[Any, Any, T]:
    """Continues the coroutine, whose last step waits for `waits_for`, to its end, and returns its value."""
    while True:
        raised: BaseException | None = None
        value: Any = None
        try:
            value = yield waits_for
        except GeneratorExit:
            variables.run(work.close)
            raise
        except BaseException as error:
            raised = error
        # Not inside the handler above: what the coroutine raises would have the handled error as its context.
        try:
            waits_for = variables.run(work.send, value) if raised is None else variables.run(work.throw, raised)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            raised = None  # its traceback refers to this frame
