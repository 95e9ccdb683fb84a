"""Ticks, runs and statistics of a schedule as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec.structs import asdict, replace

from ...control.schedule_history import ScheduleRun, ScheduleStats
from ..access.redaction import shown_error, shown_message, shown_reason
from .job_view import ExecutionView, execution_view


class ScheduleExecution(ExecutionView, frozen=True, kw_only=True):
    """One run that has ended, with the tick that its job was made for. A Tick can be read from it, too: that is what
    this address answered with before ticks had their own."""

    n: int
    """The tick's number in its schedule."""
    at: datetime
    """The tick's own instant."""
    seen_at: datetime
    """When it was fired."""
    what: Literal["fired"] = "fired"
    reason: str = ""
    """by_hand or backfill, where no trigger fired it."""


def schedule_execution(run: ScheduleRun) -> ScheduleExecution:
    tick = run.tick
    return ScheduleExecution(
        **asdict(execution_view(run.execution)), n=tick.n, at=tick.at, seen_at=tick.seen_at, reason=tick.reason
    )


def shown_stats(stats: ScheduleStats) -> ScheduleStats:
    reasons: dict[str, int] = {}
    for reason, count in stats.reasons.items():
        shown = shown_reason(reason)
        reasons[shown] = reasons.get(shown, 0) + count
    errors = [replace(one, error=shown_error(one.error), message=shown_message(one.message)) for one in stats.errors]
    return replace(stats, reasons=reasons, errors=errors)
