"""Ticks that a change of a schedule omits: each is recorded once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from mainspring import every
from mainspring.schedule.edit import create, redefine, reschedule
from mainspring.schedule.plan import plan
from mainspring.schedule.record import Schedule, Spec

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def schedule(**options: Any) -> Schedule:
    return create("s", Spec(trigger=every(10).seconds, task="t", **options), owner="user", now=NOON)


def test_an_omitted_tick_is_recorded_once_although_the_next_tick_is_rescheduled() -> None:
    row = schedule(exclude=(date(2030, 1, 1),))
    moved = reschedule(row, later(35), now=later(31))
    fired = plan(moved.schedule, now=later(36), new_job_id=lambda: "j")
    told = [(tick.reason, tick.at, tick.count) for tick in (*moved.ticks, *fired.ticks) if tick.what == "skipped"]
    assert told == [("excluded", later(10), 3)]


def test_redefine_of_an_after_finish_schedule_skips_one_tick() -> None:
    row = schedule(after="finish")
    firing = redefine(row, replace(row.spec, trigger=every(7).seconds), now=later(45))
    assert [(tick.reason, tick.at, tick.last_at, tick.count) for tick in firing.ticks] == [
        ("changed", later(10), None, 1)
    ]
