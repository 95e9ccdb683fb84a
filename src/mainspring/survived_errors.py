"""Errors that a loop survives: each one is counted, and each type is logged at most once a minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from .clock import SystemClock
from .counters import Counters
from .errors import MainspringError

_logger = logging.getLogger("mainspring")
_clock = SystemClock()
METRIC = "mainspring_errors_survived_total"
UNREADABLE_METRIC = "mainspring_records_unreadable_total"
LOG_EVERY_SECONDS = 60.0
# The counters of the apps of this process that have metrics. A loop of a store does not know its app.
_counters: WeakSet[Counters] = WeakSet()


def count_in(counters: Counters) -> None:
    """Counts the survived errors of this process in `counters` too, from now on."""
    _counters.add(counters)


def count_error(loop: str, error: BaseException) -> None:
    """Counts an error that the caller logs."""
    for counters in tuple(_counters):
        counters.count(METRIC, loop, type(error).__name__)


def count_unreadable(kind: str) -> None:
    """Counts a record of that kind that cannot be decoded."""
    for counters in tuple(_counters):
        counters.count(UNREADABLE_METRIC, kind)


def is_own_cancellation(error: BaseException) -> bool:
    """Whether the error is the cancellation of the current task, and not a CancelledError that user code raised."""
    task = asyncio.current_task()
    return issubclass(type(error), asyncio.CancelledError) and task is not None and task.cancelling() > 0


class SurvivedErrors:
    """The survived errors of one loop. `loop` is the metric's label of that name."""

    def __init__(self, loop: str, consequence: str) -> None:
        """`consequence` is the end of the log line: what does not work now, and what happens next."""
        self._loop = loop
        self._consequence = consequence
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def __call__(self, error: BaseException) -> None:
        """Counts the error. Logs it unless its type was logged within a minute; with a traceback if it is a bug."""
        count_error(self._loop, error)
        kind, now = type(error).__name__, _clock.monotonic()
        if now - self._logged_at.get(kind, -LOG_EVERY_SECONDS) < LOG_EVERY_SECONDS:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            return
        self._logged_at[kind] = now
        unlogged = self._unlogged.pop(kind, 0)
        more = f" ({unlogged} more since the last such line)" if unlogged else ""
        bug = None if isinstance(error, MainspringError | OSError) else error
        level, text = logging.ERROR if bug else logging.WARNING, "%s: %s: %s; %s%s"
        _logger.log(level, text, self._loop, kind, error, self._consequence, more, exc_info=bug)

    @contextmanager
    def survive(self, *kinds: type[Exception]) -> Iterator[None]:
        """Ends the block if it raises an error of these types, which is counted and logged."""
        try:
            yield
        except kinds as error:
            self(error)
