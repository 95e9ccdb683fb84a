"""mainspring schedules stats, executions and bulk."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def ran(shop, inside):
    """Schedules a, b and c; a has failed once, b has completed once."""

    async def run(app):
        from mainspring import every

        for name, task in (("a", "fail"), ("b", "add"), ("c", "add")):
            kwargs = {"why": "disk 1 is full"} if task == "fail" else {"a": 1}
            await app.schedules.create(name, every(hours=1), task, kwargs=kwargs)
        await app.schedules.trigger("b")
        await app.schedules.trigger("a")
        await app.drain()

    inside(run)
    return shop


def test_statistics_of_a_schedule_have_times_and_errors(cli, ran):
    found = json.loads(cli("schedules", "stats", "a", "--window", "1h", "--json", "--app", ran).stdout)
    assert (found["schedule"], found["window"], found["runs"]["runs"], found["runs"]["failed"]) == ("a", 3600, 1, 1)
    assert found["errors"][0]["error"] == "ValueError: disk … is full"
    assert found["sample"]["complete"] is True
    page = cli("schedules", "stats", "a", "--app", ran).stdout
    assert page.startswith("a, last 7d  1 run  0.0 % ok  p50 ")
    assert "ValueError: disk … is full" in page
    empty = cli("schedules", "stats", "c", "--app", ran)
    assert (empty.exit_code, "no run of its kept jobs has ended in the last 7d" in empty.stderr) == (0, True)
    for words, code in ((("nobody",), 1), (("a", "--window", "400d"), 2)):
        assert cli("schedules", "stats", *words, "--app", ran).exit_code == code


def test_executions_of_a_schedule_are_runs_with_ticks(cli, ran):
    (run,) = json.loads(cli("schedules", "executions", "a", "--json", "--app", ran).stdout)
    assert (run["outcome"], run["tick"]["reason"], run["tick"]["job_id"]) == ("failed", "by_hand", run["job_id"])
    assert "✗ failed" in cli("schedules", "executions", "a", "--app", ran).stdout
    empty = cli("schedules", "executions", "c", "--app", ran)
    assert "no kept job of schedule 'c' has run yet" in empty.stderr


def test_schedules_bulk_pauses_resumes_triggers_and_deletes(cli, ran):
    tried = cli("schedules", "bulk", "pause", "--task", "add", "--dry-run", "--app", ran)
    assert tried.stdout == "b\nc\n2 schedules would be paused\n"
    asked = cli("schedules", "bulk", "pause", "--task", "add", "--app", ran, input="n\n")
    assert (asked.exit_code, "pause 2 schedules in" in asked.stderr) == (1, True)
    done = cli("schedules", "bulk", "pause", "--task", "add", "--note", "deploy", "--yes", "--app", ran)
    assert done.stdout == "2 schedules are paused\n"
    rows = json.loads(cli("schedules", "list", "--status", "paused", "--json", "--app", ran).stdout)
    assert [(row["name"], row["note"]) for row in rows] == [("b", "deploy"), ("c", "deploy")]
    assert cli("schedules", "bulk", "resume", "--all", "--yes", "--app", ran).stdout == "3 schedules are resumed\n"
    made = json.loads(cli("schedules", "bulk", "trigger", "--name", "b", "--yes", "--json", "--app", ran).stdout)
    assert list(made["jobs"]) == ["b"]
    gone = cli("schedules", "bulk", "delete", "--name", "b", "--name", "x", "--yes", "--app", ran)
    assert (gone.exit_code, gone.stdout) == (1, "1 schedule is deleted\n")
    assert "x: there is no schedule 'x'" in gone.stderr


def test_schedules_bulk_with_missing_or_unfitting_options_is_refused(cli, ran):
    for words, message in (
        (("pause",), "which schedules?"),
        (("delete", "--all", "--note", "n"), "--note goes with pause"),
        (("pause", "--all", "--catch-up"), "--catch-up goes with resume"),
    ):
        refused = cli("schedules", "bulk", *words, "--app", ran)
        assert (refused.exit_code, message in refused.stderr) == (2, True)
    none = cli("schedules", "bulk", "pause", "--match", "zzz", "--yes", "--app", ran)
    assert (none.exit_code, "nothing to pause" in none.stderr) == (0, True)
