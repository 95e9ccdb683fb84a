"""Timetables: a trigger's ticks limited by a start, an end, excluded dates and a window."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import BadInput
from mainspring.trigger import Omitted, Timetable, Trigger, Window, at, every

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FRIDAY = datetime(2026, 3, 27, tzinfo=UTC)


def utc(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


class Hashed(Trigger, frozen=True, kw_only=True, tag="hashed"):
    """Ticks once a day, at an hour that depends on the name."""

    hour: int = 0

    def named(self, name: str) -> Hashed:
        return Hashed(hour=len(name))

    def next(self, after: datetime) -> datetime:
        tick = after.astimezone(UTC).replace(hour=self.hour, minute=0, second=0, microsecond=0)
        return tick if tick > after else tick + DAY

    def explain(self) -> str:
        return f"daily at {self.hour}"


class Counting(Trigger, frozen=True, kw_only=True, tag="counting"):
    """Ticks every second; records the calls of next()."""

    asked: list[datetime]

    def next(self, after: datetime) -> datetime:
        self.asked.append(after)
        return after.replace(microsecond=0) + timedelta(seconds=1)

    def explain(self) -> str:
        return "every second"


def ticks(table: Timetable, after: datetime, until: datetime) -> list[datetime]:
    found, tick = [], table.next(after)
    while tick is not None and tick <= until:
        assert tick > after
        found.append(tick)
        after, tick = tick, table.next(tick)
    return found


# limits


def test_a_timetable_without_limits_has_the_ticks_of_its_trigger() -> None:
    table = Timetable(every(5).hours)
    assert table.next(FRIDAY) == every(5).hours.next(FRIDAY)
    assert table.count(FRIDAY, FRIDAY + 100 * DAY, limit=10**6) == 480


def test_a_timetable_gives_its_name_and_anchor_to_the_trigger() -> None:
    assert Timetable(Hashed(), name="abc").next(FRIDAY) == utc(27, 3)
    assert Timetable(every(7).hours, anchor_at=utc(27, 1)).next(utc(27, 1)) == utc(27, 8)


def test_start_at_and_end_at_are_inclusive() -> None:
    table = Timetable(every().hour, start_at=utc(27, 8), end_at=utc(27, 10))
    assert ticks(table, FRIDAY - DAY, FRIDAY + DAY) == [utc(27, 8), utc(27, 9), utc(27, 10)]
    assert table.count(FRIDAY - DAY, FRIDAY + DAY, limit=9) == 3
    assert table.latest(FRIDAY - DAY, FRIDAY + DAY) == utc(27, 10)
    assert table.next(utc(27, 10)) is None


def test_excluded_dates_are_in_the_zone_of_the_trigger() -> None:
    table = Timetable(every().day.at("06:00", tz="Asia/Tokyo"), exclude=(date(2026, 3, 29),))
    shown = [seen.local.date().day for seen in table.preview(3, after=utc(26, 22))]
    assert shown == [28, 30, 31]


def test_ticks_outside_the_window_are_skipped() -> None:
    table = Timetable(every(6).hours, window=Window("08:00", "18:00", "mon-fri"))
    assert ticks(table, utc(26), utc(31)) == [utc(26, 12), utc(27, 12), utc(30, 12)]


def test_a_window_is_in_the_zone_of_the_trigger_unless_it_has_its_own() -> None:
    rule = every().day.at("09:00", tz="Asia/Tokyo")
    assert Timetable(rule, window=Window("08:00", "10:00")).next(FRIDAY) == utc(28)
    assert Timetable(rule, window=Window("08:00", "10:00", tz="UTC")).next(FRIDAY) is None


# moved ticks


def moved(rule: Trigger, **more: Any) -> Timetable:
    return Timetable(rule, window=Window("08:00", "18:00", "mon-fri", outside="move"), **more)


def test_a_tick_outside_the_window_moves_to_the_next_opening() -> None:
    assert ticks(moved(every().day.at("03:00")), utc(26, 12), utc(31)) == [utc(27, 8), utc(30, 8)]


def test_ticks_that_move_to_the_same_opening_are_one_tick() -> None:
    assert ticks(moved(every(6).hours), utc(26, 12), utc(31)) == [
        utc(27, 8), utc(27, 12), utc(30, 8), utc(30, 12),
    ]  # fmt: skip


def test_a_tick_moved_onto_another_tick_is_one_tick() -> None:
    assert ticks(moved(every(4).hours), utc(27, 5), utc(27, 12)) == [utc(27, 8), utc(27, 12)]


def test_a_moved_tick_is_next_from_any_instant_before_the_opening() -> None:
    table = moved(every().day.at("19:00"))
    for hour in range(61):
        assert table.next(utc(27, 19) + timedelta(hours=hour)) == utc(30, 8), hour
    assert table.next(utc(27, 18)) == utc(30, 8)
    assert table.next(utc(30, 8)) == utc(31, 8)


def test_a_tick_does_not_move_to_an_excluded_date() -> None:
    table = moved(every().day.at("03:00"), exclude=(date(2026, 3, 30),))
    assert ticks(table, utc(27, 12), utc(31, 12)) == [utc(31, 8)]


def test_a_moved_tick_passes_an_excluded_opening() -> None:
    assert moved(at(utc(28, 12)), exclude=(date(2026, 3, 30),)).next(utc(30, 12)) == utc(31, 8)


def test_a_window_that_opened_on_an_excluded_date_stays_open_after_midnight() -> None:
    window = Window("22:00", "06:00", "sat", outside="move")
    table = Timetable(every(6).hours, window=window, exclude=(date(2026, 3, 28),))
    assert ticks(table, utc(27, 11), utc(31) + 7 * DAY)[:2] == [utc(29), utc(28, 22) + 7 * DAY]


def test_an_excluded_tick_does_not_move() -> None:
    table = moved(every().day.at("19:00"), start_at=utc(26), exclude=(date(2026, 3, 26),))
    assert ticks(table, utc(25), utc(31)) == [utc(30, 8)]  # that of the 27th


def test_a_tick_before_the_start_does_not_move_past_it() -> None:
    assert ticks(moved(every().day.at("03:00"), start_at=utc(27, 4)), FRIDAY, utc(28)) == []
    assert ticks(moved(every().day.at("03:00"), start_at=utc(27, 3)), FRIDAY, utc(28)) == [utc(27, 8)]


def test_a_tick_does_not_move_past_the_end() -> None:
    assert moved(every().day.at("03:00"), end_at=utc(27, 7)).next(FRIDAY) is None
    assert moved(every().day.at("03:00"), end_at=utc(27, 8)).next(FRIDAY) == utc(27, 8)


def test_a_tick_of_at_moves_to_the_next_opening() -> None:
    assert moved(at(utc(28, 12))).next(FRIDAY) == utc(30, 8)


# against a slow evaluator


@st.composite
def tables(draw: st.DrawFn) -> Timetable:
    zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Havana", "Asia/Tokyo", "Australia/Lord_Howe"])
    opens, closes = draw(st.lists(st.integers(0, 23), min_size=2, max_size=2, unique=True))
    days = st.none() | st.lists(st.integers(0, 6), min_size=1).map(tuple)
    window = Window(f"{opens}:00", f"{closes}:30", draw(days), draw(zones), draw(st.sampled_from(["skip", "move"])))
    rule = draw(st.sampled_from([every(7).hours, every(25).minutes, every(3).hours, every(31).hours]))
    dates = [date(2026, 3, 26) + n * DAY for n in range(8)]
    return Timetable(
        rule.in_zone(draw(zones)),
        window=draw(st.none() | st.just(window)),
        start_at=draw(st.none() | st.integers(0, 100).map(lambda n: FRIDAY + n * HOUR)),
        end_at=draw(st.none() | st.integers(100, 250).map(lambda n: FRIDAY + n * HOUR)),
        exclude=tuple(draw(st.lists(st.sampled_from(dates), max_size=3))),
    )


def slow(table: Timetable, begin: datetime, end: datetime) -> tuple[set[datetime], dict[str, list[datetime]]]:
    """The ticks, and the omitted ones by reason, from every tick of the trigger."""
    kept, lost = set(), {"excluded": [], "window": []}
    zone = ZoneInfo(table.trigger.tz)
    tick = table.trigger.next(begin)
    while tick is not None and tick <= end:
        if tick >= (table.start_at or begin) and tick <= (table.end_at or end):
            place: datetime | None = tick
            if tick.astimezone(zone).date() in table.exclude:
                lost["excluded"].append(tick)
                place = None
            elif table.window and not table.window.inside(tick):
                if table.window.outside == "skip":
                    lost["window"].append(tick)
                    place = None
                else:
                    place = table.window.opening(tick)
                    while place and place.astimezone(zone).date() in table.exclude:
                        place = table.window.opening(place)
            if place and place <= (table.end_at or end + 30 * DAY):
                kept.add(place)
        tick = table.trigger.next(tick)
    return kept, lost


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(0, 12 * 24 * 60), st.integers(0, 4 * 24 * 60))
def test_a_timetable_agrees_with_the_slow_evaluator(table: Timetable, start: int, length: int) -> None:
    after = FRIDAY - 2 * DAY + timedelta(minutes=start)
    until = after + timedelta(minutes=length)
    kept, lost = slow(table, FRIDAY - 40 * DAY, until + 20 * DAY)
    expected = sorted(tick for tick in kept if after < tick <= until)
    assert ticks(table, after, until) == expected
    first, found = min((tick for tick in kept if tick > after), default=None), table.next(after)
    assert found == first or (first is None and found is not None and found > until + 20 * DAY)
    assert table.count(after, until, limit=7) == min(7, len(expected))
    assert table.latest(after, until) == (expected[-1] if expected else None)
    within = {reason: [tick for tick in ticks if after < tick <= until] for reason, ticks in lost.items()}
    assert {omitted.reason: omitted for omitted in table.omitted(after, until)} == {
        reason: Omitted(reason, len(ticks), ticks[0], ticks[-1]) for reason, ticks in within.items() if ticks
    }  # type: ignore[arg-type]


# bounds


def test_next_skips_closed_spans_of_the_window_at_once() -> None:
    asked: list[datetime] = []
    table = Timetable(Counting(asked=asked), window=Window("08:00", "18:00", "mon"), exclude=(date(2026, 3, 30),))
    assert table.next(FRIDAY) == datetime(2026, 4, 6, 8, tzinfo=UTC)
    assert len(asked) < 5


def test_omitted_skips_open_spans_at_once() -> None:
    asked: list[datetime] = []
    table = Timetable(Counting(asked=asked), exclude=(date(2026, 12, 25),))
    (omitted,) = table.omitted(FRIDAY, FRIDAY + 365 * DAY, limit=10)
    assert (omitted.reason, omitted.count) == ("excluded", 10)
    assert omitted.first_at == datetime(2026, 12, 25, tzinfo=UTC)
    assert len(asked) < 15


def test_next_of_a_timetable_without_ticks_terminates() -> None:
    assert Timetable(every().day.at("03:00"), window=Window("08:00", "18:00")).next(FRIDAY) is None


def test_a_timetable_has_no_tick_after_the_last_date() -> None:
    end = datetime(9999, 12, 31, 12, tzinfo=UTC)
    for outside in ("skip", "move"):
        table = Timetable(every().hour.in_zone("Asia/Tokyo"), window=Window("08:00", "18:00", outside=outside))
        assert table.next(end) is None
        assert table.next(datetime.min.replace(tzinfo=UTC)) is not None


# previews and omitted ticks


def test_preview_notes_moved_ticks_and_clock_changes() -> None:
    rule = every().day.at("02:30", "12:00", tz="Europe/Berlin")
    shown = [seen.note for seen in moved(rule).preview(2, after=utc(28))]
    assert shown == ["outside the window: moved to its opening", ""]
    (first,) = Timetable(rule).preview(1, after=utc(28, 12))
    assert first.note == "29 March 2026, 02:30 does not exist: runs at 03:00"
    assert f"{first.local:%H:%M}" == "03:00"


def test_omitted_ticks_are_listed_by_reason() -> None:
    table = Timetable(every(6).hours, window=Window("08:00", "18:00"), exclude=(date(2026, 3, 28),))
    assert table.omitted(utc(27), utc(29)) == [
        Omitted("excluded", 4, utc(28), utc(28, 18)),
        Omitted("window", 3, utc(27, 6), utc(29)),
    ]


def test_an_excluded_date_that_the_clock_repeats_is_excluded_again() -> None:
    """In 2010 the clocks of St. John's went back from 00:01 on 7 November to 23:01 on 6 November."""
    table = Timetable(every(10).seconds.in_zone("America/St_Johns"), exclude=(date(2010, 11, 6),))
    back = datetime(2010, 11, 7, 2, 31, tzinfo=UTC)
    assert ticks(table, back - timedelta(seconds=61), back + timedelta(seconds=3540)) == [
        back - timedelta(seconds=n) for n in range(60, 0, -10)
    ] + [back + timedelta(seconds=3540)]
    (omitted,) = table.omitted(back - timedelta(seconds=31), back + HOUR)
    assert (omitted.count, omitted.first_at) == (354, back)


