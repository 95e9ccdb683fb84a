"""mainspring schedules, and schedules in other commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from mainspring import Mainspring
from mainspring.cli.app_loader import load_app
from mainspring.cli.doctor import examine
from mainspring.cli.options import interval
from mainspring.cli.top.frame import Frame, full_page
from mainspring.cli.top.snapshot import TopSnapshot, take_snapshot
from mainspring.cli.top.view import TopView
from mainspring.records.finding import Finding
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import a_worker
from mainspring.trigger import Every

DIARY = """
from datetime import UTC, datetime
from mainspring import Mainspring, cron
from mainspring.testing import VirtualClock

# Friday noon; on Sunday clocks in London go from 01:00 to 02:00.
clock = VirtualClock(datetime(2026, 3, 27, 12, tzinfo=UTC))
app = Mainspring("sqlite:///jobs.db", clock=clock)

@app.task(queue="mail")
async def add(a: int, b: int = 2) -> int:
    return a + b

@app.task(max_retries=0)
async def fail() -> None:
    raise ValueError("no")

@app.every(minutes=5)
async def health() -> None: ...

app.schedule("night", cron("30 1 * * *", tz="Europe/London"), add, kwargs={"a": 1})
"""


@pytest.fixture
def shop(here: Path) -> str:
    here.joinpath("shop.py").write_text(DIARY)
    return "shop:app"


@pytest.fixture
def run(cli: Callable[..., Any], shop: str) -> Callable[..., str]:
    """Runs a schedules command that succeeds; returns its stdout."""

    def done(*args: str, input: str | None = None) -> str:
        result = cli("schedules", *args, "--app", shop, input=input)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    return done


@pytest.fixture
def make(run: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Creates a schedule of the task add; returns its stored record."""

    def made(name: str, *args: str) -> dict[str, Any]:
        run("create", name, "--task", "add", "--kwargs", '{"a": 1}', *args)
        return json.loads(run("show", name, "--json"))

    return made


@pytest.fixture
def refused(cli: Callable[..., Any], shop: str) -> Callable[..., tuple[int, str]]:
    """Exit code and stderr of a schedules command that fails."""

    def failed(*args: str) -> tuple[int, str]:
        result = cli("schedules", *args, "--app", shop)
        assert result.exit_code != 0
        return result.exit_code, " ".join(result.stderr.split())

    return failed


def clock_of(shop: str) -> VirtualClock:
    load_app(shop)
    clock = sys.modules["shop"].clock
    assert isinstance(clock, VirtualClock)
    return clock


# the list


def test_schedules_without_a_command_prints_help(cli):
    shown = cli("schedules")
    assert "List, show and change schedules." in shown.output
    for name in ("list", "show", "create", "update", "pause", "resume", "trigger", "reschedule", "delete", "preview"):
        assert f"  {name} " in shown.output


def test_schedule_list(run):
    table = run("list").splitlines()
    assert table[0].split() == ["NAME", "STATE", "WHEN", "NEXT", "RUN", "LAST", "RUN", "OWNER"]
    assert " ".join(table[1].split()) == "health ► active every 5 minutes Fri 12:05, in 5m – code"
    assert table[2].startswith("night  ► active at 01:30 every day, Europe/L")
    assert " ".join(table[2].split()).endswith("Sat 01:30, in 13h – code")


def test_wide_schedule_list_has_tasks_and_full_dates(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    night = " ".join(run("list").splitlines()[2].split())
    expected = "night ► active add at 01:30 every day, Europe/London Sat 2026-03-28 01:30 +0000, in 13h – code"
    assert night == expected


def test_schedule_list_shows_the_last_outcome(run, shop, work):
    run("create", "bad", "--task", "fail", "--every", "1m")
    run("list")
    clock_of(shop).advance(minutes=5)
    work()
    lines = {line.split()[0]: " ".join(line.split()) for line in run("list").splitlines()}
    assert lines["bad"] == "bad ► active every minute Fri 12:06, in 1m ✗ now user"
    assert lines["health"] == "health ► active every 5 minutes Fri 12:10, in 5m ✓ now code"


def test_schedule_list_shows_a_run_under_way(run):
    run("trigger", "health")
    assert "► now" in run("list")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--task", "add"], ["mine", "night"]),
        (["--owner", "user"], ["mine"]),
        (["--status", "paused"], ["night"]),
        (["--status", "active", "--task", "add"], ["mine"]),
        (["--limit", "1", "--after", "health"], ["mine"]),
    ],
)
def test_schedule_list_filters(run, make, options, names):
    make("mine", "--every", "1h")
    run("pause", "night")
    assert [row["name"] for row in json.loads(run("list", "--json", *options))] == names


