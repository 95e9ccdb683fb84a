"""Runs and statistics of a schedule in responses."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec.structs import asdict, replace

from ...control.schedule_history import ScheduleRun, ScheduleStats
from ..access.redaction import redact_error, redact_message, redact_reason
from .job_view import ExecutionView, execution_view


class ScheduleExecution(ExecutionView, frozen=True, kw_only=True):
    """A finished run, with the tick that its job was created for. It has all fields of a Tick, for clients from before
    ticks had their own route."""

    n: int
    """The tick's number in its schedule."""
    at: datetime
    """The tick's instant."""
    seen_at: datetime
    """When it was fired."""
    what: Literal["fired"] = "fired"
    reason: str = ""
    """by_hand or backfill, if no trigger fired it."""


def schedule_execution(run: ScheduleRun) -> ScheduleExecution:
    tick = run.tick
    return ScheduleExecution(
        **asdict(execution_view(run.execution)), n=tick.n, at=tick.at, seen_at=tick.seen_at, reason=tick.reason
    )


def redact_stats(stats: ScheduleStats) -> ScheduleStats:
    """The statistics with error texts redacted. Reasons that become equal are added up."""
    reasons: dict[str, int] = {}
    for reason, count in stats.reasons.items():
        redacted = redact_reason(reason)
        reasons[redacted] = reasons.get(redacted, 0) + count
    errors = [replace(one, error=redact_error(one.error), message=redact_message(one.message)) for one in stats.errors]
    return replace(stats, reasons=reasons, errors=errors)
