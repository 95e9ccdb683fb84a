"""Errors that a loop survives: each is counted, and the log has one line a minute for each kind."""

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
# The meters of the measured apps of this process. A loop of a store does not know which app it works for.
_meters: WeakSet[Counters] = WeakSet()


def count_in(meter: Counters) -> None:
    """Counts the survived errors of this process in `meter` too, from now on."""
    _meters.add(meter)


def count_error(loop: str, error: BaseException) -> None:
    """Counts an error that the caller logs itself."""
    for meter in tuple(_meters):
        meter.count(METRIC, loop, type(error).__name__)


def count_unreadable(kind: str) -> None:
    """Counts a record of that kind that cannot be decoded."""
    for meter in tuple(_meters):
        meter.count(UNREADABLE_METRIC, kind)


def is_own_cancellation(error: BaseException) -> bool:
    """Whether it is the cancellation of the task that asks, and not one that code called by it has raised."""
    task = asyncio.current_task()
    return issubclass(type(error), asyncio.CancelledError) and task is not None and task.cancelling() > 0


class SurvivedErrors:
    """Those of one loop, the value of the metric's label `loop`."""

    def __init__(self, loop: str, consequence: str) -> None:
        """`consequence` ends the log line: what does not work now, and what happens next."""
        self._loop = loop
        self._consequence = consequence
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def __call__(self, error: BaseException) -> None:
        """Counts the error; logs it, with its traceback if it is not one of ours, unless its kind was just logged."""
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
        """Ends the block at an error of these kinds, which is counted and logged."""
        try:
            yield
        except kinds as error:
            self(error)
