"""Interruptions in a child process: raised inside the task's function, and nowhere else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from ..task.interruption import Interrupted


class Interrupts:
    """Raises at most one interruption per run. A `with` block of this object defers it to the end of the block."""

    def __init__(self) -> None:
        self.cause: Interrupted | None = None
        """What interrupted the last run; None if nothing did."""
        self._inside = False
        self._shields = 0
        self._task: asyncio.Task[Any] | None = None

    def call(self, fn: Callable[[], Any]) -> Any:
        """The function's value, awaited if it is a coroutine."""
        self.cause, self._task, self._shields = None, None, 0
        try:
            self._inside = True
            value = fn()
            # A new loop for each run: tasks that a run leaves behind end with it.
            return asyncio.run(self._main(value)) if inspect.iscoroutine(value) else value
        finally:
            self._inside = False

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Awaits a coroutine in a plain function."""
        try:
            return asyncio.run(self._main(work))
        finally:
            self._task = None

    async def _main(self, work: Coroutine[Any, Any, Any]) -> Any:
        self._task = asyncio.current_task()
        return await work

    def interrupt(self, cause: Interrupted) -> None:
        """For signal handlers, which run in the main thread between any two bytecodes."""
        if self._inside and self.cause is None:
            self.cause = cause
            if not self._shields:
                self._raise(cause)

    def __enter__(self) -> None:
        self._shields += 1

    def __exit__(self, *_: object) -> None:
        self._shields -= 1
        if self._inside and self.cause is not None and not self._shields:
            self._raise(self.cause)

    def _raise(self, cause: Interrupted) -> None:
        self._inside = False
        task = self._task
        if task is None or asyncio.current_task(task.get_loop()) is task:
            raise cause
        # The coroutine is suspended: it is cancelled there, as it would be in the worker's own loop.
        task.get_loop().call_soon_threadsafe(task.cancel)
