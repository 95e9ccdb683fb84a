"""Intervals: exact multiples of a span after the anchor, computed without iteration."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import BadInput
from mainspring.trigger import At, Calendar, Every, Trigger, at, every

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)

instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
spans = st.one_of(st.integers(1, 10**6), st.integers(1000, 10**9).map(lambda us: us / 10**6))
intervals = st.builds(Every, seconds=spans, anchor=st.none() | instants)


def walk(rule: Trigger, after: datetime, until: datetime) -> list[datetime]:
    found, tick = [], rule.next(after)
    while tick is not None and tick <= until:
        found.append(tick)
        tick = rule.next(tick)
    return found


def test_interval_ticks_are_whole_intervals_after_the_anchor() -> None:
    rule = Every(seconds=300, anchor=NOON + timedelta(seconds=7))
    assert rule.next(NOON) == NOON + timedelta(seconds=7)
    assert rule.next(NOON + timedelta(seconds=7)) == NOON + timedelta(seconds=307)
    assert rule.next(NOON - timedelta(days=1)) == NOON + timedelta(seconds=7) - timedelta(days=1)


def test_an_interval_without_an_anchor_counts_from_the_epoch() -> None:
    assert Every(seconds=3600).next(NOON + timedelta(minutes=1)) == NOON + timedelta(hours=1)


def test_anchored_does_not_replace_a_given_anchor() -> None:
    assert Every(seconds=300).anchored(NOON) == Every(seconds=300, anchor=NOON)
    told = Every(seconds=300, anchor=NOON)
    assert told.anchored(NOON + timedelta(seconds=7)) == told


@given(intervals, instants)
def test_interval_next_is_the_first_tick_strictly_later(rule: Every, after: datetime) -> None:
    tick = rule.next(after)
    assert tick is not None
    assert tick > after >= tick - rule.span
    assert (tick - (rule.anchor or datetime(1970, 1, 1, tzinfo=UTC))) % rule.span == timedelta(0)


@pytest.mark.parametrize("seconds", [0.001, 0.1, 1 / 3, 1, 7, 86_400])
def test_an_interval_does_not_drift_over_ten_thousand_ticks(seconds: float) -> None:
    rule = Every(seconds=seconds, anchor=NOON)
    tick: datetime | None = NOON
    for k in range(1, 10_001):
        assert tick is not None
        tick = rule.next(tick)
        assert tick == NOON + k * rule.span


@given(intervals, instants, st.integers(0, 60), st.integers(0, 40))
def test_count_and_latest_agree_with_next(rule: Every, after: datetime, steps: int, limit: int) -> None:
    until = after + steps * rule.span / 3
    ticks = walk(rule, after, until)
    assert rule.count(after, until, limit=limit) == min(len(ticks), limit)
    assert rule.latest(after, until) == (ticks[-1] if ticks else None)


def test_count_and_latest_of_a_long_range_do_not_iterate() -> None:
    rule = Every(seconds=0.001)
    assert rule.count(NOON, NOON + timedelta(days=3650), limit=10**15) == 3650 * 86_400_000
    assert rule.latest(NOON, NOON + timedelta(days=3650)) == NOON + timedelta(days=3650)


def test_count_and_latest_of_a_reversed_range_are_empty() -> None:
    assert Every(seconds=1).count(NOON, NOON - timedelta(hours=1), limit=5) == 0
    assert Every(seconds=1).latest(NOON, NOON - timedelta(hours=1)) is None


def test_interval_has_no_tick_after_the_last_date() -> None:
    rule = Every(seconds=86_400 * 365)
    assert rule.next(LAST) is None
    assert rule.latest(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)) is None
    assert rule.next(datetime.min.replace(tzinfo=UTC)) is not None


def test_an_interval_does_not_depend_on_the_utc_offset_of_instants() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert Every(seconds=7).next(elsewhere) == Every(seconds=7).next(NOON)
    assert Every(seconds=7, anchor=elsewhere) == Every(seconds=7, anchor=NOON)


def test_an_interval_is_not_changed_by_clock_changes() -> None:
    rule = every(6).hours.in_zone("Europe/Berlin")
    shown = [seen.local.hour for seen in rule.preview(5, after=datetime(2026, 3, 28, 20, tzinfo=UTC))]
    assert shown == [1, 8, 14, 20, 2]


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 0},
        {"seconds": -5},
        {"seconds": 0.0005},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"seconds": 10**12},
        {"seconds": 10**400},
        {"seconds": True},
        {"seconds": "5"},
        {"seconds": 5, "tz": "Europe/Londn"},
        {"seconds": 5, "tz": "../../etc/passwd"},
        {"seconds": 5, "tz": "Europe"},
        {"seconds": 5, "tz": None},
        {"seconds": 5, "anchor": datetime(2026, 1, 1)},
        {"seconds": 5, "anchor": "2026-01-01"},
    ],
    ids=lambda given: str(given)[:40],
)
def test_an_invalid_interval_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Every(**given)


def test_interval_refuses_an_unknown_zone_with_a_suggestion() -> None:
    with pytest.raises(BadInput, match="there is no time zone 'europe/londn'; did you mean Europe/London"):
        Every(seconds=5, tz="europe/londn")


def test_interval_next_refuses_a_naive_datetime() -> None:
    with pytest.raises(BadInput, match=r"has no zone: give one, as in datetime\(..., tzinfo=UTC\)"):
        Every(seconds=5).next(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (every(5).minutes, "every 5 minutes"),
        (every().second, "every second"),
        (every(90).minutes, "every 90 minutes"),
        (every(48).hours, "every 2 days"),
        (every(2).weeks, "every 2 weeks"),
        (every(0.25).seconds, "every 0.25 seconds"),
        (every().hour.at(":15"), "every hour at :15"),
        (every(2).hours.at(":05:30"), "every 2 hours at :05:30"),
        (every(5).minutes.starting(NOON), "every 5 minutes, counted from 28 March 2026, 12:00 UTC"),
    ],
)
def test_interval_is_explained_in_words(rule: Trigger, words: str) -> None:
    assert rule.explain() == words


def test_interval_below_a_second_has_a_warning() -> None:
    assert every(0.5).seconds.warnings() == ["every 0.5 seconds makes 172,800 jobs a day"]
    assert every().second.warnings() == []


@pytest.mark.parametrize(
    "rule",
    [
        every(5).minutes,
        every(0.1).seconds.starting(NOON),
        every().day.at("09:00", "17:30:15", tz="Europe/London"),
        every(2).weeks.on("mon", "thu").at("14:30").starting(NOON),
        at(NOON),
        at("2030-01-01T09:00", tz="Europe/London"),
    ],
    ids=lambda rule: rule.explain(),
)
def test_triggers_survive_encoding_to_json(rule: Trigger) -> None:
    assert msgspec.json.decode(msgspec.json.encode(rule), type=Every | Calendar | At) == rule


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "every", "seconds": 0}',
        '{"kind": "every", "seconds": 5, "tz": "Nowhere"}',
        '{"kind": "calendar"}',
        '{"kind": "calendar", "days": 1, "times": ["25:00"]}',
        '{"kind": "calendar", "weeks": 1, "weekdays": [7]}',
        '{"kind": "at", "when": "2011-12-30T09:00", "tz": "Pacific/Apia"}',
    ],
)
def test_a_decoded_trigger_is_validated(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Every | Calendar | At)
