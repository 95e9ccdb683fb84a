"""Cron across clock changes, compared with a slow evaluator and two peers."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mainspring import cron
from mainspring.trigger import Cron
from mainspring.trigger.zone import changes

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
THREE_HOURS = 3 * HOUR
ZONES = sorted(name for name in available_timezones() if "/" in name)


# A slow and simple evaluator: it checks every second.


def numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        start, _, end = body.partition("-")
        if start == "*":
            start, end = str(low), str(high)
        stop = int(end) if end else high if step else int(start)
        found |= set(range(int(start), stop + 1, int(step or 1)))
    return found


class Slow:
    def __init__(self, expr: str, zone: str) -> None:
        columns = expr.split()
        second, minute, hour, day, month, weekday = columns if len(columns) == 6 else ["0", *columns]
        self.zone = ZoneInfo(zone)
        self.fixed = not any(text.startswith("*") for text in (second, minute, hour))
        self.seconds, self.minutes = numbers(second, 0, 59), numbers(minute, 0, 59)
        self.hours, self.months = numbers(hour, 0, 23), numbers(month, 1, 12)
        self.days = None if day == "*" else numbers(day, 1, 31)
        self.weekdays = None if weekday == "*" else numbers(weekday, 0, 6)

    def matches(self, wall: datetime) -> bool:
        if wall.second not in self.seconds or wall.minute not in self.minutes or wall.hour not in self.hours:
            return False
        by_day = None if self.days is None else wall.day in self.days
        by_weekday = None if self.weekdays is None else wall.isoweekday() % 7 in self.weekdays
        if by_day is None or by_weekday is None:
            dated = by_day is not False and by_weekday is not False
        else:
            dated = by_day or by_weekday
        return wall.month in self.months and dated

    def ticks(self, after: datetime, until: datetime) -> list[datetime]:
        """All ticks later than `after`, and not later than `until`."""
        found = []
        instant = after.replace(microsecond=0)
        offset = instant.astimezone(self.zone).utcoffset()
        while (instant := instant + SECOND) <= until:
            wall = instant.astimezone(self.zone)
            before, offset = offset, wall.utcoffset()
            came_before = wall.fold == 1 and wall.replace(fold=0).utcoffset() - offset <= THREE_HOURS
            ticks = self.matches(wall) and not (self.fixed and came_before)
            if self.fixed and timedelta(0) < offset - before <= THREE_HOURS:
                skipped = range(int((offset - before) / SECOND))
                ticks = ticks or any(self.matches(wall.replace(tzinfo=None) - (n + 1) * SECOND) for n in skipped)
            if ticks:
                found.append(instant)
        return found


@lru_cache(maxsize=1000)
def transitions(zone: str, year: int) -> list[datetime]:
    start = datetime(year, 1, 1, tzinfo=UTC)
    return [change.at for change in changes(start, start + timedelta(days=366), ZoneInfo(zone))]


def small(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    return st.one_of(
        number.map(str),
        st.lists(number, min_size=2, max_size=3).map(lambda found: ",".join(map(str, found))),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.integers(2, (high - low + 1) // 2).map(lambda step: f"*/{step}"),
        st.tuples(number, st.integers(2, 12)).map(lambda given: f"{given[0]}/{min(given[1], high)}"),
    )


def maybe(field: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), field)


# Hours in which clocks change.
night = st.one_of(st.just("*"), st.sampled_from(["0", "1", "2", "3", "0-3", "1,2", "*/2", "23", "22-23", "2/1"]))
times = st.tuples(maybe(small(0, 59)), night).map(" ".join)
seconds = st.one_of(st.just(""), st.sampled_from(["0 ", "*/20 ", "30 ", "15,45 "]))
days = st.one_of(st.just("* * *"), st.tuples(maybe(small(1, 31)), st.just("*"), maybe(small(0, 6))).map(" ".join))
expressions = st.tuples(seconds, times, days).map(lambda parts: f"{parts[0]}{parts[1]} {parts[2]}")
zones, years = st.sampled_from(ZONES), st.integers(1950, 2080)


@st.composite
def near_changes(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant within some two hours of a change of its clocks."""
    zone = draw(zones)
    found = transitions(zone, draw(years))
    assume(found)
    shift = draw(st.integers(-150, 150)) * timedelta(minutes=1) + draw(st.sampled_from([timedelta(0), -SECOND, SECOND]))
    return zone, draw(st.sampled_from(found)) + shift


@settings(max_examples=60, deadline=None)
@given(expressions, near_changes())
def test_cron_agrees_with_the_slow_evaluator_around_clock_changes(expr: str, place: tuple[str, datetime]) -> None:
    zone, after = place
    until = after + 3 * HOUR
    rule, found, tick = cron(expr, tz=zone), [], after
    while (tick := rule.next(tick)) is not None and tick <= until:
        found.append(tick)
    assert found == Slow(expr, zone).ticks(after, until)


@settings(max_examples=150, deadline=None)
@given(expressions, near_changes(), st.integers(0, 999_999))
def test_cron_next_is_strictly_later_and_monotonic(expr: str, place: tuple[str, datetime], micros: int) -> None:
    zone, after = place
    after += timedelta(microseconds=micros)
    rule = cron(expr, tz=zone)
    tick = rule.next(after)
    assert after < tick
    # From any instant before that tick, next() returns that tick: it is monotonic too.
    assert rule.next(after + (tick - after) / 2) == tick
    assert rule.next(tick - timedelta(microseconds=1)) == tick
    assert rule.next(tick) > tick