def test_empty_schedule_list_has_a_hint(cli, store):
    empty = cli("schedules", "list", "--store", store)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "sqlite:///jobs.db holds no schedules; make one: mainspring schedules create" in empty.stderr
    chosen = cli("schedules", "list", "--store", store, "--task", "x")
    assert "fits these options; without them all are listed" in chosen.stderr


def test_full_schedule_page_hints_at_the_next(cli, shop):
    shown = cli("schedules", "list", "--limit", "1", "--app", shop)
    assert shown.stderr == "there may be more: --after health\n"


def test_schedule_names_cannot_control_the_terminal(cli, inside, shop):
    from mainspring import every

    async def hostile(app: Mainspring) -> None:
        await app.schedules.create("[bold]x", every(5).minutes, "health")
        await app.schedules.pause("[bold]x", "\x1b[2J boo")

    inside(hostile)
    assert "[bold]x" in cli("schedules", "list", "--app", shop).stdout
    assert "\\x1b[2J boo" in cli("schedules", "show", "[bold]x", "--app", shop).stdout


# one


def test_show_has_rule_zone_next_ticks_and_clock_changes(run):
    page = run("show", "night")
    assert page.startswith("► active  night  at 01:30 every day, Europe/London\n")
    assert "zone      Europe/London\n" in page
    assert 'input     {"a":1}\n' in page
    assert "next run  Sat 2026-03-28 01:30 +0000  (in 13h)\n" in page
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "Sat 2026-03-28 01:30 +0000 2026-03-28 01:30:00Z in 13h" in lines
    assert "29 March 2026, 01:30" in page
    assert sum(line.count(":00Z in ") for line in lines) == 5


def test_show_has_only_policies_that_differ_from_the_default(run, make):
    assert "POLICIES" not in run("show", "night")
    make("mine", "--every", "1h", "--overlap", "queue", "--jitter", "30s", "--window", "08:00-18:00 mon-fri")
    page = run("show", "mine")
    _, _, policies = page.partition("POLICIES\n")
    said = [" ".join(line.split()) for line in policies.split("\n\n")[0].splitlines()]
    assert said == ["overlap queue", "jitter 30s", "window 08:00-18:00 on weekdays"]


def test_show_has_counters_outcome_and_tick_records_with_reasons(run, make, shop, work):
    make("mine", "--every", "1m", "--catch-up", "skip")
    clock = clock_of(shop)
    clock.advance(minutes=1)
    work()
    clock.advance(minutes=10, seconds=30)
    work()
    page = " ".join(run("show", "mine").split())
    assert "last outcome completed now" in page
    assert "runs 2 fired, 2 completed, 0 failed (100 % ok)" in page
    assert "not run 0 skipped, 9 missed (catch_up 9)" in page
    assert "✓ fired" in page
    assert "Fri 2026-03-27 12:02 +0000 ✗ 9 missed catch_up: it came too late" in page
    assert "until Fri 2026-03-27 12:10 +0000" in page


def test_show_has_the_time_and_the_note_of_a_pause(run):
    run("pause", "night", "--note", "holidays")
    page = run("show", "night")
    assert page.startswith("‖ paused  night")
    assert "2026-03-27 12:00:00Z  (now): holidays\n" in page


def test_show_json(run, make):
    told = make("mine", "--cron", "0 9 * * *", "--tz", "Europe/London")
    assert (told["name"], told["status"], told["owner"], told["fired"]) == ("mine", "active", "user", 0)
    assert (told["spec"]["meaning"], told["spec"]["payload"]) == ("at 09:00 every day, Europe/London", {"a": 1})
    assert (told["spec"]["trigger"]["kind"], told["spec"]["overlap"]) == ("cron", "skip")
    assert told["next"][0] == {"at": "2026-03-28T09:00:00Z", "local": "2026-03-28T09:00:00+00:00", "note": ""}
    assert (told["newest"], told["stats"]["success"]) == ([], None)


def test_unknown_schedule_suggests_the_nearest(refused):
    assert refused("show", "nihgt") == (1, "error: there is no schedule 'nihgt'; did you mean 'night'?")


# preview


