"""What changes of the clocks do to a cron expression, told in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from .cron_description import join_words
from .cron_plan import CronPlan
from .wall_clock import date_text, time_text
from .zone import Change, change_at, changes

_SECOND = timedelta(seconds=1)
_ALL_HOURS = (1 << 24) - 1
# So many times are named one by one.
_MAX_NAMED_TIMES = 3


class Effect(NamedTuple):
    """One change of the clocks that a reader of the schedule should know of."""

    at: datetime
    note: str


def effects(plan: CronPlan, place: ZoneInfo, *, after: datetime, until: datetime) -> list[Effect]:
    """Those later than `after` and not later than `until`."""
    told = [(change.at, _effect_of(plan, change)) for change in changes(after, until, place)]
    return [Effect(at, text) for at, text in told if text]


def note(plan: CronPlan, place: ZoneInfo, tick: datetime) -> str:
    """What a change does to this tick; empty: nothing."""
    wall = tick.astimezone(place).replace(tzinfo=None, fold=0)
    change = change_at(wall, place)
    if change is not None and not _is_quiet(plan):
        return _sentence(plan, change, [wall])
    instant = tick.astimezone(UTC)
    moved = next(changes(instant - _SECOND, instant, place), None)
    return _effect_of(plan, moved) if moved is not None and moved.is_gap and _moves(plan, moved) else ""


def _effect_of(plan: CronPlan, change: Change) -> str:
    if _is_quiet(plan):
        return ""
    walls: list[datetime] = []
    wall = plan.first(change.low)
    while wall is not None and wall < change.high and len(walls) <= _MAX_NAMED_TIMES:
        walls.append(wall)
        wall = plan.first(wall + _SECOND)
    return _sentence(plan, change, walls) if walls else ""


def _is_quiet(plan: CronPlan) -> bool:
    """Elapsed time all day round: nothing happens that a reader would not expect."""
    return plan.fields.follows and plan.hours == _ALL_HOURS


def _moves(plan: CronPlan, change: Change) -> bool:
    return change.is_daylight and not plan.fields.follows


def _sentence(plan: CronPlan, change: Change, walls: list[datetime]) -> str:
    one = len(walls) == 1
    when = f"{date_text(walls[0])}, {_times(walls, change)}"
    if not change.is_gap:
        passes = "the first time" if _moves(plan, change) else "both times"
        return f"{when} {'comes' if one else 'come'} twice: runs {passes}"
    missing = f"{when} {'does' if one else 'do'} not exist"
    if not _moves(plan, change):
        return f"{missing}: left out"
    day = "" if change.high.date() == walls[0].date() else f" on {date_text(change.high)}"
    once = "" if one and plan.first(change.high) != change.high else "once, "
    return f"{missing}: runs {once}at {time_text(change.high)}{day}"


def _times(walls: list[datetime], change: Change) -> str:
    if len(walls) > _MAX_NAMED_TIMES:
        return f"times from {time_text(walls[0])} to before {time_text(change.high)}"
    return join_words([time_text(wall) for wall in walls])