@pytest.mark.parametrize(
    ("zone", "expr", "after", "expected"),
    [
        # the skipped hour
        ("Europe/Berlin", "30 2 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("Europe/Berlin", "0,15,30 2 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        ("Europe/Berlin", "30 2,3 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]),
        ("Europe/Berlin", "0 2,3 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        ("Europe/Berlin", "0 30 2 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-03-29T00:00:00Z", ["2026-03-30T00:00:00Z"]),
        ("Europe/Berlin", "30 2 29 3 *", "2025-04-01T00:00:00Z", ["2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z"]),
        # the repeated hour
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T23:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T01:10:00Z", ["2026-10-26T01:30:00Z"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T00:50:00Z", ["2026-10-26T01:30:00Z"]),
        ("Europe/Berlin", "0 3 * * *", "2026-10-25T01:10:00Z", ["2026-10-25T02:00:00Z"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-10-25T00:30:00Z", ["2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"]),
        ("Europe/Berlin", "* * * * *", "2026-10-25T00:59:00Z", ["2026-10-25T01:00:00Z", "2026-10-25T01:01:00Z"]),
        # no daylight saving: a skipped day, and a repeated day
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T00:00:00Z", ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]),
        ("Pacific/Apia", "0 12 30 * *", "2011-12-01T00:00:00Z", ["2012-01-29T22:00:00Z"]),
        ("Pacific/Kwajalein", "0 12 * * *", "1969-09-29T12:00:00Z", ["1969-09-30T01:00:00Z", "1969-10-01T00:00:00Z"]),
        ("America/Juneau", "0 12 * * *", "1867-10-17T00:00:00Z", ["1867-10-17T20:57:41Z", "1867-10-18T20:57:41Z"]),
        # half an hour, and half the world away
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T15:00:00Z", ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]),
        ("Antarctica/Troll", "0 2 * * *", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
    ],
)  # fmt: skip
def test_cron_ticks_across_clock_changes(zone: str, expr: str, after: str, expected: list[str]) -> None:
    rule, tick = cron(expr, tz=zone), datetime.fromisoformat(after)
    for instant in expected:
        tick = rule.next(tick)
        assert tick == datetime.fromisoformat(instant)


SIX_ZONES = (
    "Europe/London",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "America/Santiago",
    "Asia/Tokyo",
)


def year_of(rule: Cron, start: datetime, end: datetime) -> list[datetime]:
    found, tick = [], start
    while (tick := rule.next(tick)) is not None and tick <= end:
        found.append(tick)
    return found


@pytest.mark.parametrize("zone", SIX_ZONES)
@pytest.mark.parametrize("expr", ["30 1 * * *", "0 */2 * * *", "15,45 0-3 * * *"])
def test_cron_next_from_any_hour_of_a_year_loses_and_repeats_no_tick(zone: str, expr: str) -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    rule = cron(expr, tz=zone)
    all_ticks = year_of(rule, start, end + timedelta(days=1))
    for hour in range(365 * 24):
        asked = start + hour * HOUR
        assert rule.next(asked) == all_ticks[bisect_right(all_ticks, asked)]


@pytest.mark.parametrize("zone", SIX_ZONES)
def test_a_daily_cron_ticks_once_on_every_day_of_a_year(zone: str) -> None:
    for expr in ("30 1 * * *", "15 2 * * *", "30 0 * * *"):
        start, end = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone)), datetime(2027, 1, 1, tzinfo=ZoneInfo(zone))
        days = [tick.astimezone(ZoneInfo(zone)).date() for tick in year_of(cron(expr, tz=zone), start, end)]
        assert len(days) == len(set(days)) == 365


plain = st.tuples(
    maybe(small(0, 59)), maybe(small(0, 23)), st.one_of(
        st.tuples(maybe(small(1, 28)), maybe(small(1, 12))).map(lambda pair: f"{pair[0]} {pair[1]} *"),
        st.tuples(maybe(small(1, 12)), maybe(small(0, 6))).map(lambda pair: f"* {pair[0]} {pair[1]}"),
        st.tuples(st.integers(1, 28), st.integers(0, 6)).map(lambda pair: f"{pair[0]} * {pair[1]}"),
    ),
).map(" ".join)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(plain, st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)))
def test_cron_agrees_with_two_peers_where_they_agree(expr: str, start: datetime) -> None:
    start = start.replace(microsecond=0)
    theirs = next(CronSim(expr, start))
    assume(croniter(expr, start).get_next(datetime) == theirs)
    assert cron(expr).next(start.replace(tzinfo=UTC)) == theirs.replace(tzinfo=UTC)


@settings(max_examples=100, deadline=None)
@given(plain, zones, st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1)))
def test_cron_agrees_with_peers_in_zones_away_from_clock_changes(expr: str, zone: str, start: datetime) -> None:
    place = ZoneInfo(zone)
    start = start.replace(microsecond=0, tzinfo=UTC).astimezone(place)
    theirs = next(CronSim(expr, start))
    assume(croniter(expr, start).get_next(datetime) == theirs)
    quiet = {
        (instant.astimezone(place)).utcoffset() for instant in (start - 12 * HOUR, start, theirs - 12 * HOUR, theirs)
    }
    assume(len(quiet) == 1 and theirs - start < timedelta(days=60))
    assert cron(expr, tz=zone).next(start) == theirs


def test_clock_changes_of_a_zone_are_found_exactly() -> None:
    place = ZoneInfo("Africa/Casablanca")
    start = datetime(2025, 1, 1, tzinfo=UTC)
    found = list(changes(start, start + timedelta(days=365), place))
    hours = [start + n * HOUR for n in range(365 * 24)]
    offsets = [hour.astimezone(place).utcoffset() for hour in hours]
    assert [change.at for change in found] == [
        hour for hour, now, before in zip(hours[1:], offsets[1:], offsets, strict=False) if now != before
    ]
    assert [change.is_gap for change in found] == [False, True]
