"""mainspring dead."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def graves(enqueued, work):
    """Three dead jobs in two groups; returns their ids."""
    ids = [enqueued("fail", f"why={why}") for why in ("no user 1", "no user 2", "no luck")]
    work()
    return ids


def listed(cli, shop, *args: str) -> list[dict]:
    return json.loads(cli("dead", "list", "--app", shop, "--json", *args).stdout)


def test_dead_list_groups_by_error(cli, shop, graves):
    shown = cli("dead", "list", "--app", shop)
    title, most, least = shown.stdout.splitlines()
    assert title.split() == ["JOBS", "TASK", "ERROR", "LAST", "DIED"]
    assert most.split()[:6] == ["2", "fail", "ValueError:", "no", "user", "…"]
    assert least.split()[:5] == ["1", "fail", "ValueError:", "no", "luck"]
    assert "mainspring dead redrive --task NAME --error TEXT" in shown.stderr


def test_dead_groups_fit_80_columns_and_show_the_newest_if_wide(cli, shop, enqueued, work, monkeypatch):
    id = enqueued("fail", f"why={'long ' * 40}")
    work()
    assert all(len(line) <= 80 for line in cli("dead", "list", "--app", shop).stdout.splitlines())
    assert all(len(line) <= 80 for line in cli("dead", "list", "--ids", "--app", shop).stdout.splitlines())
    monkeypatch.setenv("COLUMNS", "140")
    assert id in cli("dead", "list", "--app", shop).stdout


def test_dead_list_filters_by_task_and_error(cli, shop, graves):
    assert [group["count"] for group in listed(cli, shop)] == [2, 1]
    assert [group["error"] for group in listed(cli, shop, "--error", "ValueError: no l")] == ["ValueError: no luck"]
    assert [group["count"] for group in listed(cli, shop, "--task", "fail", "--limit", "1")] == [2]
    assert listed(cli, shop, "--task", "add") == []
    assert "1 of 2 kinds of failure: --limit shows more" in cli("dead", "list", "--limit", "1", "--app", shop).stderr


def test_dead_list_ids_is_paged(cli, shop, graves):
    first = cli("dead", "list", "--ids", "--limit", "2", "--app", shop, "--json")
    cursor = first.stderr.removeprefix("there may be more: --after ").strip()
    rest = listed(cli, shop, "--ids", "--after", cursor)
    assert {job["id"] for job in json.loads(first.stdout) + rest} == set(graves)
    assert [job["id"] for job in listed(cli, shop, "--ids", "--error", "ValueError: no luck")] == [graves[2]]
    table = cli("dead", "list", "--ids", "--app", shop).stdout.splitlines()
    assert table[0].split() == ["ID", "TASK", "DIED", "REASON"]
    assert cli("dead", "list", "--after", cursor, "--app", shop).exit_code == 2


def test_empty_dead_list_has_a_hint(cli, shop, graves):
    assert "no dead job of sqlite:///jobs.db fits" in cli("dead", "list", "--task", "x", "--app", shop).stderr
    cli("jobs", "delete", "--all", "-y", "--app", shop)
    none = cli("dead", "list", "--app", shop)
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no job of sqlite:///jobs.db is dead\n")
    assert listed(cli, shop) == []


def test_redrive_by_id(cli, shop, graves):
    assert cli("dead", "redrive", graves[0], "--app", shop).stdout == "1 job is pending again\n"
    assert len(listed(cli, shop, "--ids")) == 2


def test_redrive_refuses_a_job_that_is_not_dead(cli, shop, enqueued, graves):
    waiting = enqueued("add", "a=1")
    mixed = cli("dead", "redrive", graves[0], waiting, "nope", "--app", shop)
    assert (mixed.exit_code, mixed.stdout) == (1, "1 job is pending again\n")
    assert f"cannot redrive job {waiting}: it is pending, redrive needs dead\n" in mixed.stderr
    assert "there is no job 'nope'" in mixed.stderr


def test_redrive_of_a_group_asks_for_confirmation(cli, shop, graves):
    done = cli("dead", "redrive", "--error", "ValueError: no user", "--app", shop, input="y\n")
    assert "redrive 2 jobs (state dead; error ValueError: no user …) in sqlite:///jobs.db?" in done.stderr
    assert done.stdout.endswith("2 jobs are pending again\n")
    assert [job["id"] for job in listed(cli, shop, "--ids")] == [graves[2]]


def test_redrive_all_with_a_new_argument(cli, shop, graves, work):
    done = cli("dead", "redrive", "--all", "--arg", "why=7", "-y", "--app", shop)
    assert done.stdout == "3 jobs are pending again\n"
    work()
    assert [group["error"] for group in listed(cli, shop)] == ["ValueError: …"]


def test_redrive_with_an_invalid_argument_is_refused(cli, shop, graves):
    refused = cli("dead", "redrive", graves[0], "--arg", "what=x", "--app", shop)
    assert refused.exit_code == 1
    assert f"cannot redrive job {graves[0]}: arguments of task 'fail' do not fit" in refused.stderr
    assert len(listed(cli, shop, "--ids")) == 3


def test_redrive_without_dead_jobs_is_no_error(cli, shop):
    none = cli("dead", "redrive", "--all", "--app", shop)
    assert none.exit_code == 0
    assert "nothing to redrive in sqlite:///jobs.db: no job with state dead" in none.stderr


@pytest.mark.parametrize("args", [[], ["x", "--all"], ["x", "--task", "fail"]])
def test_redrive_needs_either_ids_or_a_filter(cli, shop, args):
    assert cli("dead", "redrive", *args, "--app", shop).exit_code == 2
