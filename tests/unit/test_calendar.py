"""Calendars: days and weeks at wall-clock times, compared with a slow evaluator around clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.trigger import Calendar, Trigger, every

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
# Zones, each with days around which its clocks change: by an hour, half an hour, at midnight, over the date line.
CHANGES = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "Europe/London": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),
    "America/Havana": (date(2026, 3, 8), date(2026, 11, 1)),
    "America/St_Johns": (date(2010, 3, 14), date(2010, 11, 7)),
    "America/Toronto": (date(1919, 3, 30),),
    "Antarctica/Troll": (date(2026, 3, 29), date(2026, 10, 25)),
    "Pacific/Apia": (date(2011, 12, 30),),
    "Pacific/Kwajalein": (date(1969, 9, 30), date(1993, 8, 21)),
    "UTC": (date(2026, 3, 29),),
}
places = st.sampled_from([(tz, day) for tz, days in CHANGES.items() for day in days])
texts = st.lists(
    st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 59])), min_size=1, max_size=3
)
rules = st.one_of(
    st.builds(dict, days=st.integers(1, 3)),
    st.builds(dict, weeks=st.integers(1, 3), weekdays=st.lists(st.integers(0, 6), max_size=4).map(tuple)),
)


def on_day(rule: Calendar, day: date) -> bool:
    base = rule.anchor or (date(1970, 1, 1) if rule.days else date(1970, 1, 5))
    if not rule.weekdays:
        return (day - base).days % (rule.days or 7 * rule.weeks) == 0
    monday, first = day - timedelta(day.weekday()), base - timedelta(base.weekday())
    return (monday - first).days // 7 % rule.weeks == 0 and day.weekday() in rule.weekdays


@cache
def minutes(tz: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute of the range, with its wall-clock time."""
    zone, all_of_them = ZoneInfo(tz), (start + n * MINUTE for n in range((end - start) // MINUTE + 1))
    return [(at, at.astimezone(zone).replace(tzinfo=None, fold=0)) for at in all_of_them]


def slow(rule: Calendar, start: datetime, end: datetime) -> list[datetime]:
    """Checks the wall-clock time of every minute, and the times skipped since the minute before."""
    found, shown = set(), set()
    before = start.astimezone(ZoneInfo(rule.tz)).replace(tzinfo=None) - MINUTE
    wanted = [time.fromisoformat(text) for text in rule.times]

    def due(wall: datetime) -> bool:
        return wall.time() in wanted and on_day(rule, wall.date())

    for at, wall in minutes(rule.tz, start, end):
        jump = wall - before
        if MINUTE < jump <= timedelta(hours=3, minutes=1):
            skipped = (before + n * MINUTE for n in range(1, jump // MINUTE))
            found |= {at for wall in skipped if due(wall)}
        if jump < -timedelta(hours=3):
            shown.clear()
        if due(wall) and wall not in shown:
            found.add(at)
        shown.add(wall)
        before = wall
    return sorted(found)


@settings(max_examples=50, deadline=None)
@given(places, rules, texts, st.booleans(), st.integers(0, 4 * 24 * 60))
def test_calendar_agrees_with_the_slow_evaluator_around_clock_changes(
    place: tuple[str, date], days: dict[str, int], times: list[str], anchored: bool, later: int
) -> None:
    tz, day = place
    rule = Calendar(**days, times=tuple(times), tz=tz, anchor=day - DAY if anchored else None)  # type: ignore[arg-type]
    start = datetime.combine(day - 3 * DAY, time(0), UTC)
    ticks = slow(rule, start, start + 8 * DAY)
    after = start + DAY + later * MINUTE  # a day after `start`, so that repeated times before it are known
    expected = next((tick for tick in ticks if tick > after), None)
    found = rule.next(after)
    assert found is not None
    assert found > after
    assert found == expected or (expected is None and found > start + 8 * DAY)


@settings(max_examples=50, deadline=None)
@given(places, rules, texts, st.integers(0, 8 * 24 * 3600), st.integers(0, 30 * 24 * 3600), st.integers(0, 20))
def test_count_and_latest_agree_with_next(
    place: tuple[str, date], days: dict[str, int], times: list[str], start: int, length: int, limit: int
) -> None:
    rule = Calendar(**days, times=tuple(times), tz=place[0])  # type: ignore[arg-type]
    after = datetime.combine(place[1] - 4 * DAY, time(0), UTC) + timedelta(seconds=start)
    until = after + timedelta(seconds=length)
    ticks, tick = [], rule.next(after)
    while tick is not None and tick <= until:
        ticks.append(tick)
        tick = rule.next(tick)
    assert rule.count(after, until, limit=limit) == min(len(ticks), limit)
    assert rule.latest(after, until) == (ticks[-1] if ticks else None)


def local(rule: Trigger, n: int, after: datetime) -> list[str]:
    return [f"{seen.local:%d %H:%M %Z}" for seen in rule.preview(n, after=after)]


def test_wall_clock_time_is_kept_when_the_clocks_change() -> None:
    rule = every().day.at("09:00", tz="Europe/Berlin")
    assert local(rule, 3, NOON - DAY) == ["28 09:00 CET", "29 09:00 CEST", "30 09:00 CEST"]


def test_a_skipped_time_ticks_once_right_after_the_gap() -> None:
    rule = every().day.at("02:15", "02:30", tz="Europe/Berlin")
    assert local(rule, 3, NOON) == ["29 03:00 CEST", "30 02:15 CEST", "30 02:30 CEST"]


def test_a_repeated_time_ticks_only_the_first_time() -> None:
    rule = every().day.at("02:30", tz="Europe/Berlin")
    assert local(rule, 2, datetime(2026, 10, 24, 12, tzinfo=UTC)) == ["25 02:30 CEST", "26 02:30 CET"]
    second_pass = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert local(rule, 1, second_pass) == ["26 02:30 CET"]


def test_a_skipped_day_has_no_tick() -> None:
    rule = every().day.at("09:00", tz="Pacific/Apia")
    assert local(rule, 2, datetime(2011, 12, 29, 12, tzinfo=UTC)) == ["29 09:00 -10", "31 09:00 +14"]


def test_a_repeated_day_has_its_ticks_twice() -> None:
    rule = every().day.at("09:00", tz="Pacific/Kwajalein")
    assert local(rule, 3, datetime(1969, 9, 29, 12, tzinfo=UTC)) == ["30 09:00 +11", "30 09:00 -12", "01 09:00 -12"]


def test_ticks_of_two_repeated_days_are_in_order() -> None:
    """Alaska went from the Asian to the American date in the middle of an afternoon."""
    rule = every().day.at("09:00", "18:00", tz="America/Juneau")
    shown = local(rule, 5, datetime(1867, 10, 18, tzinfo=UTC))
    assert shown == ["18 18:00 LMT", "19 09:00 LMT", "18 18:00 LMT", "19 09:00 LMT", "19 18:00 LMT"]


@pytest.mark.parametrize(
    ("rule", "after", "note"),
    [
        (every().day.at("02:30", tz="Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC),
         "29 March 2026, 02:30 does not exist: runs at 03:00"),
        (every().day.at("01:30", tz="Europe/London"), datetime(2026, 10, 24, 12, tzinfo=UTC),
         "25 October 2026, 01:30 comes twice: runs the first time"),
        (every().day.at("23:45", tz="America/Toronto"), datetime(1919, 3, 30, 12, tzinfo=UTC),
         "30 March 1919, 23:45 does not exist: runs at 00:30"),
        (every().day.at("09:00", tz="Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC), ""),
        (every().day.at("03:00", tz="Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC), ""),
        (every().day.at("09:00", tz="Pacific/Kwajalein"), datetime(1969, 9, 29, 23, tzinfo=UTC), ""),
    ],
)  # fmt: skip
def test_preview_notes_the_effect_of_a_clock_change(rule: Trigger, after: datetime, note: str) -> None:
    assert rule.preview(1, after=after)[0].note == note


def test_a_tick_on_a_weekday_outside_the_calendar_has_no_note() -> None:
    tick = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert every().monday.at("02:30", tz="Europe/Berlin").note(tick) == ""


def test_calendar_warns_of_times_within_a_clock_change() -> None:
    assert every().day.at("02:30", tz="Europe/Berlin").warnings() == [
        "for example 31 March 2030, 02:30 does not exist: runs at 03:00",
        "for example 27 October 2030, 02:30 comes twice: runs the first time",
    ]
    assert every().day.at("09:00", tz="Europe/Berlin").warnings() == []
    assert every().monday.at("02:30", tz="Europe/Berlin").warnings() == []


def test_calendar_warns_of_a_week_without_a_weekday() -> None:
    assert every().week.at("09:00").warnings() == ["the weekday is that of the day it was made on: add .on('monday')"]
    assert every().week.on("monday").warnings() == []


def test_every_n_days_counts_from_the_anchor_date_in_the_zone() -> None:
    late = datetime(2026, 3, 28, 20, tzinfo=UTC)  # the 29th in Tokyo
    rule = every(3).days.at("09:00", tz="Asia/Tokyo").anchored(late)
    assert local(rule, 3, late) == ["29 09:00 JST", "01 09:00 JST", "04 09:00 JST"]


def test_every_n_weeks_counts_from_the_week_of_the_anchor() -> None:
    rule = every(2).weeks.on("mon", "thu").at("14:30").anchored(NOON)
    assert local(rule, 4, NOON) == ["06 14:30 UTC", "09 14:30 UTC", "20 14:30 UTC", "23 14:30 UTC"]


def test_a_week_without_a_weekday_ticks_on_the_weekday_of_the_anchor() -> None:
    assert local(every().week.at("09:00").anchored(NOON), 2, NOON) == ["04 09:00 UTC", "11 09:00 UTC"]


def test_a_calendar_of_every_day_or_weekday_ignores_the_anchor() -> None:
    for rule in (every().day.at("09:00"), every().monday):
        assert rule.anchored(NOON) == rule


def test_a_given_anchor_is_not_replaced() -> None:
    rule = every(3).days.at("09:00")
    assert isinstance(rule, Calendar)
    assert rule.starting(date(2026, 1, 1)).anchored(NOON).anchor == date(2026, 1, 1)


def test_calendar_has_no_tick_after_the_last_date() -> None:
    rule = every().day.at("09:00", tz="Asia/Tokyo")
    assert rule.next(datetime.max.replace(tzinfo=UTC)) is None
    assert rule.next(datetime.min.replace(tzinfo=UTC)) is not None


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (every().day.at("09:00", tz="Europe/London"), "every day at 09:00, Europe/London"),
        (every(2).weeks.on("monday").at("14:30"), "every 2 weeks on Monday at 14:30"),
        (every(3).days.at("09:00", "17:30"), "every 3 days at 09:00 and 17:30"),
        (every().weekday.at("09:00"), "every weekday at 09:00"),
        (every().weekend, "every weekend day at 00:00"),
        (every(2).weeks.on("mon-fri"), "every 2 weeks on weekdays at 00:00"),
        (every().week.on("mon", "wed", "fri").at("08:00:30"), "every Monday, Wednesday and Friday at 08:00:30"),
        (every().week.at("09:00"), "every week at 09:00"),
    ],
)
def test_calendar_is_explained_in_words(rule: Trigger, words: str) -> None:
    assert rule.explain() == words
