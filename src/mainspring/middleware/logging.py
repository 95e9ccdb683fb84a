"""Logging: a log line when a run begins, and one with its duration when it ends."""

from __future__ import annotations

import logging
from typing import Any

from ..clock import Clock, SystemClock
from ..records.outcome import failure_of
from ..task.context import Context, run_fields
from . import Next
from .status import Status, status_of

_LEVELS: dict[Status, int] = {"failed": logging.WARNING, "timeout": logging.WARNING, "discarded": logging.WARNING}


class Logging:
    """Mainspring(..., middleware=[Logging()]): logs the start, duration and result of each run.

    Records have job_id, task, queue, attempt, worker and schedule; the one at the end also status and duration, in
    seconds. Failed runs are logged as warnings, others at `level`. Arguments are never logged.
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, level: int = logging.INFO, clock: Clock | None = None
    ) -> None:
        self._logger = logger or logging.getLogger("mainspring.run")
        self._level = level
        self._clock = clock or SystemClock()

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        began = self._clock.monotonic()
        self._log(ctx, self._level, "began", {})
        try:
            value = await call_next(ctx)
        except BaseException as error:
            self._ended(ctx, error, began)
            raise
        self._ended(ctx, value, began)
        return value

    def _ended(self, ctx: Context, ended: Any, began: float) -> None:
        status, duration = status_of(ended, ctx), self._clock.monotonic() - began
        text = f"{status} in {duration:.3f} s"
        if isinstance(ended, Exception):
            failure = failure_of(ended, stack=False)
            text += f": {failure.type}: {failure.message}"
        self._log(ctx, _LEVELS.get(status, self._level), text, {"status": status, "duration": duration})

    def _log(self, ctx: Context, level: int, text: str, extras: dict[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        job = ctx.job
        extra = {**run_fields(job), **extras}
        self._logger.log(level, "%s %s, attempt %d: %s", job.task, job.id, job.attempt, text, extra=extra)
