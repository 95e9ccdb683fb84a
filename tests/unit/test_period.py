"""every(): what it builds, and what it suggests for mistakes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

import pytest

from mainspring import BadInput
from mainspring.trigger import Calendar, Every, Trigger, every

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)  # a Saturday


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (every(30).seconds, Every(seconds=30)),
        (every().second, Every(seconds=1)),
        (every(5).minutes, Every(seconds=300)),
        (every().minute, Every(seconds=60)),
        (every(2).hours, Every(seconds=7200)),
        (every(1).hour, Every(seconds=3600)),
        (every().day, Every(seconds=86_400)),
        (every(3).days, Every(seconds=259_200)),
        (every().week, Every(seconds=604_800)),
        (every(1).weeks, Every(seconds=604_800)),
        (every(0.5).hours, Every(seconds=1800)),
        (every(minutes=5), Every(seconds=300)),
        (every(hours=1, minutes=30), Every(seconds=5400)),
        (every(timedelta(milliseconds=250)), Every(seconds=0.25)),
        (every().hour.at(":15"), Every(seconds=3600, anchor=datetime(1970, 1, 1, 0, 15, tzinfo=UTC))),
        (every().day.at("9:00"), Calendar(days=1, times=("09:00",))),
        (every().day.at("17:30", "09:00", "9:00"), Calendar(days=1, times=("09:00", "17:30"))),
        (every().day.at(time(9, 0, 30)), Calendar(days=1, times=("09:00:30",))),
        (every().day.at("09:00", tz="Europe/London"), Calendar(days=1, times=("09:00",), tz="Europe/London")),
        (every().day.in_zone("Europe/London").at("09:00"), Calendar(days=1, times=("09:00",), tz="Europe/London")),
        (every().day.at("09:00").in_zone("Europe/London"), Calendar(days=1, times=("09:00",), tz="Europe/London")),
        (every(3).days.at("09:00"), Calendar(days=3, times=("09:00",))),
        (every(2).weeks.at("09:00"), Calendar(weeks=2, times=("09:00",))),
        (every().monday, Calendar(weeks=1, weekdays=(0,))),
        (every().sunday.at("14:30"), Calendar(weeks=1, weekdays=(6,), times=("14:30",))),
        (every().weekday.at("09:00"), Calendar(weeks=1, weekdays=(0, 1, 2, 3, 4), times=("09:00",))),
        (every().weekend, Calendar(weeks=1, weekdays=(5, 6))),
        (every(2).weeks.on("monday").at("14:30"), Calendar(weeks=2, weekdays=(0,), times=("14:30",))),
        (every().week.on("thu", "Mon"), Calendar(weeks=1, weekdays=(0, 3))),
        (every().week.on("fri-mon"), Calendar(weeks=1, weekdays=(0, 4, 5, 6))),
        (every(3).days.starting(NOON).at("09:00"), Calendar(days=3, times=("09:00",), anchor=NOON.date())),
    ],
    ids=lambda rule: rule.explain(),
)
def test_every_builds_intervals_and_calendars(said: Trigger, meant: Trigger) -> None:
    assert said == meant


def test_the_minute_of_an_hourly_interval_does_not_depend_on_the_anchor() -> None:
    rule = every().hour.at(":15").anchored(NOON + timedelta(minutes=40))
    assert rule.next(NOON) == NOON + timedelta(minutes=15)


@pytest.mark.parametrize(
    ("say", "way_out"),
    [
        (lambda: every(5).day, "write every(5).days"),
        (lambda: every().minutes, "write every(5).minutes, or every().minute"),
        (lambda: every(2).monday, "write every(2).weeks.on('monday')"),
        (lambda: every(2).weekday, "write every(2).weeks.on('mon-fri')"),
        (lambda: every(0), "give a number above 0"),
        (lambda: every(-1), "give a number above 0"),
        (lambda: every(True), "give a number above 0"),
        (lambda: every("5"), "give the unit, as in every('5m') for minutes"),
        (lambda: every(float("nan")), "give a number above 0"),
        (lambda: every(1e300).weeks, "out of range: from 0.001 seconds to 36525 days"),
        (lambda: every(days=10**12), "36525 days at most"),
        (lambda: every(days=10**6), "out of range: from 0.001 seconds to 36525 days"),
        (lambda: every(minuts=5), "give numbers of weeks, days, hours, minutes, seconds"),
        (lambda: every(minutes="5"), "give numbers of weeks, days, hours, minutes, seconds"),
        (lambda: every(minutes=0), "out of range"),
        (lambda: every(5, minutes=5), "use one form, as every(minutes=5)"),
        (lambda: every(5).mintues, "write .minutes"),
        (lambda: every().mondya, "write .monday"),
        (lambda: every(2).months, "they differ in length; write cron('0 9 1 * *')"),
        (lambda: every().year, "they differ in length; write cron('0 9 1 1 *')"),
        (lambda: every().xyzzy, "name a unit: second, seconds, minute"),
        (lambda: every().day.at("25:00"), "write it as '09:00'"),
        (lambda: every().day.at("24:00"), "from '00:00' to '23:59:59'"),
        (lambda: every().day.at("٠٩:٠٠"), "write it as '09:00'"),
        (lambda: every().day.at("9"), "write it as '09:00'"),
        (lambda: every().day.at(9), "write it as '09:00'"),
        (lambda: every().day.at(), "give one or more"),
        (lambda: every().day.at("09:00").at("17:30"), "give all of them at once, as .at('09:00', '17:30')"),
        (lambda: every().day.on("monday"), "write every().week.on('monday') or every().monday"),
        (lambda: every().day.at("09:00").on("monday"), "write every().week.on('monday') or every().monday"),
        (lambda: every(5).minutes.at("09:00"), ".at() goes with whole hours, days and weeks"),
        (lambda: every().hour.at("09:15"), "write .at(':15'), or every().day.at('09:15')"),
        (lambda: every().hour.at(":15", ":45"), "write .at(':15')"),
        (lambda: every().hour.at(":05", tz="Asia/Kolkata"), "write cron('5 * * * *', tz='Asia/Kolkata')"),
        (lambda: every().week.on("mondy"), "'mondy' is not a weekday; write 'monday'"),
        (lambda: every().week.on("xyz"), "write monday … sunday, or mon … sun"),
        (lambda: every().week.on(7), "0 is Monday and 6 is Sunday"),
        (lambda: every().week.on(), "no weekday is given"),
        (lambda: every().day.at("09:00", tz="Londn"), "no time zone 'Londn'"),
        (lambda: every().day.at("09:00").in_zone("Nowhere/At"), "there is no time zone"),
        (lambda: Calendar(days=1, weeks=1), "give one of them"),
        (lambda: Calendar(days=1.5), "days is a whole number"),
        (lambda: Calendar(days=1, anchor=NOON), "use .starting(...)"),
    ],
)
def test_every_refuses_mistakes_with_a_suggestion(say: Callable[[], object], way_out: str) -> None:
    with pytest.raises(BadInput) as refused:
        say()
    assert way_out in str(refused.value)


def test_a_period_has_a_repr_and_can_be_copied() -> None:
    assert repr(copy.copy(every(5))) == "every(5)"
    assert repr(every()) == "every()"
