"""Windows: what is inside, when they open, across midnight and changes of the clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import BadInput
from mainspring.trigger import Window

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
HOURS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 15, 30]))
DAYS = st.none() | st.lists(st.integers(0, 6), min_size=1).map(tuple)
PLACES = st.sampled_from([
    ("UTC", date(2026, 3, 28)),
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("America/Havana", date(2026, 3, 8)),
    ("America/Havana", date(2026, 11, 1)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("Pacific/Apia", date(2011, 12, 30)),
])  # fmt: skip


def utc(day: int, hour: int, minute: int = 0, month: int = 3) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "window"),
    [
        (("08:00", "18:00"), Window("08:00", "18:00")),
        (["8:00", "18:00"], Window("08:00", "18:00")),
        (("22:00", "06:00", "mon-fri"), Window("22:00", "06:00", (0, 1, 2, 3, 4))),
        (("22:00", "06:00", ["sat", "sun"], "Europe/London"), Window("22:00", "06:00", (5, 6), "Europe/London")),
        ({"opens": "08:00", "closes": "24:00", "outside": "move"}, Window("08:00", "24:00", outside="move")),
        (Window("08:00", "18:00", "sun,mon"), Window("08:00", "18:00", (0, 6))),
    ],
)
def test_what_users_write_becomes_a_window(said: Any, window: Window) -> None:
    assert Window.of(said) == window


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        (("08:00", "08:00"), "is empty: say when it closes"),
        (("08:00",), "the first two are needed"),
        (("08:00", "18:00", None, None, "skip", "more"), "it has opens, closes, days, tz, outside"),
        ({"opens": "08:00", "close": "18:00"}, "it has opens, closes, days, tz, outside"),
        ("08:00-18:00", "say it as ('08:00', '18:00')"),
        (5, "say it as ('08:00', '18:00')"),
        (("24:00", "08:00"), "'24:00' is not a time of day"),
        (("08:00", "25:00"), "'25:00' is not a time of day"),
        ((8, 18), "say it as '09:00'"),
        (("08:00", "18:00", "mon-fry"), "'fry' is not a weekday; say 'friday'"),
        (("08:00", "18:00", ()), "no weekday is given"),
        (("08:00", "18:00", 1.5), "say them as 'mon-fri'"),
        (("08:00", "18:00", None, "Nowhere"), "no time zone 'Nowhere'"),
        (("08:00", "18:00", None, None, "drop"), "'skip' or 'move'"),
    ],
)
def test_what_is_no_window_is_refused(said: Any, way_out: str) -> None:
    with pytest.raises(BadInput) as refused:
        Window.of(said)
    assert way_out in str(refused.value)


def test_the_opening_is_inside_and_the_closing_is_not() -> None:
    window = Window("08:00", "18:00")
    inside = [window.inside(at) for at in (utc(28, 7, 59), utc(28, 8), utc(28, 17, 59), utc(28, 18))]
    assert inside == [False, True, True, False]


def test_a_window_may_close_at_the_end_of_the_day() -> None:
    window = Window("08:00", "24:00")
    assert window.inside(utc(28, 23, 59))
    assert not window.inside(utc(29, 0))


def test_across_midnight_the_day_of_the_opening_counts() -> None:
    window = Window("22:00", "06:00", "fri")  # the 27th
    inside = [window.inside(at) for at in (utc(27, 5), utc(27, 22), utc(28, 5, 59), utc(28, 6), utc(28, 22))]
    assert inside == [False, True, True, False, False]


def test_the_next_opening_is_strictly_later() -> None:
    window = Window("08:00", "18:00", "mon-fri")
    assert window.opening(utc(27, 7)) == utc(27, 8)
    assert window.opening(utc(27, 8)) == utc(30, 8)
    assert window.opened(utc(30, 8)) == utc(30, 8)
    assert window.opened(utc(30, 7)) == utc(27, 8)


def test_an_opening_that_is_skipped_is_the_first_instant_after_the_gap() -> None:
    window = Window("02:30", "05:00", tz="Europe/Berlin")
    assert window.opening(utc(28, 12)) == utc(29, 1)
    assert window.inside(utc(29, 1))
    assert not window.inside(utc(29, 0, 59))


def test_a_window_that_is_skipped_altogether_does_not_open() -> None:
    window = Window("02:10", "02:50", tz="Europe/Berlin")
    assert window.opening(utc(28, 12)) == utc(30, 0, 10)
    assert not window.inside(utc(29, 1))


def test_in_an_hour_that_comes_twice_a_window_opens_and_closes_the_first_time() -> None:
    opens, closes = Window("02:30", "05:00", tz="Europe/Berlin"), Window("00:00", "02:30", tz="Europe/Berlin")
    assert opens.opening(utc(24, 12, month=10)) == utc(25, 0, 30, month=10)
    assert opens.inside(utc(25, 1, 10, month=10))  # 02:10, the second time
    assert closes.inside(utc(25, 0, 29, month=10))
    assert not closes.inside(utc(25, 0, 30, month=10))


@cache
def slow_edge(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first minute, looking from a day and a half before, at which the clock shows that time or a later one."""
    at = wall.replace(tzinfo=UTC) - 1.5 * DAY
    while at.astimezone(zone).replace(tzinfo=None) < wall:
        at += MINUTE
    return at