def test_preview_count(run):
    shown = json.loads(run("preview", "night", "--count", "3", "--json"))
    assert [one["at"] for one in shown] == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert "does not exist: runs at 02:00" in shown[1]["note"]
    assert "does not exist: runs at 02:00" in " ".join(run("preview", "night", "--count", "3").split())


def test_preview_begins_with_a_rescheduled_tick(run):
    run("reschedule", "night", "--at", "2026-03-27T15:00:00Z")
    first, second = json.loads(run("preview", "night", "--count", "2", "--json"))
    assert (first["at"], first["note"]) == ("2026-03-27T15:00:00Z", "not by its trigger")
    assert second["at"] == "2026-03-28T01:30:00Z"


def test_preview_after_finish_has_one_tick(run, make):
    make("mine", "--every", "10m", "--after", "finish")
    assert len(json.loads(run("preview", "mine", "--json"))) == 1


def test_preview_of_a_paused_schedule_has_a_hint(cli, shop, run):
    run("pause", "night")
    assert "these are its ticks if it is resumed now" in cli("schedules", "preview", "night", "--app", shop).stderr


def test_preview_of_an_ended_schedule_is_empty(cli, make, shop, work):
    make("mine", "--at", "2026-03-27T12:01:00Z")
    clock_of(shop).advance(minutes=2)
    work()
    assert cli("schedules", "preview", "mine", "--app", shop).stderr == "schedule 'mine' has no tick to come\n"


# create


def test_create_prints_the_rule_and_the_first_run(run):
    said = run("create", "mine", "--task", "add", "--kwargs", '{"a": 1}', "--cron", "0 9 * * mon-fri")
    words = "at 09:00, Monday to Friday; next run Mon 2026-03-30 09:00 +0000 (in 2d)"
    assert said == f"schedule 'mine' is made: {words}\n"


