"""mainspring jobs update, reschedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest


@pytest.fixture
def job(cli, shop):
    """The record of a job."""
    return lambda id: json.loads(cli("jobs", "show", id, "--app", shop, "--json").stdout)


def test_update_changes_only_given_options(cli, shop, enqueued, job):
    id = enqueued("add", "a=1", "--tag", "old", "--priority", "3", "--metadata", "who=me")
    given = ["--set-queue", "low", "--max-retries", "9", "--timeout", "90", "--set-tag", "red", "--set-tag", "big"]
    assert cli("jobs", "update", id, *given, "--app", shop).stdout == "1 job is updated\n"
    now = job(id)
    assert (now["queue"], now["max_retries"], now["timeout"], now["tags"]) == ("low", 9, 90.0, ["red", "big"])
    assert (now["priority"], now["metadata"], now["payload"]) == (3, {"who": "me"}, {"a": 1})


def test_update_priority_metadata_and_expiry(cli, shop, enqueued, job):
    id = enqueued("add", "a=1")
    given = ["--priority", "-7", "--metadata", '{"who": "ada"}', "--expires-at", "2999-01-01T00:00:00Z"]
    cli("jobs", "update", id, *given, "--app", shop)
    now = job(id)
    assert (now["priority"], now["metadata"], now["expires_at"]) == (-7, {"who": "ada"}, "2999-01-01T00:00:00Z")


def test_update_none_removes_a_limit(cli, shop, enqueued, job):
    id = enqueued("add", "a=1", "--timeout", "90", "--tag", "red")
    cli("jobs", "update", id, "--expires-at", "2999-01-01T00:00:00Z", "--app", shop)
    cli("jobs", "update", id, "--timeout", "none", "--expires-at", "never", "--no-tags", "--app", shop)
    now = job(id)
    assert (now["timeout"], now["expires_at"], now["tags"]) == (None, None, [])


def test_update_arg_is_merged_and_typed(cli, shop, enqueued, job, work):
    id = enqueued("add", "a=1", "b=1")
    assert cli("jobs", "update", id, "--arg", "b=41", "--app", shop).exit_code == 0
    work()
    assert (job(id)["payload"], job(id)["result"]) == ({"a": 1, "b": 41}, 42)


def test_update_with_an_invalid_argument_is_refused(cli, shop, enqueued, job):
    id = enqueued("add", "a=1")
    refused = cli("jobs", "update", id, "--arg", "b=many", "--app", shop)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: cannot update job {id}: arguments of task 'add' do not fit")
    assert job(id)["payload"] == {"a": 1}


def test_update_arg_is_checked_by_the_task_of_each_job(cli, shop, enqueued, job):
    number, text = enqueued("add", "a=1"), enqueued("greet", "name=Ann")
    mixed = cli("jobs", "update", "--all", "--arg", "name=Bob", "-y", "--app", shop)
    assert (mixed.exit_code, mixed.stdout) == (1, "1 job is updated\n")
    assert f"cannot update job {number}" in mixed.stderr
    assert job(text)["payload"]["name"] == "Bob"


def test_update_arg_without_an_app_is_text(cli, store, enqueued, job):
    id = enqueued("add", "a=1")
    cli("jobs", "update", id, "--arg", "a=2", "--arg", "b:=2", "--store", store)
    assert job(id)["payload"] == {"a": "2", "b": 2}


def test_update_by_filter(cli, shop, enqueued, job):
    mail, other = enqueued("add", "a=1"), enqueued("greet", "name=Ann")
    done = cli("jobs", "update", "--queue", "mail", "--set-queue", "low", "-y", "--app", shop)
    assert done.stdout == "1 job is updated\n"
    assert (job(mail)["queue"], job(other)["queue"]) == ("low", "default")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "what is to be changed?"),
        (["--priority", "99999"], "is not in the range"),
        (["--metadata", "[1]"], "takes a JSON object"),
        (["--metadata", "{"], "takes a JSON object"),
        (["--arg", "b"], "'b' is not KEY=VALUE; write --arg KEY=VALUE, or KEY:=JSON"),
        (["--set-tag", "x", "--no-tags"], "exclude each other"),
        (["--queue", "low"], "--set-queue and --set-tag change them"),
        (["--timeout", "soon"], "must be a span"),
        (["--expires-at", "soon"], "is not an ISO 8601 instant"),
    ],
)
def test_invalid_update_is_a_usage_error(cli, shop, enqueued, args, says):
    refused = cli("jobs", "update", enqueued("add", "a=1"), *args, "--app", shop)
    assert refused.exit_code == 2
    assert says in " ".join(refused.stderr.split())


def test_update_to_an_invalid_queue_is_refused(cli, shop, enqueued):
    refused = cli("jobs", "update", enqueued("add", "a=1"), "--set-queue", " ", "--app", shop)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: option queue of this update: a queue name is 1 to 200 printable")


def test_reschedule_of_a_finished_job_is_refused(cli, shop, enqueued, work):
    id = enqueued("add", "a=1")
    work()
    refused = cli("jobs", "reschedule", id, "--in", "1h", "--app", shop)
    assert refused.exit_code == 1
    assert "it is completed, reschedule needs paused, pending, waiting" in refused.stderr


def test_reschedule_at(cli, shop, enqueued, job, work):
    id = enqueued("add", "a=1")
    done = cli("jobs", "reschedule", id, "--at", "2999-01-31T09:00:00+02:00", "--app", shop)
    assert done.stdout == "1 job is due at 2999-01-31 07:00:00Z\n"
    assert job(id)["run_at"] == "2999-01-31T07:00:00Z"
    assert work() == 0
    cli("jobs", "reschedule", id, "--at", "2000-01-01T00:00:00Z", "--app", shop)
    assert work() == 1


def test_reschedule_in(cli, shop, enqueued, job):
    id = enqueued("add", "a=1")
    before = datetime.fromisoformat(job(id)["run_at"])
    cli("jobs", "reschedule", "--task", "add", "--in", "2h", "-y", "--app", shop)
    moved = datetime.fromisoformat(job(id)["run_at"]).astimezone(UTC) - before
    assert timedelta(hours=2) <= moved < timedelta(hours=3)


@pytest.mark.parametrize("args", [[], ["--in", "1h", "--at", "2999-01-01T00:00:00Z"]])
def test_reschedule_needs_exactly_one_time(cli, shop, args):
    refused = cli("jobs", "reschedule", "x", *args, "--app", shop)
    assert refused.exit_code == 2
    assert "when? Give --at INSTANT or --in SPAN" in refused.stderr
