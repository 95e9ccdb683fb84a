"""Windows: which instants are inside, and when they open, across midnight and clock changes."""

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
def test_window_of_accepts_tuples_and_mappings(said: Any, window: Window) -> None:
    assert Window.of(said) == window


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        (("08:00", "08:00"), "is empty: give another closing time"),
        (("08:00",), "the first two are needed"),
        (("08:00", "18:00", None, None, "skip", "more"), "it has opens, closes, days, tz, outside"),
        ({"opens": "08:00", "close": "18:00"}, "it has opens, closes, days, tz, outside"),
        ("08:00-18:00", "write it as ('08:00', '18:00')"),
        (5, "write it as ('08:00', '18:00')"),
        (("24:00", "08:00"), "'24:00' is not a time of day"),
        (("08:00", "25:00"), "'25:00' is not a time of day"),
        ((8, 18), "write it as '09:00'"),
        (("08:00", "18:00", "mon-fry"), "'fry' is not a weekday; write 'friday'"),
        (("08:00", "18:00", ()), "no weekday is given"),
        (("08:00", "18:00", 1.5), "write them as 'mon-fri'"),
        (("08:00", "18:00", None, "Nowhere"), "no time zone 'Nowhere'"),
        (("08:00", "18:00", None, None, "drop"), "'skip' or 'move'"),
    ],
)
def test_window_of_refuses_malformed_values(said: Any, way_out: str) -> None:
    with pytest.raises(BadInput) as refused:
        Window.of(said)
    assert way_out in str(refused.value)


def test_a_window_includes_its_opening_and_excludes_its_closing() -> None:
    window = Window("08:00", "18:00")
    inside = [window.inside(at) for at in (utc(28, 7, 59), utc(28, 8), utc(28, 17, 59), utc(28, 18))]
    assert inside == [False, True, True, False]


def test_a_window_may_close_at_the_end_of_the_day() -> None:
    window = Window("08:00", "24:00")
    assert window.inside(utc(28, 23, 59))
    assert not window.inside(utc(29, 0))


def test_a_window_across_midnight_counts_by_the_day_of_its_opening() -> None:
    window = Window("22:00", "06:00", "fri")  # the 27th
    inside = [window.inside(at) for at in (utc(27, 5), utc(27, 22), utc(28, 5, 59), utc(28, 6), utc(28, 22))]
    assert inside == [False, True, True, False, False]


def test_the_next_window_opening_is_strictly_later() -> None:
    window = Window("08:00", "18:00", "mon-fri")
    assert window.opening(utc(27, 7)) == utc(27, 8)
    assert window.opening(utc(27, 8)) == utc(30, 8)
    assert window.opened(utc(30, 8)) == utc(30, 8)
    assert window.opened(utc(30, 7)) == utc(27, 8)


def test_a_window_with_a_skipped_opening_opens_right_after_the_gap() -> None:
    window = Window("02:30", "05:00", tz="Europe/Berlin")
    assert window.opening(utc(28, 12)) == utc(29, 1)
    assert window.inside(utc(29, 1))
    assert not window.inside(utc(29, 0, 59))


def test_a_window_skipped_by_a_clock_change_does_not_open() -> None:
    window = Window("02:10", "02:50", tz="Europe/Berlin")
    assert window.opening(utc(28, 12)) == utc(30, 0, 10)
    assert not window.inside(utc(29, 1))


def test_a_window_opens_and_closes_at_the_first_of_a_repeated_hour() -> None:
    opens, closes = Window("02:30", "05:00", tz="Europe/Berlin"), Window("00:00", "02:30", tz="Europe/Berlin")
    assert opens.opening(utc(24, 12, month=10)) == utc(25, 0, 30, month=10)
    assert opens.inside(utc(25, 1, 10, month=10))  # 02:10, the second time
    assert closes.inside(utc(25, 0, 29, month=10))
    assert not closes.inside(utc(25, 0, 30, month=10))


@cache
def slow_edge(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first minute, searched from 1.5 days before, whose wall-clock time is `wall` or later."""
    at = wall.replace(tzinfo=UTC) - 1.5 * DAY
    while at.astimezone(zone).replace(tzinfo=None) < wall:
        at += MINUTE
    return at


@settings(max_examples=25, deadline=None)
@given(PLACES, HOURS, HOURS | st.just("24:00"), DAYS, st.integers(-3000, 3000))
def test_a_window_agrees_with_the_slow_evaluator(
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


def test_a_window_without_a_zone_uses_the_zone_of_its_trigger() -> None:
    assert Window("08:00", "18:00").zoned("Asia/Tokyo").tz == "Asia/Tokyo"
    assert Window("08:00", "18:00", tz="UTC").zoned("Asia/Tokyo").tz == "UTC"


def test_a_window_has_no_opening_after_the_last_date() -> None:
    assert Window("08:00", "18:00", tz="Asia/Tokyo").opening(datetime(9999, 12, 31, 12, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Window("08:00", "18:00"), "08:00-18:00"),
        (Window("22:00", "06:00", "mon-fri", "Europe/London"), "22:00-06:00 on weekdays, Europe/London"),
        (Window("08:00", "18:00", "mon,wed"), "08:00-18:00 on Monday and Wednesday"),
    ],
)
def test_window_is_explained_in_words(window: Window, words: str) -> None:
    assert window.explain() == words


def test_a_window_survives_encoding_to_json_and_is_validated() -> None:
    window = Window("22:00", "06:00", "mon-fri", "Europe/London", "move")
    assert msgspec.json.decode(msgspec.json.encode(window), type=Window) == window
    with pytest.raises(msgspec.ValidationError, match="is empty"):
        msgspec.json.decode('{"opens": "08:00", "closes": "8:00"}', type=Window)