@settings(max_examples=25, deadline=None)
@given(PLACES, HOURS, HOURS | st.just("24:00"), DAYS, st.integers(-3000, 3000))
def test_a_window_is_open_as_a_slow_evaluator_says(
    place: tuple[str, date], opens: str, closes: str, days: tuple[int, ...] | None, minutes: int
) -> None:
    if opens == closes:
        return
    tz, day = place
    zone, window = ZoneInfo(tz), Window(opens, closes, days, tz)
    spans = []
    for n in range(-4, 12):
        start = datetime.combine(day + n * DAY, time.fromisoformat(opens))
        last = day + (n + (closes < opens or closes == "24:00")) * DAY
        end = datetime.combine(last, time.fromisoformat(closes.replace("24:", "00:")))
        if days is None or start.weekday() in days:
            spans.append((slow_edge(start, zone), slow_edge(end, zone)))
    spans = [(start, end) for start, end in spans if start < end]
    at = datetime.combine(day, time(12), UTC) + minutes * MINUTE
    assert window.inside(at) == any(start <= at < end for start, end in spans)
    assert window.opening(at) == min(start for start, _ in spans if start > at)


def test_a_window_without_a_zone_takes_that_of_its_trigger() -> None:
    assert Window("08:00", "18:00").zoned("Asia/Tokyo").tz == "Asia/Tokyo"
    assert Window("08:00", "18:00", tz="UTC").zoned("Asia/Tokyo").tz == "UTC"


def test_at_the_end_of_the_calendar_there_is_no_opening_and_no_error() -> None:
    assert Window("08:00", "18:00", tz="Asia/Tokyo").opening(datetime(9999, 12, 31, 12, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Window("08:00", "18:00"), "08:00-18:00"),
        (Window("22:00", "06:00", "mon-fri", "Europe/London"), "22:00-06:00 on weekdays, Europe/London"),
        (Window("08:00", "18:00", "mon,wed"), "08:00-18:00 on Monday and Wednesday"),
    ],
)
def test_a_window_says_what_it_is(window: Window, words: str) -> None:
    assert window.explain() == words


def test_a_window_comes_back_from_json_as_it_was_and_is_checked() -> None:
    window = Window("22:00", "06:00", "mon-fri", "Europe/London", "move")
    assert msgspec.json.decode(msgspec.json.encode(window), type=Window) == window
    with pytest.raises(msgspec.ValidationError, match="is empty"):
        msgspec.json.decode('{"opens": "08:00", "closes": "8:00"}', type=Window)
