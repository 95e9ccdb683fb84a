"""At: a trigger that ticks once, at an unambiguous time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring import BadInput
from mainspring.trigger import At, at

NINE = datetime(2030, 1, 1, 9, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def test_at_ticks_once() -> None:
    rule = at(NINE)
    assert rule.next(NINE - timedelta(microseconds=1)) == NINE
    assert rule.next(NINE) is None
    assert rule.count(NINE - timedelta(days=1), NINE, limit=5) == 1
    assert rule.latest(NINE - timedelta(days=1), NINE + timedelta(days=1)) == NINE
    assert rule.latest(NINE, NINE + timedelta(days=1)) is None


@pytest.mark.parametrize(
    ("rule", "tick"),
    [
        (at("2030-07-01T09:00", tz="Europe/London"), datetime(2030, 7, 1, 8, tzinfo=UTC)),
        (at("2030-07-01T09:00+02:00"), datetime(2030, 7, 1, 7, tzinfo=UTC)),
        (at("2030-07-01T09:00Z", tz="Europe/London"), datetime(2030, 7, 1, 9, tzinfo=UTC)),
        (at(datetime(2030, 7, 1, 9), tz="Europe/London"), datetime(2030, 7, 1, 8, tzinfo=UTC)),
        (at(datetime(2030, 7, 1, 9, tzinfo=BERLIN)), datetime(2030, 7, 1, 7, tzinfo=UTC)),
        (at(datetime(2030, 7, 1, 9, tzinfo=timezone(timedelta(hours=5)))), datetime(2030, 7, 1, 4, tzinfo=UTC)),
        (at(datetime(2030, 7, 1, 9, 0, 0, 250_000, tzinfo=UTC)), datetime(2030, 7, 1, 9, 0, 0, 250_000, tzinfo=UTC)),
        (at("2026-03-29T02:30", tz="Europe/Berlin"), datetime(2026, 3, 29, 1, tzinfo=UTC)),
        (at("2026-10-25T02:30", tz="Europe/Berlin"), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (at(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_at_ticks_at_the_given_instant(rule: At, tick: datetime) -> None:
    assert rule.next(datetime(2000, 1, 1, tzinfo=UTC)) == tick


def test_a_wall_clock_time_is_kept_with_the_name_of_its_zone() -> None:
    assert at(datetime(2030, 7, 1, 9, tzinfo=BERLIN)) == At(when=datetime(2030, 7, 1, 9), tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("say", "way_out"),
    [
        (lambda: at(datetime(2030, 1, 1)), "give the zone, as at(datetime(..., tzinfo=UTC))"),
        (lambda: at("2030-01-01T09:00"), "give the zone"),
        (lambda: at("tomorrow"), "write '2030-01-01T09:00'"),
        (lambda: at(5), "write at(datetime("),
        (lambda: at("2030-01-01T09:00", tz="Europe/Londn"), "did you mean Europe/London"),
        (lambda: at("2011-12-30T09:00", tz="Pacific/Apia"), "does not exist in Pacific/Apia: choose another day"),
        (lambda: At(when="2030-01-01"), "needs a datetime"),
        (lambda: at(NINE).next(datetime(2030, 1, 1)), "give one, as in datetime(..., tzinfo=UTC)"),
    ],
)
def test_at_refuses_an_ambiguous_time(say: Callable[[], Any], way_out: str) -> None:
    with pytest.raises(BadInput) as refused:
        say()
    assert way_out in str(refused.value)


@pytest.mark.parametrize(
    "say",
    [
        lambda: at(datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))),
        lambda: at(datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
        lambda: at("9999-12-31T23:59", tz="America/New_York"),
        lambda: at("0001-01-01T00:00", tz="Asia/Tokyo"),
    ],
)
def test_at_refuses_a_time_beyond_the_calendar(say: Callable[[], Any]) -> None:
    with pytest.raises(BadInput, match="not within the years 1 to 9999 in UTC"):
        say()


def test_at_is_explained_in_words() -> None:
    assert at("2030-01-01T09:00", tz="Europe/London").explain() == "once, on 1 January 2030 at 09:00, Europe/London"
    assert at(NINE).explain() == "once, on 1 January 2030 at 09:00, UTC"


def test_at_notes_a_clock_change() -> None:
    skipped = at("2026-03-29T02:30", tz="Europe/Berlin")
    assert skipped.warnings() == ["29 March 2026, 02:30 does not exist: runs at 03:00"]
    assert skipped.preview(5, after=datetime(2026, 1, 1, tzinfo=UTC))[0].note == skipped.warnings()[0]
    twice = at("2026-10-25T02:30", tz="Europe/Berlin")
    assert twice.warnings() == ["25 October 2026, 02:30 comes twice: runs the first time"]
    assert at(NINE).warnings() == []