@pytest.mark.parametrize(
    ("options", "trigger"),
    [
        (["--cron", "0 9 * * *"], {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"}),
        (["--cron", "0 9 1 * 1", "--day-match", "and"], {"kind": "cron", "day_match": "and"}),
        (["--every", "1h30m"], {"kind": "every", "seconds": 5400}),
        (["--every", "30 seconds", "--tz", "Asia/Tokyo"], {"seconds": 30, "tz": "Asia/Tokyo"}),
        (["--at", "2030-01-31T09:00:00Z"], {"kind": "at", "when": "2030-01-31T09:00:00Z"}),
        (["--at", "2030-01-31T09:00", "--tz", "Europe/Paris"], {"when": "2030-01-31T09:00:00", "tz": "Europe/Paris"}),
    ],
)
def test_create_takes_a_cron_an_interval_or_an_instant(make, options, trigger):
    stored = make("mine", *options)["spec"]["trigger"]
    assert {name: stored[name] for name in trigger} == trigger


def test_create_takes_every_policy(make):
    spec = make(
        "mine", "--every", "10m", "--overlap", "cancel", "--catch-up", "all", "--catch-up-window", "2h",
        "--grace", "30", "--jitter", "20s", "--window", "08:00-18:00 mon-fri", "--outside", "move",
        "--exclude", "2026-12-25", "--exclude", "2026-12-26", "--start", "2026-04-01T00:00:00Z",
        "--end", "2027-01-01T00:00:00Z",
        "--max-runs", "7", "--pause-after-failures", "3", "--depends-on", "night", "--adapt", "1h", "--run-on-start",
        "--spread", "--queue", "low", "--priority", "5", "--max-retries", "1", "--timeout", "1m", "--tag", "x",
    )["spec"]  # fmt: skip
    window = {"opens": "08:00", "closes": "18:00", "days": [0, 1, 2, 3, 4], "tz": None, "outside": "move"}
    expected = {
        "overlap": "cancel", "catch_up": "all", "catch_up_window": 7200.0, "grace": 30.0, "jitter": 20.0,
        "window": window, "exclude": ["2026-12-25", "2026-12-26"], "start_at": "2026-04-01T00:00:00Z",
        "end_at": "2027-01-01T00:00:00Z", "max_runs": 7, "pause_after_failures": 3, "depends_on": ["night"],
        "adapt": 3600.0, "run_on_start": True, "spread": True, "queue": "low", "priority": 5, "max_retries": 1,
        "timeout": 60.0, "tags": ["x"],
    }  # fmt: skip
    assert {name: spec[name] for name in expected} == expected


def test_create_uses_the_options_of_the_task(make):
    spec = make("mine", "--every", "10m")["spec"]
    assert (spec["queue"], spec["overlap"], spec["catch_up"], spec["window"]) == ("mail", "skip", "latest", None)


def test_create_without_an_app_takes_a_task_name(cli, store):
    made = cli("schedules", "create", "mine", "--task", "far", "--every", "1h", "--queue", "q", "--store", store)
    assert made.exit_code == 0
    (row,) = json.loads(cli("schedules", "list", "--json", "--store", store).stdout)
    assert (row["spec"]["task"], row["spec"]["queue"]) == ("far", "q")


def test_create_prints_warnings(cli, shop):
    made = cli("schedules", "create", "x", "--task", "fail", "--cron", "0 9 1 * 1", "--app", shop)
    assert made.exit_code == 0
    assert "warning: both day fields are set" in made.stderr


ADD = ("create", "x", "--task", "add")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((*ADD,), 2, "when? Give --cron '0 9 * * mon-fri', --every 5m or --at"),
        ((*ADD, "--cron", "* * * * *", "--every", "5m"), 2, "exclude each other"),
        ((*ADD, "--cron", "61 * * * *"), 1, "minute 61 is not within 0-59"),
        ((*ADD, "--cron", "* * * * *", "--tz", "Europe/Londn"), 1, "did you mean Europe/London"),
        ((*ADD, "--every", "5 parsecs"), 2, "is not an interval such as 5m, 30 seconds or 1h30m"),
        ((*ADD, "--every", "5m", "--day-match", "and"), 2, "--day-match goes with --cron"),
        ((*ADD, "--at", "2030-01-01T09:00"), 2, "has no time zone: add Z for UTC, or --tz Europe/London"),
        ((*ADD, "--at", "tomorrow"), 2, "is not an ISO 8601 instant"),
        ((*ADD, "--every", "5m", "--window", "8 to 6"), 2, "is not a window such as '08:00-18:00'"),
        ((*ADD, "--every", "5m", "--window", "08:00-18:00 mom"), 1, "'mom' is not a weekday"),
        ((*ADD, "--every", "5m", "--outside", "move"), 2, "--outside goes with --window"),
        ((*ADD, "--every", "5m", "--max-runs", "0"), 2, "is not a whole number of at least 1, nor 'none'"),
        ((*ADD, "--every", "5m", "--exclude", "xmas"), 2, "is not a date such as 2030-12-25"),
        ((*ADD, "--every", "5m", "--kwargs", "[1]"), 2, "takes a JSON object such as"),
        ((*ADD, "--every", "5m", "--kwargs", '{"a": "x"}'), 1, "arguments of task 'add' do not fit"),
        ((*ADD, "--every", "5m", "--overlap", "never"), 2, "'never' is not one of"),
        (("create", "x", "--task", "ad", "--every", "5m"), 1, "no task 'ad' is registered in this app; did you"),
        (("create", "night", "--task", "fail", "--every", "5m"), 1, "a schedule named 'night' is there already"),
        ((*ADD, "--at", "2020-01-01T00:00:00Z", "--kwargs", '{"a": 1}'), 1, "schedule 'x'"),
    ],
)  # fmt: skip
def test_invalid_create_is_refused_with_advice(refused, args, code, said):
    assert (refused(*args)[0], said in refused(*args)[1]) == (code, True), refused(*args)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300), ("30 seconds", 30), ("1h30m", 5400), ("90", 90), ("1.5h", 5400), ("2 days", 172_800),
        ("1w", 604_800), ("1 hour and 30 minutes", 5400), ("1 hour, 5 min", 3900), ("250ms", 0.25), (" 5 M ", 300),
    ],
)  # fmt: skip
def test_intervals_are_parsed(text, seconds):
    assert interval(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "m", "5x", "5m5m", "1h 30", "-5m", "1e3", "5m!", "٥m", "1.2.3m", "2 months", "9" * 99 + "w", "1m" * 99]
)
def test_invalid_interval_is_refused(text):
    with pytest.raises(click.BadParameter):
        interval(text)


# change


