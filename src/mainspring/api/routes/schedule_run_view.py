"""Ticks, runs and statistics of a schedule as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec.structs import asdict, replace

from ...control.schedule_history import ScheduleRun, ScheduleStats
from ...schedule import Tick
from ..access.redaction import shown_error, shown_message
from .job_view import ExecutionView, execution_view

# A tick's reason that is an error begins so; the others are words of ours.
_ERROR, _LIMIT = "input: ", 200


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


def shown_tick(tick: Tick) -> Tick:
    return replace(tick, reason=_shown(tick.reason)) if tick.reason.startswith(_ERROR) else tick


def shown_stats(stats: ScheduleStats) -> ScheduleStats:
    reasons: dict[str, int] = {}
    for reason, count in stats.reasons.items():
        reasons[_shown(reason)] = reasons.get(_shown(reason), 0) + count
    errors = [replace(one, error=shown_error(one.error), message=shown_message(one.message)) for one in stats.errors]
    return replace(stats, reasons=reasons, errors=errors)


def _shown(reason: str) -> str:
    return shown_error(reason, _LIMIT) if reason.startswith(_ERROR) else reason
