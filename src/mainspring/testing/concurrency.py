"""A middleware that counts how many runs overlap."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from ..errors import BadInput
from ..middleware import Next
from ..task.context import Context


class ConcurrencyTester:
    """Records the peak number of concurrent runs: overall, per task and per queue.

    Used as Mainspring(..., middleware=[tester]).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[tuple[str, str]] = Counter()
        self._peaks: Counter[tuple[str, str]] = Counter()
        self.runs = 0

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        groups = [("", ""), ("task", ctx.job.task), ("queue", ctx.job.queue)]
        with self._lock:
            self.runs += 1
            for group in groups:
                self._running[group] += 1
                self._peaks[group] = max(self._peaks[group], self._running[group])
        try:
            return await call_next(ctx)
        finally:
            with self._lock:
                self._running.subtract(groups)

    @property
    def peak(self) -> int:
        """Peak number of concurrent runs."""
        return self._peaks["", ""]

    def peak_of(self, *, task: str | None = None, queue: str | None = None) -> int:
        """Peak number of concurrent runs of one task or one queue."""
        return self._peaks[_group(task, queue)]

    def assert_never_more_than(self, limit: int, *, task: str | None = None, queue: str | None = None) -> None:
        """Raises AssertionError if more runs overlapped, and also if there was no run: then nothing was tested."""
        group = _group(task, queue)
        of = f" of {group[0]} {group[1]!r}" if group[0] else ""
        peak = self._peaks[group]
        if not peak:
            raise AssertionError(f"no run{of} was seen; is this tester in the app's middleware, and did a job run?")
        if peak > limit:
            raise AssertionError(f"{peak} runs{of} at once, which is more than {limit}")


def _group(task: str | None, queue: str | None) -> tuple[str, str]:
    if task is not None and queue is not None:
        raise BadInput("runs are counted per task and per queue, not for both together; ask for one of them")
    return ("task", task) if task is not None else ("queue", queue) if queue is not None else ("", "")