def test_update_changes_only_given_policies(run, make):
    make("mine", "--every", "1h", "--max-runs", "3", "--window", "08:00-18:00")
    said = run("update", "mine", "--every", "2h", "--max-runs", "none", "--overlap", "allow", "--outside", "move")
    assert said.startswith("schedule 'mine' is changed: every 2 hours; next run ")
    spec = json.loads(run("show", "mine", "--json"))["spec"]
    assert (spec["trigger"]["seconds"], spec["max_runs"], spec["overlap"]) == (7200, None, "allow")
    assert (spec["window"]["outside"], spec["payload"]) == ("move", {"a": 1})


def test_update_tz_alone_keeps_the_rule(run):
    run("update", "night", "--tz", "Asia/Tokyo")
    trigger = json.loads(run("show", "night", "--json"))["spec"]["trigger"]
    assert (trigger["expr"], trigger["tz"]) == ("30 1 * * *", "Asia/Tokyo")


def test_update_none_removes_a_policy(run, make):
    make("mine", "--every", "1h", "--window", "08:00-18:00", "--exclude", "2026-12-25", "--jitter", "5s",
         "--end", "2027-01-01T00:00:00Z", "--depends-on", "night")  # fmt: skip
    run("update", "mine", "--window", "none", "--exclude", "none", "--jitter", "none", "--end", "none",
        "--depends-on", "none")  # fmt: skip
    spec = json.loads(run("show", "mine", "--json"))["spec"]
    assert [spec[name] for name in ("window", "exclude", "jitter", "end_at", "depends_on")] == [None, [], 0.0, None, []]


def test_update_without_options_is_refused(refused):
    code, said = refused("update", "night")
    assert code == 2
    assert "what is to be changed?" in said


def test_pause_and_resume(cli, run, shop):
    paused = cli("schedules", "pause", "night", "health", "--note", "holidays", "--app", shop)
    assert paused.stdout == "schedule 'night' is paused\nschedule 'health' is paused\n"
    assert paused.stderr == "to go on: mainspring schedules resume night health\n"
    assert json.loads(run("list", "--status", "paused", "--json"))[1]["note"] == "holidays"
    resumed = run("resume", "night")
    assert resumed == "schedule 'night' goes on; next run Sat 2026-03-28 01:30 +0000 (in 13h)\n"
    assert run("resume", "night").startswith("schedule 'night' was not paused; next run ")


@pytest.mark.parametrize(("options", "runs"), [([], 0), (["--catch-up"], 1)])
def test_resume_catches_up_only_with_the_catch_up_option(run, shop, work, options, runs):
    run("pause", "health")
    clock_of(shop).advance(minutes=32)
    run("resume", "health", *options)
    assert work() == runs


def test_pause_with_an_unknown_schedule_among_several_changes_nothing(refused, run):
    assert refused("pause", "night", "hleath")[0] == 1
    assert json.loads(run("list", "--status", "paused", "--json")) == []


@pytest.mark.parametrize("when", [["--at", "2026-03-27T14:00:00Z"], ["--in", "2h"]])
def test_reschedule_moves_the_next_tick(run, when):
    assert run("reschedule", "night", *when) == (
        "schedule 'night' is moved; next run Fri 2026-03-27 14:00 +0000 (in 2h)\n"
    )


def test_reschedule_needs_a_time(refused):
    assert "when? Give --at INSTANT or --in SPAN" in refused("reschedule", "night")[1]


def test_delete_a_schedule(run, make, refused):
    make("mine", "--every", "1h")
    assert run("delete", "mine") == "schedule 'mine' is deleted\n"
    assert "there is no schedule 'mine'" in refused("show", "mine")[1]


def test_delete_of_a_declared_schedule_has_a_hint(cli, shop):
    done = cli("schedules", "delete", "night", "--app", shop)
    assert done.exit_code == 0
    assert "'night' is declared in code, and comes back" in done.stderr


@pytest.mark.parametrize(
    "args",
    [["pause"], ["resume"], ["reschedule", "--in", "1h"], ["update", "--jitter", "1s"]],
)
def test_changes_print_the_schedule_as_json(run, args):
    told = json.loads(run(*args, "night", "--json"))
    assert (told[0] if isinstance(told, list) else told)["name"] == "night"


# run


def test_trigger_enqueues_and_keeps_the_next_tick(cli, run, shop):
    id = run("trigger", "night", "--kwargs", '{"a": 40}').strip()
    job = json.loads(cli("jobs", "show", id, "--json", "--app", shop).stdout)
    assert (job["schedule"], job["payload"], job["shown"]) == ("night", {"a": 40}, "pending")
    told = json.loads(run("show", "night", "--json"))
    assert (told["next_run_at"], told["newest"][0]["reason"]) == ("2026-03-28T01:30:00Z", "by_hand")
    assert "✓ by hand" in run("show", "night")