# jitter


def test_jitter_is_constant_for_a_name_and_does_not_change_ticks() -> None:
    table = Timetable(every().hour, name="report", jitter=30)
    again = Timetable(every().hour, name="report", jitter=30)
    assert table.offset == again.offset != Timetable(every().hour, name="backup", jitter=30).offset
    assert table.next(FRIDAY) == utc(27, 1)
    assert table.fire_at(utc(27, 1)) == utc(27, 1) + table.offset


@settings(max_examples=30)
@given(st.text(max_size=20), st.floats(0, 604_800))
def test_jitter_stays_below_its_bound(name: str, jitter: float) -> None:
    offset = Timetable(every().hour, name=name, jitter=jitter).offset
    assert timedelta(0) <= offset
    assert offset < timedelta(seconds=jitter) or not offset


def test_jitter_spreads_schedules_evenly() -> None:
    offsets = [Timetable(every().hour, name=f"s{n}", jitter=10).offset // timedelta(seconds=1) for n in range(1000)]
    assert all(60 < offsets.count(second) < 140 for second in range(10))


# refusals


@pytest.mark.parametrize(
    ("given", "way_out"),
    [
        ({"trigger": "5m"}, "'5m' is not a trigger: write every(5).minutes"),
        ({"trigger": every(5)}, "every(5) is not a trigger: write every(5).minutes"),
        ({"jitter": -1}, "jitter is from 0 to 604800 seconds"),
        ({"jitter": float("nan")}, "jitter is from 0 to 604800 seconds"),
        ({"jitter": True}, "jitter is a number of seconds"),
        ({"start_at": utc(28), "end_at": utc(27)}, "is before start_at"),
        ({"start_at": datetime(2026, 1, 1)}, "start_at 2026-01-01 00:00:00 has no zone"),
        ({"exclude": ("2026-12-25",)}, "exclude has dates, as date(2026, 12, 25)"),
        ({"exclude": (utc(27),)}, "exclude has dates"),
        ({"window": ("08:00", "18:00")}, "use Window.of(...)"),
    ],
)
def test_a_contradictory_timetable_is_refused(given: dict[str, Any], way_out: str) -> None:
    with pytest.raises(BadInput) as refused:
        Timetable(**{"trigger": every().hour, **given})
    assert way_out in str(refused.value)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (Timetable(every().day.at("03:00"), window=Window("08:00", "18:00")),
         "every day at 03:00: never falls inside the window 08:00-18:00; widen it"),
        (Timetable(every().sunday.at("09:00"), window=Window("08:00", "18:00", "mon-fri"), start_at=FRIDAY),
         "every Sunday at 09:00: never falls inside the window 08:00-18:00 on weekdays; widen it"),
        (Timetable(at(utc(28, 9)), exclude=(date(2026, 3, 28),)),
         "once, on 28 March 2026 at 09:00, UTC: falls on excluded dates only; exclude fewer of them"),
        (Timetable(at(utc(28, 9)), start_at=utc(29)),
         "once, on 28 March 2026 at 09:00, UTC: has no tick after 28 March 2026, 23:59:59 UTC; choose a later time"),
        (Timetable(every().day.at("09:00"), start_at=utc(27, 10), end_at=utc(27, 12)),
         "every day at 09:00: has no tick until end_at, 27 March 2026, 12:00 UTC; choose a later end"),
        (moved(every().day.at("03:00"), start_at=utc(27, 2), end_at=utc(27, 7)),
         "every day at 03:00: has no tick until end_at, 27 March 2026, 07:00 UTC; choose a later end"),
    ],
)  # fmt: skip
def test_check_refuses_a_timetable_without_a_tick_with_the_reason(table: Timetable, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        table.check()
    assert str(refused.value) == reason


def test_check_accepts_a_timetable_with_a_tick() -> None:
    Timetable(every().day.at("09:00"), window=Window("08:00", "18:00")).check()
    moved(every().day.at("03:00"), anchor_at=FRIDAY).check()
    Timetable(at(utc(28, 9))).check(FRIDAY)


def test_check_refuses_a_timetable_that_has_ended() -> None:
    with pytest.raises(BadInput, match="has no tick after 29 March 2026, 00:00 UTC"):
        Timetable(at(utc(28, 9))).check(utc(29))
