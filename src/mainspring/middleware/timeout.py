"""Timeout: interrupts runs that exceed their timeout, with one timer for all runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextvars import Context as ContextVars
from typing import Any

from msgspec import Struct

from ..clock import Clock, Timer
from ..errors import JobTimeout
from ..task.context import Context
from ..task.interruption import Interrupted
from . import Next

# A run that ignores its interruption is interrupted again after this time.
INTERRUPT_EVERY_SECONDS = 1.0


class _Watch(Struct, eq=False):
    """The deadline of one run. A Struct, because every run makes one: it takes a third of the time."""

    at: float
    hard: float
    soft: float | None
    """The soft timeout; None once the hard one has passed."""
    task: asyncio.Task[Any]
    ctx: Context
    fired: bool = False
    cancelled: bool = False
    """Whether one of the task's cancellations is ours."""

    @property
    def over(self) -> bool:
        """Whether the hard timeout has passed: the run's result no longer counts."""
        return self.fired and not self.soft


class Timeout:
    """The middleware. One timer checks all runs: a timer per run would leave millions behind in a fast worker."""

    def __init__(self, clock: Clock, soft: Mapping[str, float] = {}) -> None:
        """`soft` has the soft timeouts by task: the result of a run after a soft timeout still counts."""
        self._clock = clock
        self._soft = soft
        self._watches: dict[_Watch, None] = {}  # ordered, so that simulations are reproducible
        self._loop: asyncio.AbstractEventLoop | None = None
        self._earliest = math.inf
        self._timer: Timer | None = None

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        """Returns or raises what the run does, or raises JobTimeout if its time was over."""
        self._loop = self._loop or asyncio.get_running_loop()
        task, soft = asyncio.current_task(self._loop), self._soft.get(ctx.job.task)
        if (ctx.timeout is None and soft is None) or task is None:
            return await call_next(ctx)
        began = self._clock.monotonic()
        hard = math.inf if ctx.timeout is None else began + ctx.timeout
        at = hard if soft is None else min(hard, began + soft)
        watch = _Watch(at, hard, soft, task, ctx)
        self._watches[watch] = None
        if at < self._earliest:
            self._arm(at)
        try:
            value = await call_next(ctx)
        except asyncio.CancelledError:
            # Cancelled only by us: a timeout. If others cancelled it too, theirs counts.
            if watch.cancelled and task.uncancel() == 0:
                raise _timeout_error(watch) from None
            raise
        except BaseException as error:
            self._uncancel(watch)
            if watch.over or (watch.fired and isinstance(error, Interrupted)):
                raise _timeout_error(watch) from (None if isinstance(error, Interrupted) else error)
            raise
        finally:
            del self._watches[watch]
        if watch.fired:
            self._uncancel(watch)
            if watch.over:
                raise _timeout_error(watch)
        return value

    def _uncancel(self, watch: _Watch) -> None:
        """Withdraws our cancellation that the run ignored: outer code must not take it for another one."""
        if watch.cancelled:
            watch.task.uncancel()

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._earliest, self._timer = at, None
        if at < math.inf:
            # In an empty context, since the timer belongs to no run: a test clock uses the context to find the run.
            self._timer = ContextVars().run(self._clock.call_later, at - self._clock.monotonic(), self._check)

    def _check(self) -> None:
        now = self._clock.monotonic()
        for watch in self._watches:
            if watch.at <= now + 1e-6:  # a timer may fire early by a rounding error
                if watch.at < watch.hard:
                    self._interrupt_softly(watch)
                else:
                    self._interrupt_hard(watch, now)
        self._timer, self._earliest = None, math.inf
        earliest = min((watch.at for watch in self._watches), default=math.inf)
        if earliest < math.inf:
            self._arm(earliest)

    def _interrupt_softly(self, watch: _Watch) -> None:
        """Interrupts the run at its soft timeout: it may still return a result."""
        watch.at, watch.fired = watch.hard, True
        watch.ctx.cancelled = True
        if watch.ctx.interrupt is not None:
            watch.ctx.interrupt()
        else:
            self._cancel(watch)

    def _interrupt_hard(self, watch: _Watch, now: float) -> None:
        """Interrupts the run at its timeout, and again until it ends."""
        watch.soft, watch.fired, watch.at = None, True, now + INTERRUPT_EVERY_SECONDS
        watch.ctx.stop()
        self._cancel(watch)

    def _cancel(self, watch: _Watch) -> None:
        if watch.cancelled:
            watch.task.uncancel()
        watch.cancelled = True
        watch.task.cancel()


def _timeout_error(watch: _Watch) -> JobTimeout:
    if watch.soft is not None:
        return JobTimeout(f"took longer than its soft_timeout of {watch.soft:g} s")
    return JobTimeout(f"took longer than its timeout of {watch.ctx.timeout:g} s")