def test_backfill_dry_run(cli, run, shop):
    said = run("backfill", "night", "--start", "2026-03-25T00:00:00Z", "--dry-run").splitlines()
    assert said[0] == "Wed 2026-03-25 01:30 +0000"
    assert said[-1] == "3 jobs would be made, for the ticks from 2026-03-25 01:30:00Z to 2026-03-27 01:30:00Z"
    assert json.loads(cli("jobs", "list", "--json", "--app", shop).stdout) == []


def test_backfill_asks_for_confirmation(cli, run, shop):
    words = ["schedules", "backfill", "night", "--start", "3d", "--end", "1d", "--app", shop]
    refused = cli(*words, input="n\n")
    assert refused.exit_code == 1
    assert "make 2 jobs of schedule 'night', for the ticks from 2026-03-25 01:30:00Z to" in refused.stderr
    assert "not confirmed, so nothing was done" in refused.stderr
    assert json.loads(cli("jobs", "list", "--json", "--app", shop).stdout) == []
    assert cli(*words, input="y\n").stdout.startswith("2 jobs made, for the ticks from 2026-03-25")
    assert len(json.loads(cli("jobs", "list", "--schedule", "night", "--json", "--app", shop).stdout)) == 2


def test_backfill_skips_ticks_with_jobs(cli, run, shop):
    run("backfill", "night", "--start", "2d", "--yes")
    again = cli("schedules", "backfill", "night", "--start", "2d", "--yes", "--app", shop)
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == "nothing to make: 2 of these ticks have their job already\n"
    told = json.loads(run("backfill", "night", "--start", "3d", "--dry-run", "--json"))
    assert (told["made"], len(told["there"]), told["dry_run"]) == (["2026-03-25T01:30:00Z"], 2, True)


def test_backfill_of_the_future_is_refused(refused):
    code, said = refused("backfill", "night", "--start", "2027-01-01T00:00:00Z", "--end", "2027-01-02T00:00:00Z")
    assert code == 1
    assert "both past" in said


# schedules in other commands


def test_job_page_has_schedule_and_tick(cli, run, shop):
    id = run("trigger", "night").strip()
    page = " ".join(cli("jobs", "show", id, "--app", shop).stdout.split())
    assert "schedule night tick 2026-03-27 12:00:00Z (now)" in page
    why = cli("why", id, "--app", shop).stdout.splitlines()
    assert why[1] == "  of schedule night, for its tick 2026-03-27 12:00:00Z  (now)"
    told = json.loads(cli("why", id, "--json", "--app", shop).stdout)
    assert (told["schedule"], told["scheduled_at"]) == ("night", "2026-03-27T12:00:00Z")


def test_job_list_filters_by_schedule(cli, run, shop):
    id = run("trigger", "night").strip()
    run("trigger", "health")
    assert [job["id"] for job in json.loads(_jobs(cli, shop, "night"))] == [id]
    asked = cli("jobs", "cancel", "--schedule", "night", "--app", shop, input="n\n")
    assert "cancel 1 job (state pending, scheduled, retrying, running, waiting, paused; schedule night)" in asked.stderr


def _jobs(cli: Callable[..., Any], shop: str, schedule: str) -> str:
    return cli("jobs", "list", "--schedule", schedule, "--json", "--app", shop).stdout


def test_stats_count_schedules_and_name_the_next(cli, run, shop):
    assert "schedules" not in cli("stats", "--app", shop).stdout
    run("pause", "night")
    assert "schedules  ► 1 active  ‖ 1 paused  next health in 5m\n" in cli("stats", "--app", shop).stdout
    told = json.loads(cli("stats", "--json", "--app", shop).stdout)
    assert told["schedules"] == {"active": 1, "paused": 1, "ended": 0}


async def _seen(app: Mainspring) -> TopView:
    view, snapshot = TopView(), await take_snapshot(app)
    assert isinstance(snapshot, TopSnapshot)
    view.update(snapshot)
    return view


def _drawn(part: Any, width: int, height: int) -> list[str]:
    from rich.console import Console

    console = Console(width=width, height=height, force_terminal=True, color_system=None, record=True)
    with console.capture() as captured:
        console.print(part)
    return captured.get().splitlines()


