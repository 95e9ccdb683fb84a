"""Crontab files: what converts, what is flagged, and what is exactly an interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring import cron
from mainspring.trigger.crontab import CrontabEntry, interval, parse

USER = """\
# m h dom mon dow command
MAILTO=ops@example.com
SHELL=/bin/bash
PATH=/usr/bin:/bin
GREETING="hello"

0 9 * * mon-fri   /usr/local/bin/report.sh --daily
@daily  backup
@reboot /usr/bin/start-me
CRON_TZ=Europe/Berlin
30 2 * * *  clean up
CRON_TZ=Mars/Base
0 0 * * * lost
"""


def by_line(text: str, **options: bool | str) -> dict[int, CrontabEntry]:
    return {entry.line: entry for entry in parse(text, **options)}  # type: ignore[arg-type]


def one(line: str, **options: bool | str) -> CrontabEntry:
    (entry,) = parse(line, **options)  # type: ignore[arg-type]
    return entry


def test_a_crontab_entry_has_its_source_trigger_command_and_name() -> None:
    entry = by_line(USER)[7]
    assert entry.source == "0 9 * * mon-fri   /usr/local/bin/report.sh --daily"
    assert entry.trigger == cron("0 9 * * mon-fri")
    assert (entry.command, entry.user, entry.name) == ("/usr/local/bin/report.sh --daily", "", "report")
    assert entry.flags == ()


def test_a_crontab_macro_is_converted() -> None:
    entry = by_line(USER)[8]
    assert (entry.trigger, entry.command) == (cron("@daily"), "backup")


def test_crontab_settings_are_flagged() -> None:
    flags = {line: by_line(USER)[line].flags for line in (2, 3, 4, 5)}
    assert flags[2] == ("MAILTO: mails what a command prints to ops@example.com; Mainspring keeps it with the run",)
    assert flags[3] == ("SHELL: commands run in /bin/bash",)
    assert flags[4] == ("PATH: commands are found in /usr/bin:/bin",)
    assert flags[5] == ("GREETING: commands have $GREETING set to hello",)
    assert by_line("MAILTO=\n")[1].flags[0].startswith("MAILTO: mails what a command prints to nobody")


def test_crontab_reboot_is_flagged_and_not_converted() -> None:
    entry = by_line(USER)[9]
    assert entry.trigger is None
    assert entry.flags[0].startswith("@reboot runs when the machine starts: that is not a time")
    assert entry.command == "/usr/bin/start-me"


def test_cron_tz_applies_to_the_entries_after_it() -> None:
    entries = by_line(USER)
    assert entries[7].trigger.tz == "UTC"
    assert entries[11].trigger == cron("30 2 * * *", tz="Europe/Berlin")
    assert by_line("0 0 * * * a", tz="Asia/Tokyo")[1].trigger.tz == "Asia/Tokyo"


def test_an_unknown_zone_is_flagged_on_its_line_and_on_the_entries_after_it() -> None:
    entries = by_line(USER)
    assert "there is no time zone 'Mars/Base'" in entries[12].flags[0]
    assert entries[13].trigger is None
    assert "there is no time zone 'Mars/Base'" in entries[13].flags[0]


def test_crontab_tz_variable_is_flagged() -> None:
    entries = by_line("TZ=Asia/Tokyo\n0 0 * * * a\n")
    assert "many crons mean only that of the commands" in entries[1].flags[0]
    assert entries[2].trigger.tz == "Asia/Tokyo"


def test_a_system_crontab_names_users() -> None:
    entry = one("17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly", system=True)
    assert (entry.user, entry.command) == ("root", "cd / && run-parts --report /etc/cron.hourly")
    assert entry.trigger == cron("17 * * * *")
    assert one("@daily root backup", system=True).command == "backup"


def test_names_of_crontab_entries_are_unique() -> None:
    entries = parse("0 0 * * * /a/run.sh\n0 1 * * * /b/run.sh\n0 2 * * * ENV=1 run\n0 3 * * * ;;;\n")
    assert [entry.name for entry in entries] == ["run", "run-2", "run-3", "line-4"]


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("0 0 * * * date +%Y", "% ends the command and begins its input in cron"),
        (r"0 0 * * * date +\%Y", r"\% is a plain % in cron; take the backslash away"),
        ("0 0 1 * mon a", "both day fields are set"),
        ("0 0 */2 * mon a", "Vixie cron takes */2 for a star, and then both day fields must match"),
        ("5/10 * * * * a", "5/10: Vixie cron takes a step only behind a range or a star"),
        ("0 0 L * * a", "l: is not POSIX cron"),
        ("*/7 * * * * a", "*/7 starts again every hour"),
        ("0 0 31 * * a", "day 31 does not come in February"),
    ],
)
def test_a_crontab_line_with_another_meaning_is_flagged(line: str, flag: str) -> None:
    entry = one(line)
    assert entry.trigger is not None
    assert any(flag.lower() in told.lower() for told in entry.flags)


def test_a_crontab_entry_within_a_clock_change_is_flagged() -> None:
    (flag,) = one("30 2 * * * a", tz="Europe/Berlin").flags
    assert flag.startswith("clocks in Europe/Berlin change at its time, and crons differ")
    assert flag.endswith("here: 30 March 2025, 02:30 does not exist: runs at 03:00")
    assert one("30 9 * * * a", tz="Europe/Berlin").flags == ()


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("0~30 * * * * a", "~ means a random time"),
        ("61 * * * * a", "minute 61 is not within 0-59"),
        ("0 0 30 2 * a", "day of month 30 never comes"),
        ("@every_minute a", "names no time"),
        ("hello world", "2 fields"),
        ("0 0 * * *", "no command follows the expression"),
    ],
)
def test_a_crontab_line_that_cannot_be_converted_is_flagged(line: str, flag: str) -> None:
    entry = one(line)
    assert entry.trigger is None
    assert any(flag in told for told in entry.flags)


def test_crontab_comments_and_blank_lines_are_ignored() -> None:
    assert parse("# a\n\n   \n  # 0 0 * * * b\n") == []


# intervals


@pytest.mark.parametrize(
    ("expr", "zone", "seconds"),
    [
        ("* * * * *", "UTC", 60),
        ("*/5 * * * *", "UTC", 300),
        ("0 * * * *", "UTC", 3600),
        ("0 */6 * * *", "UTC", 21_600),
        ("0 0 * * *", "UTC", 86_400),
        ("0,30 * * * *", "UTC", 1800),
        ("*/10 * * * * *", "UTC", 10),
        ("*/15 * * * *", "Europe/Berlin", 900),
        ("0 * * * *", "Europe/Berlin", 3600),
        ("*/30 * * * *", "Asia/Kolkata", 1800),
        ("0 0-23 * * *", "Asia/Tokyo", 3600),
    ],
)
def test_a_cron_expression_with_even_ticks_is_an_interval(expr: str, zone: str, seconds: int) -> None:
    assert interval(cron(expr, tz=zone)) == (seconds, "")


@pytest.mark.parametrize(
    ("expr", "zone", "reason"),
    [
        ("*/7 * * * *", "UTC", "not evenly spread"),
        ("5 * * * *", "UTC", "not evenly spread"),
        ("0 9-17 * * *", "UTC", "not evenly spread"),
        ("*/5 * * * mon", "UTC", "does not run on every day"),
        ("*/5 * 1 * *", "UTC", "does not run on every day"),
        ("*/5 * * 1 *", "UTC", "does not run on every day"),
        ("0 0 * * *", "Europe/Berlin", "means times on the wall, and clocks in Europe/Berlin change"),
        ("0 0-23 * * *", "Europe/Berlin", "means times on the wall"),
        ("0 */6 * * *", "Europe/Berlin", "not ahead of UTC by a multiple"),
        ("0 * * * *", "Asia/Kolkata", "not ahead of UTC by a multiple"),
        ("0 * * * *", "Australia/Lord_Howe", "not ahead of UTC by a multiple"),
    ],
)
def test_a_cron_expression_that_is_not_an_interval_has_a_reason(expr: str, zone: str, reason: str) -> None:
    seconds, told = interval(cron(expr, tz=zone))
    assert seconds is None
    assert reason in told


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Africa/Casablanca"])
@pytest.mark.parametrize("expr", ["*/15 * * * *", "0 * * * *"])
def test_an_interval_has_the_ticks_of_its_cron_expression(expr: str, zone: str) -> None:
    rule = cron(expr, tz=zone)
    seconds, _ = interval(rule)
    tick = datetime(2026, 3, 1, tzinfo=UTC)
    for _ in range(35 * 96):
        later = rule.next(tick)
        assert later == tick + timedelta(seconds=seconds)
        tick = later


def test_parse_as_intervals_flags_entries_that_are_not_intervals() -> None:
    even, uneven = parse("*/5 * * * * a\n*/7 * * * * b\n", as_intervals=True)
    assert (even.interval, even.flags) == (300, ())
    assert uneven.interval is None
    assert uneven.flags[-1] == "not an interval: its times are not evenly spread from midnight to midnight"
    assert one("*/5 * * * * a").interval is None
