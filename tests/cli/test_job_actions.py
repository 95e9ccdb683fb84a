"""mainspring jobs cancel, retry, pause, resume, delete: choice, confirmation, report."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mainspring import Filter
from mainspring.cli.progress import count_on_stderr
from mainspring.events import JobsChanged

ACTIONS = ["cancel", "retry", "pause", "resume", "delete"]


@pytest.fixture
def states(cli, shop):
    """The state of every job by its id."""

    def look(*args: str) -> dict[str, str]:
        jobs = json.loads(cli("jobs", "list", "--app", shop, "--json", "--limit", "1000", *args).stdout)
        return {job["id"]: job["state"] for job in jobs}

    return look


def test_pause_and_resume_a_job(cli, shop, enqueued, work):
    id = enqueued("add", "a=1")
    assert cli("jobs", "pause", id, "--app", shop).stdout == "1 job is paused\n"
    assert work() == 0
    assert cli("jobs", "resume", id, "--app", shop).stdout == "1 job is pending again\n"
    assert work() == 1


def test_delete_removes_a_job(cli, shop, enqueued, states):
    id = enqueued("add", "a=1")
    assert cli("jobs", "delete", id, "--app", shop).stdout == "1 job is deleted\n"
    assert states() == {}


def test_filter_without_ids_asks_for_confirmation(cli, shop, enqueued, states):
    mail, other = enqueued("add", "a=1"), enqueued("greet", "name=Ann")
    asked = cli("jobs", "pause", "--queue", "mail", "--app", shop, input="y\n")
    assert asked.exit_code == 0
    question = "pause 1 job (state pending, scheduled, retrying; queue mail) in sqlite:///jobs.db? [y/N]"
    assert question in asked.stderr
    assert states() == {mail: "paused", other: "pending"}


def test_confirmation_names_every_filter(cli, shop, enqueued):
    enqueued("add", "a=1", "--unique-key", "user:1", "--tag", "t")
    parts = ["--task", "add", "--tag", "t", "--key-prefix", "user:", "--since", "1h"]
    asked = cli("jobs", "cancel", *parts, "--app", shop, input="n\n")
    assert "; task add; tag t; key user:…; since 2" in asked.stderr


def test_delete_skips_unfinished_jobs_by_default(cli, shop, enqueued, work, states):
    enqueued("add", "a=1")
    work()
    waiting = enqueued("add", "a=1")
    assert cli("jobs", "delete", "--all", "-y", "--app", shop).stdout == "1 job is deleted\n"
    assert list(states()) == [waiting]
    assert cli("jobs", "delete", "--state", "pending", "-y", "--app", shop).stdout == "1 job is deleted\n"


def test_jobs_enqueued_after_the_question_are_not_changed(cli, shop, enqueued, process, states, monkeypatch):
    first, second = enqueued("add", "a=1"), []

    def answer(*_: object, **__: object) -> bool:
        second.append(process("enqueue", "add", "a=2", "--app", shop).end()[1].strip())
        return True

    monkeypatch.setattr("click.confirm", answer)
    assert cli("jobs", "cancel", "--all", "--app", shop).stdout == "1 job is cancelled\n"
    assert states() == {first: "cancelled", second[0]: "pending"}


@pytest.mark.parametrize("action", ACTIONS)
def test_filter_that_matches_nothing_is_no_error(cli, shop, action):
    none = cli("jobs", action, "--task", "mnay", "--app", shop)
    assert none.exit_code == 0
    assert f"nothing to {action} in sqlite:///jobs.db: no job with state" in none.stderr
    assert "; task mnay" in none.stderr
    told = json.loads(cli("jobs", action, "--task", "mnay", "--json", "--app", shop).stdout)
    assert told == {"action": action, "done": [], "stopping": 0, "refused": []}


@pytest.mark.parametrize("action", ACTIONS)
def test_job_action_without_ids_or_filters_is_a_usage_error(cli, shop, action):
    refused = cli("jobs", action, "--app", shop)
    assert refused.exit_code == 2
    assert "which jobs? Give ids, or options that choose (--state, --queue, --task, …), or --all" in refused.stderr


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("more", [["--all"], ["--state", "dead"]])
def test_job_ids_and_filters_exclude_each_other(cli, shop, action, more):
    refused = cli("jobs", action, "x", *more, "--app", shop)
    assert refused.exit_code == 2
    assert "ids say which jobs are meant" in refused.stderr


@pytest.mark.parametrize("action", ACTIONS)
def test_unknown_job_id_is_an_error(cli, shop, action):
    refused = cli("jobs", action, "nope", "--app", shop)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "error: there is no job 'nope' in the store (never enqueued, or deleted)\n"


def test_json_lists_done_and_refused_jobs(cli, shop, enqueued, work):
    done = enqueued("add", "a=1")
    work()
    waiting = enqueued("add", "a=1")
    mixed = cli("jobs", "pause", waiting, done, "nope", "--json", "--app", shop)
    assert mixed.exit_code == 1
    told = json.loads(mixed.stdout)
    assert told["done"] == [waiting]
    assert [one["id"] for one in told["refused"]] == [done, "nope"]
    assert "it is completed, pause needs paused, pending" in told["refused"][0]["error"]
    assert mixed.stderr == "error: 2 of 3 jobs refused\n"


def test_repeated_job_id_counts_once(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    assert cli("jobs", "cancel", id, id, "--app", shop).stdout == "1 job is cancelled\n"


def test_confirmation_count_is_capped(cli, shop, inside, monkeypatch):
    async def fill(app):
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(1001))

    inside(fill)
    monkeypatch.setattr("mainspring.cli.job_changes.MAX_COUNTED_JOBS", 1000)
    asked = cli("jobs", "cancel", "--all", "--app", shop, input="n\n")
    assert "cancel more than 1,000 jobs (" in asked.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bulk_action_progress_is_shown_on_a_terminal(inside, monkeypatch):
    async def cancel(app):
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(2100))
        with count_on_stderr(app, JobsChanged, "cancel"):
            await app.jobs.cancel(Filter())

    monkeypatch.setattr(sys, "stderr", seen := Terminal())
    inside(cancel)
    first, *counts, last = seen.getvalue().split("\rcancel: ")
    assert (first, last) == ("", "2,100 jobs …\r\x1b[K")
    numbers = [int(text.removesuffix(" jobs …").replace(",", "")) for text in counts]
    assert numbers == sorted(numbers)
    assert numbers


def test_bulk_action_progress_is_not_shown_in_a_pipe(inside, capsys):
    async def cancel(app):
        await app.enqueue_many(app.tasks["add"].job(n) for n in range(1001))
        with count_on_stderr(app, JobsChanged, "cancel"):
            await app.jobs.cancel(Filter())

    inside(cancel)
    assert capsys.readouterr().err == ""