async def test_top_has_a_pane_of_the_next_ticks_with_a_countdown(here, clock):
    app = Mainspring("sqlite:///jobs.db", clock=clock)

    @app.every(minutes=5)
    async def health() -> None: ...

    @app.cron("0 9 * * *", tz="Europe/London")
    async def report() -> None: ...

    async with app:
        assert "no schedule is active" in "\n".join(_drawn(full_page(await _seen(app), 80), 80, 60))
        await app.schedules.list()
        clock.advance(minutes=1)
        view = await _seen(app)
        view.press("4")
        lines = [" ".join(line.split()) for line in _drawn(Frame(view), 100, 30)]
        assert "[4 next 2]" in " ".join(lines)
        at = lines.index("IN SCHEDULE TASK AT WHEN")
        assert lines[at + 1] == "► 4m health health Wed 2020-01-01 00:05 +0000 every 5 minutes"
        assert lines[at + 2].startswith("► 8h report report Wed 2020-01-01 09:00 +0000 at 09:00 every day")
        clock.advance(minutes=10)
        assert "6m late health" in " ".join(" ".join(_drawn(full_page(await _seen(app), 80), 80, 60)).split())


async def test_top_does_not_write_declared_schedules(here, clock):
    app = Mainspring("sqlite:///jobs.db", clock=clock)

    @app.every(minutes=5)
    async def health() -> None: ...

    async with app:
        await take_snapshot(app)
        await examine(app)
        assert await (await app.connect()).schedules(limit=10) == []


# doctor


@pytest.fixture
def diary(here: Path, clock: VirtualClock) -> Mainspring:
    app = Mainspring("sqlite:///jobs.db", clock=clock)

    @app.task(max_retries=0)
    async def fail() -> None:
        raise ValueError("no")

    @app.task
    async def fine() -> None: ...

    return app


async def _alive(app: Mainspring, *tasks: str) -> None:
    now = app.clock.now()
    info = a_worker("ada", tasks=tasks, lease=20.0)
    await (await app.connect()).beat(info, until=now + timedelta(seconds=20), now=now)


async def _finding(app: Mainspring, about: str = "schedules") -> Finding:
    (found,) = [finding for finding in await examine(app) if finding.about == about]
    return found


async def test_doctor_counts_healthy_schedules(diary):
    async with diary as app:
        assert (await _finding(app)).text == "there are none"
        await app.schedules.create("a", Every(seconds=60), "fine")
        await app.schedules.create("b", Every(seconds=60), "fine")
        await app.schedules.pause("b", "by me")
        await _alive(app, "fine")
        assert await _finding(app) == Finding("schedules", "ok", "1 active, 1 paused; a is next, in 1m")


async def test_no_worker_while_schedules_tick_is_a_warning(diary):
    async with diary as app:
        await app.schedules.create("a", Every(seconds=60), "fine")
        found = await _finding(app, "workers")
        assert (found.verdict, found.text) == ("warn", "none is alive, and 1 schedule will be due")


async def test_overdue_schedules_are_a_bad_finding(diary, clock):
    async with diary as app:
        await app.schedules.create("a", Every(seconds=60), "fine")
        clock.advance(minutes=1, seconds=30)
        assert (await _finding(app)).verdict == "ok"
        clock.advance(minutes=2)
        found = await _finding(app)
        assert (found.verdict, found.text) == ("bad", "overdue: a for 2m")
        assert "mainspring worker MODULE:ATTR" in found.remedy
        await _alive(app, "fine")
        assert "look at the workers' logs" in (await _finding(app)).remedy


async def test_schedules_whose_task_no_live_worker_knows_are_bad(diary):
    async with diary as app:
        await app.schedules.create("a", Every(seconds=60), "fine")
        await _alive(app, "fail")
        found = await _finding(app)
        assert (found.verdict, found.text) == ("bad", "no live worker knows the task of a (fine)")
        assert "mainspring schedules delete a" in found.remedy


async def test_schedules_paused_by_failures_are_a_warning(diary, clock):
    async with diary as app:
        await app.schedules.create("a", Every(seconds=60), "fail", pause_after_failures=2)
        for _ in range(2):
            clock.advance(minutes=1)
            await app.drain()
        await _alive(app, "fail", "fine")
        found = await _finding(app)
        assert (found.verdict, found.text) == ("warn", "paused by failures: a (2 in a row)")
        assert found.remedy.endswith("mainspring schedules resume a")
