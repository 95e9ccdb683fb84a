"""mainspring cron."""

from __future__ import annotations

import json

import pytest

START = "2026-03-27T12:00:00Z"


def test_cron_prints_meaning_next_runs_and_clock_changes(cli):
    done = cli("cron", "30 2 * * *", "--tz", "Europe/Berlin", "--from", START, "--count", "3")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0] == "at 02:30 every day, Europe/Berlin"
    assert lines[2].split()[:3] == ["NEXT,", "EUROPE/BERLIN", "UTC"]
    assert lines[3].startswith("Sat 2026-03-28 02:30:00 +0100 2026-03-28 01:30:00Z ")
    assert lines[4].startswith("Sun 2026-03-29 03:00:00 +0200 2026-03-29 01:00:00Z ")
    assert "CLOCK CHANGES" in lines
    assert "  29 March 2026, 02:30 does not exist: runs at 03:00" in lines
    assert "  25 October 2026, 02:30 comes twice: runs the first time" in lines
    assert "WARNINGS" not in lines


def test_cron_prints_the_time_until_a_run(cli):
    done = cli("cron", "* * * * *", "--count", "2")
    assert "in " in done.stdout.splitlines()[4]  # the first one may be now


def test_cron_prints_warnings(cli):
    done = cli("cron", "0 0 1 * mon", "--count", "1")
    assert "WARNINGS" in done.stdout
    assert "both day fields are set" in done.stdout
    done = cli("cron", "0 0 1 * mon", "--count", "1", "--day-match", "and")
    assert done.stdout.startswith("at 00:00 on day 1 of the month, but only if that is Monday")


def test_cron_json(cli):
    done = cli("cron", "30 2 */2 * *", "--tz", "Europe/Berlin", "--from", START, "--count", "2", "--json")
    assert json.loads(done.stdout) == {
        "expr": "30 2 */2 * *",
        "tz": "Europe/Berlin",
        "day_match": "or",
        "meaning": "at 02:30 on days 1, 3, 5, … 31 of the month, Europe/Berlin",
        "next": [
            {
                "at": "2026-03-29T01:00:00Z",
                "local": "2026-03-29T03:00:00+02:00",
                "note": "29 March 2026, 02:30 does not exist: runs at 03:00",
            },
            {"at": "2026-03-31T00:30:00Z", "local": "2026-03-31T02:30:00+02:00", "note": ""},
        ],
        "clock_changes": [
            {"at": "2026-03-29T01:00:00Z", "note": "29 March 2026, 02:30 does not exist: runs at 03:00"},
            {"at": "2026-10-25T01:00:00Z", "note": "25 October 2026, 02:30 comes twice: runs the first time"},
        ],
        "warnings": ["*/2 starts again on day 1 of every month: it is not every 2 days"],
    }


def test_cron_name_option_determines_the_value_of_h_fields(cli):
    said = [cli("cron", "H H * * *", "--name", name, "--count", "1").stdout for name in ("report", "report", "backup")]
    assert said[0].splitlines()[0] == said[1].splitlines()[0] != said[2].splitlines()[0]
    assert "(H for 'report': minute " in said[0]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("0 0 31 2 *",), "error: cron '0 0 31 2 *': day of month 31 never comes in month 2; the last day"),
        (("61 * * * *",), "error: cron '61 * * * *': minute 61 is not within 0-59"),
        (
            ("@daily", "--tz", "Europe/Londn"),
            "error: there is no time zone 'Europe/Londn'; did you mean Europe/London",
        ),
    ],
)
def test_invalid_cron_is_one_error_line(cli, args, reason):
    done = cli("cron", *args)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(reason)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("args", [("--count", "0"), ("--count", "1001"), ("--from", "noon"), ("--day-match", "xor")])
def test_invalid_cron_option_is_a_usage_error(cli, args):
    assert cli("cron", "@daily", *args).exit_code == 2


def test_cron_without_future_runs_says_so(cli):
    done = cli("cron", "0 0 1 1 *", "--from", "9999-06-01T00:00:00Z")
    assert (done.exit_code, "does not run again before the year 10000" in done.stdout) == (0, True)
