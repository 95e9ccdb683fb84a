"""Cron in words: explanation, warnings, and the effects of clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import cron

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("*/7 * * * *", "at minutes 0, 7, 14, … 56 of every hour"),
        ("5/20 * * * *", "at minutes 5, 25 and 45 of every hour"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "every hour at minute 30"),
        ("0 */2 * * *", "every 2 hours"),
        ("30 */2 * * *", "every 2 hours at minute 30"),
        ("0 1-23/2 * * *", "every 2 hours from 01:00 to 23:00"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("*/15 9-17 * * *", "every 15 minutes from 09:00 to 17:45"),
        ("*/10 22-2 * * *", "every 10 minutes from 22:00 to 02:50"),
        ("5,35 9-17 * * *", "at minutes 5 and 35 of hours 9 to 17"),
        ("*/20 1,5,9 * * *", "every 20 minutes in hours 1, 5 and 9"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("0 9 * * *", "at 09:00 every day"),
        ("0 9,12,17 * * *", "at 09:00, 12:00 and 17:00 every day"),
        ("* * * * * *", "every second"),
        ("*/5 * * * * *", "every 5 seconds"),
        ("30 * * * * *", "at second 30 of every minute"),
        ("*/10 30 * * * *", "every 10 seconds of minute 30 of every hour"),
        ("*/10 * 9-17 * * *", "every 10 seconds from 09:00 to 17:59:50"),
        ("15 30 8 * * *", "at 08:30:15 every day"),
        ("0 9 * * mon-fri", "at 09:00, Monday to Friday"),
        ("0 9 * * fri-mon", "at 09:00, Friday to Monday"),
        ("0 9 * * 1", "at 09:00 on Monday"),
        ("0 9 * * 0,3", "at 09:00 on Wednesday and Sunday"),
        ("0 9 * * 0-6", "at 09:00 every day"),
        ("0 9 * * tue#2", "at 09:00 on the second Tuesday of the month"),
        ("0 9 * * mon,5L", "at 09:00 on Monday and the last Friday of the month"),
        ("0 0 1 * *", "at 00:00 on day 1 of the month"),
        ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"),
        ("0 0 */2 * *", "at 00:00 on days 1, 3, 5, … 31 of the month"),
        ("0 0 29 2 *", "at 00:00 on 29 February"),
        ("0 0 1 1,7 *", "at 00:00 on day 1 of January and July"),
        ("0 0 * 11-2 *", "at 00:00 every day in November to February"),
        ("30 2 L * *", "at 02:30 on the last day of the month"),
        ("0 0 L-2 * *", "at 00:00 on the last day but 2 of the month"),
        ("0 0 LW 1 *", "at 00:00 on the last weekday of January"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest day 15 of the month"),
        ("0 0 1 * mon", "at 00:00 on day 1 of the month, and also on Monday"),
        ("0 0 1 6-8 mon", "at 00:00 on day 1 of June to August, and also on Monday in June to August"),
    ],
)  # fmt: skip
def test_cron_is_explained_in_words(expr: str, words: str) -> None:
    assert cron(expr).explain() == words


def test_cron_explanation_names_the_zone_unless_it_is_utc() -> None:
    assert cron("0 9 * * mon-fri", tz="Europe/London").explain() == "at 09:00, Monday to Friday, Europe/London"


def test_cron_explanation_states_that_both_day_fields_must_match() -> None:
    both = cron("0 0 13 * fri", day_match="and")
    assert both.explain() == "at 00:00 on day 13 of the month, but only if that is Friday"


def test_cron_explanation_shows_the_values_of_h() -> None:
    rule = cron("H H(1-5) * * *").named("report")
    tick = rule.next(NEW_YEAR)
    settled = f"(H for 'report': minute {tick.minute}, hour {tick.hour})"
    assert rule.explain() == f"at {tick:%H:%M} every day {settled}"


@pytest.mark.parametrize(
    ("expr", "day_match", "warning"),
    [
        ("0 0 1 * mon", "or", "a date needs to meet only one of them; day_match='and' asks for both"),
        ("0 0 1 * mon", "and", "a date must meet both of them"),
        ("*/7 * * * *", "or", "*/7 starts again every hour: after minute 56 the next comes 4 minutes later, not 7"),
        ("0 */5 * * *", "or", "*/5 starts again every day: after hour 20 the next comes 4 hours later, not 5"),
        ("0 0 */2 * *", "or", "*/2 starts again on day 1 of every month: it is not every 2 days"),
        ("0 0 1 */5 *", "or", "*/5 starts again every January: after month 11 the next comes 2 months later, not 5"),
        ("0 0 * * */2", "or", "*/2 starts again every Sunday: after day of week 6 the next comes 1 day later, not 2"),
        ("*/25 * * * * *", "or", "*/25 starts again every minute: after second 50 the next comes 10 seconds later"),
        ("0 0 31 * *", "or", "day 31 does not come in February, April, June, September and November; L is"),
        ("0 0 30 * *", "or", "day 30 does not come in February; L is the last day of any month"),
        ("0 0 29 2 *", "or", "29 February comes in leap years only"),
        ("0 0 * * fri#5", "or", "a fifth Friday does not come in every month; 5L is the last one"),
        ("* 9 * * *", "or", "minute * runs 60 times within hour 9; 0 is once"),
        ("* 30 9 * * *", "or", "second * runs 60 times within minute 30; 0 is once"),
    ],
)  # fmt: skip
def test_cron_warns_of_likely_mistakes(expr: str, day_match: Any, warning: str) -> None:
    (told,) = cron(expr, day_match=day_match).warnings()
    assert warning in told


@pytest.mark.parametrize(
    "expr",
    [
        "0 9 * * mon-fri",
        "*/15 * * * *",
        "5/20 * * * *",
        "*/7 9 * * *",
        "0 0 L * *",
        "0 0 31 1 *",
        "0 0 1-7 * *",
        "* * * * *",
    ],
)
def test_cron_without_a_likely_mistake_has_no_warning(expr: str) -> None:
    assert cron(expr).warnings() == []


@pytest.mark.parametrize(
    ("expr", "zone", "told"),
    [
        ("30 2 * * *", "Europe/Berlin", [
            "29 March 2026, 02:30 does not exist: runs at 03:00",
            "25 October 2026, 02:30 comes twice: runs the first time",
        ]),
        ("0,30 2 * * *", "Europe/Berlin", [
            "29 March 2026, 02:00 and 02:30 do not exist: runs once, at 03:00",
            "25 October 2026, 02:00 and 02:30 come twice: runs the first time",
        ]),
        ("0-59 2 * * *", "Europe/Berlin", [
            "29 March 2026, times from 02:00 to before 03:00 do not exist: runs once, at 03:00",
            "25 October 2026, times from 02:00 to before 03:00 come twice: runs the first time",
        ]),
        ("0 2,3 * * *", "Europe/Berlin", [
            "29 March 2026, 02:00 does not exist: runs once, at 03:00",
            "25 October 2026, 02:00 comes twice: runs the first time",
        ]),
        ("*/30 2 * * *", "Europe/Berlin", [
            "29 March 2026, 02:00 and 02:30 do not exist: left out",
            "25 October 2026, 02:00 and 02:30 come twice: runs both times",
        ]),
        ("30 23 * * *", "America/Nuuk", [
            "28 March 2026, 23:30 does not exist: runs at 00:00 on 29 March 2026",
            "24 October 2026, 23:30 comes twice: runs the first time",
        ]),
        ("15 2 * * *", "Australia/Lord_Howe", ["4 October 2026, 02:15 does not exist: runs at 02:30"]),
        ("30 2 1 * *", "Europe/Berlin", []),
        ("0 9 * * *", "Europe/Berlin", []),
        ("*/15 * * * *", "Europe/Berlin", []),
        ("30 2 * * *", "UTC", []),
        ("30 2 * * *", "Asia/Tokyo", []),
    ],
)  # fmt: skip
def test_cron_effects_lists_the_clock_changes_of_a_year(expr: str, zone: str, told: list[str]) -> None:
    assert [effect.note for effect in cron(expr, tz=zone).effects(after=NEW_YEAR)] == told


def test_cron_effects_has_a_skipped_day() -> None:
    start, end = datetime(2011, 12, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)
    (effect,) = cron("0 12 * * *", tz="Pacific/Apia").effects(after=start, until=end)
    assert effect.note == "30 December 2011, 12:00 does not exist: left out"
    assert effect.at == datetime(2011, 12, 30, 10, tzinfo=UTC)


def test_cron_preview_notes_the_effect_of_a_clock_change() -> None:
    rule = cron("30 1 * * *", tz="Europe/London")
    notes = [preview.note for preview in rule.preview(3, after=datetime(2026, 3, 28, tzinfo=UTC))]
    assert notes == ["", "29 March 2026, 01:30 does not exist: runs at 02:00", ""]
    notes = [preview.note for preview in rule.preview(2, after=datetime(2026, 10, 24, 22, tzinfo=UTC))]
    assert notes == ["25 October 2026, 01:30 comes twice: runs the first time", ""]


def test_cron_preview_notes_every_tick_of_a_repeated_hour() -> None:
    rule = cron("*/30 2 * * *", tz="Europe/Berlin")
    shown = rule.preview(4, after=datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert [preview.note for preview in shown] == [
        f"25 October 2026, {time} comes twice: runs both times" for time in ("02:00", "02:30", "02:00", "02:30")
    ]
    assert [preview.local.fold for preview in shown] == [0, 0, 1, 1]


def test_cron_preview_has_no_notes_for_a_wildcard_hour() -> None:
    rule = cron("*/30 * * * *", tz="Europe/Berlin")
    assert {preview.note for preview in rule.preview(8, after=datetime(2026, 10, 24, 23, tzinfo=UTC))} == {""}


def test_cron_effects_is_empty_near_the_first_and_last_year() -> None:
    rule = cron("30 2 * * *", tz="America/New_York")
    for end in (datetime.min, datetime.max):
        assert rule.effects(after=end.replace(tzinfo=UTC)) == []
