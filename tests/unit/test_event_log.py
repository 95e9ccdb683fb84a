"""The event log: what schedules did, and why a tick made no job."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.events import Bus, SchedulePaused, TickFired, TickPassed
from mainspring.logs.event_log import log_events
from mainspring.schedule.record import Tick

NINE = datetime(2030, 1, 1, 9, tzinfo=UTC)


def tick(what: Any, reason: str = "", count: int = 1, **more: Any) -> Tick:
    last = NINE + timedelta(hours=count - 1) if count > 1 else None
    return Tick(n=1, at=NINE, seen_at=NINE, what=what, reason=reason, count=count, last_at=last, **more)


@pytest.fixture
def bus(caplog: pytest.LogCaptureFixture) -> Bus:
    caplog.set_level(logging.DEBUG, "mainspring")
    bus = Bus()
    log_events(bus, debug=False)
    return bus


def said(caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    (record,) = caplog.records
    return record.levelname, record.getMessage()


PASSED = [
    ("skipped", "overlap", 1, "WARNING",
     "schedule 'daily' skipped its tick of 2030-01-01 09:00:00 UTC: the run before is still going (overlap)"),
    ("missed", "catch_up", 5, "WARNING",
     "schedule 'daily' missed 5 ticks, 2030-01-01 09:00:00 to 2030-01-01 13:00:00 UTC: "
     "no worker was there in time (catch_up)"),
    ("missed", "too_old", 1, "WARNING",
     "schedule 'daily' missed its tick of 2030-01-01 09:00:00 UTC: "
     "no worker was there in time, and catch_up_window is over"),
    ("skipped", "dependency", 1, "WARNING",
     "schedule 'daily' skipped its tick of 2030-01-01 09:00:00 UTC: "
     "what it depends on had not succeeded when the next tick came (depends_on)"),
    ("skipped", "input: OSError: no route", 1, "WARNING",
     "schedule 'daily' skipped its tick of 2030-01-01 09:00:00 UTC: input: OSError: no route"),
    ("skipped", "paused", 2, "INFO",
     "schedule 'daily' skipped 2 ticks, 2030-01-01 09:00:00 to 2030-01-01 10:00:00 UTC: the schedule was paused"),
    ("skipped", "window", 1, "DEBUG",
     "schedule 'daily' skipped its tick of 2030-01-01 09:00:00 UTC: outside its window"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "reason", "count", "level", "line"), PASSED)
def test_a_tick_without_a_job_is_logged_with_its_reason(
    bus: Bus, caplog: pytest.LogCaptureFixture, what: str, reason: str, count: int, level: str, line: str
) -> None:
    bus.emit(TickPassed(at=NINE, schedule="daily", tick=tick(what, reason, count)))
    assert said(caplog) == (level, line)
    assert caplog.records[0].__dict__["schedule"] == "daily"


def test_a_fired_tick_is_logged_at_debug(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.emit(TickFired(at=NINE, schedule="daily", tick=tick("fired", "by_hand", job_id="42")))
    assert said(caplog) == ("DEBUG", "schedule 'daily' fired its tick of 2030-01-01 09:00:00 UTC (by_hand): job 42")


def test_a_schedule_paused_by_failures_is_logged_as_a_warning(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.emit(SchedulePaused(at=NINE, schedule="daily", note="paused after 3 failures in a row"))
    line = "schedule 'daily' is paused after 3 failures in a row; it makes no more jobs until it is resumed"
    assert said(caplog) == ("WARNING", line)
