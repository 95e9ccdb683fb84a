"""Clock changes: what daylight saving does to a cron expression, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from .cron_plan import CronPlan
from .wall_clock import date_text, time_text
from .zone import Change, change_at, changes

_SECOND = timedelta(seconds=1)
_ALL_HOURS = (1 << 24) - 1
# Times that are named one by one.
_MAX_NAMED_TIMES = 3


class Effect(NamedTuple):
    """A clock change that affects a rule, described in words."""

    at: datetime
    note: str


def effects(plan: CronPlan, zone: ZoneInfo, *, after: datetime, until: datetime) -> list[Effect]:
    """The effects after `after`, up to and including `until`."""
    found = [(change.at, _effect_of(plan, change)) for change in changes(after, until, zone)]
    return [Effect(at, text) for at, text in found if text]


def note(plan: CronPlan, zone: ZoneInfo, tick: datetime) -> str:
    """The effect of a clock change on this tick; empty if there is none."""
    wall = tick.astimezone(zone).replace(tzinfo=None, fold=0)
    change = change_at(wall, zone)
    if change is not None and not _is_quiet(plan):
        return _sentence(plan, change, [wall])
    instant = tick.astimezone(UTC)
    gap = next(changes(instant - _SECOND, instant, zone), None)
    return _effect_of(plan, gap) if gap is not None and gap.is_gap and _moves(plan, gap) else ""


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
    """Whether it follows elapsed time all day: a clock change then has no surprising effect."""
    return plan.fields.follows and plan.hours == _ALL_HOURS


def _moves(plan: CronPlan, change: Change) -> bool:
    """Whether times in the gap are moved to its end, and repeated times run once."""
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
    from .cron_description import join_words

    return join_words([time_text(wall) for wall in walls])
