"""mainspring enqueue."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime

import pytest


def shown(cli, id: str, store: str) -> dict:
    return json.loads(cli("jobs", "show", id, "--store", store, "--json").stdout)


def test_enqueue_prints_only_the_id(cli, shop, store):
    done = cli("enqueue", "add", "a=5", "--app", shop)
    assert done.exit_code == 0
    assert done.stderr == ""
    job = shown(cli, done.stdout.strip(), store)
    assert (job["task"], job["queue"], job["payload"], job["shown"]) == ("add", "mail", {"a": 5}, "pending")


def test_enqueue_arguments_are_typed_by_the_task(cli, enqueued, store):
    id = enqueued("greet", "name=5", "loud=true", "at=2030-01-31T09:00:00Z", "ids=[1,2]")
    payload = {"name": "5", "loud": True, "at": "2030-01-31T09:00:00Z", "ids": [1, 2]}
    assert shown(cli, id, store)["payload"] == payload


def test_enqueue_args_option_takes_positional_and_named_arguments(cli, enqueued, store):
    assert shown(cli, enqueued("add", "--args", "[1, 2]"), store)["payload"] == {"a": 1, "b": 2}
    assert shown(cli, enqueued("add", "b=3", "--args", '{"a": 1}'), store)["payload"] == {"a": 1, "b": 3}


def test_enqueue_options_reach_the_job(cli, enqueued, store):
    id = enqueued(
        "add", "a=1", "--queue", "low", "--priority", "-5", "--run-at", "2030-01-31T09:00:00+01:00",
        "--unique-key", "k", "--max-retries", "7", "--timeout", "5m", "--tag", "x", "--tag", "y",
        "--metadata", "who=me", "--metadata", "n:=1",
    )  # fmt: skip
    job = shown(cli, id, store)
    assert (job["queue"], job["priority"], job["shown"]) == ("low", -5, "scheduled")
    assert job["run_at"] == "2030-01-31T08:00:00Z"
    assert (job["unique_key"], job["max_retries"], job["timeout"]) == ("k", 7, 300.0)
    assert (job["tags"], job["metadata"]) == (["x", "y"], {"who": "me", "n": 1})


def test_enqueue_delay_counts_from_now(cli, enqueued, store):
    job = shown(cli, enqueued("add", "a=1", "--delay", "2h"), store)
    created, due = (datetime.fromisoformat(job[name]).astimezone(UTC) for name in ("created_at", "run_at"))
    assert 7199 < (due - created).total_seconds() < 7201


def test_enqueue_of_a_duplicate_prints_the_holder(cli, enqueued, shop):
    id = enqueued("add", "a=1", "--idempotency-key", "k")
    again = cli("enqueue", "add", "a=2", "--idempotency-key", "k", "--app", shop)
    assert again.exit_code == 0
    assert again.stdout.strip() == id
    assert again.stderr.startswith("duplicate: another job holds this key")


def test_enqueue_json(cli, enqueued, shop):
    id = enqueued("add", "a=1", "--unique-key", "k")
    again = json.loads(cli("enqueue", "add", "a=1", "--unique-key", "k", "--app", shop, "--json").stdout)
    assert again == {"id": id, "status": "duplicate", "duplicate": True}


def test_enqueue_with_only_a_store_is_unchecked(cli, store):
    done = cli("enqueue", "of_another_service", "n=5", "m:=5", "--queue", "far", "--store", store)
    job = shown(cli, done.stdout.strip(), store)
    assert (job["task"], job["queue"], job["payload"]) == ("of_another_service", "far", {"n": "5", "m": 5})


def test_enqueue_with_an_app_without_tasks_is_unchecked(cli, here, store):
    here.joinpath("client.py").write_text("from mainspring import Mainspring\napp = Mainspring('sqlite:///jobs.db')\n")
    done = cli("enqueue", "elsewhere", "n=5", "--app", "client:app")
    assert shown(cli, done.stdout.strip(), store)["task"] == "elsewhere"


def test_enqueue_wait_prints_the_result(cli, process, shop):
    worker = process("worker", shop)
    worker.line("worker")
    done = cli("enqueue", "add", "a=5", "--app", shop, "--wait", "20")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.split()[1:] == ["7"]
    answer = json.loads(cli("enqueue", "add", "a=5", "--app", shop, "--wait", "20", "--json").stdout)
    assert (answer["status"], answer["result"]) == ("new", 7)
    failed = cli("enqueue", "fail", "why=\x1b[31mred", "--app", shop, "--wait", "20")
    assert failed.exit_code == 1
    assert failed.stderr.endswith("(fail) is dead: ValueError: \\x1b[31mred\n")
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_enqueue_wait_hints_if_no_worker_runs(cli, shop):
    late = cli("enqueue", "add", "a=5", "--app", shop, "--wait", "50ms")
    assert late.exit_code == 1
    assert "no worker that knows 'add' is running; start one: mainspring worker" in late.stderr
    assert "(add) is pending after 0.05 s" in late.stderr


def test_enqueue_to_a_memory_store_warns(cli):
    done = cli("enqueue", "add", "--store", "memory://")
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: memory:// exists in this process only")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ad", "a=1"], "no task 'ad' is registered in this app; did you mean 'add'?"),
        (["zzz"], "known: add, fail, greet, sleep"),
        (["add"], "arguments of task 'add' do not fit: Object missing required field `a`"),
        (["add", "a=x"], "arguments of task 'add' do not fit: Expected `int`, got `str`"),
        (["add", "a=1", "z=1"], "task 'add' has no argument 'z' (takes: a, b)"),
        (["add", "--args", "[1,2,3]"], "takes at most 2 positional arguments, got 3"),
        (["add", "a=1", "--queue", " "], "a queue name is 1 to 200 printable characters"),
        (["add", "a=1", "--unique-key", "k", "--idempotency-key", "k"], "exclude each other; choose one"),
    ],
)
def test_refused_enqueue_exits_with_1(cli, shop, args, said):
    refused = cli("enqueue", *args, "--app", shop)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["a=1", "--delay", "soon"], "it must be a span such as 30, '30s', '5m' or '1h30m', got 'soon'"),
        (["a=1", "--delay", "1", "--run-at", "2030-01-01T00:00:00Z"], "--delay and --run-at exclude each other"),
        (["a=1", "--run-at", "tomorrow"], "'tomorrow' is not an ISO 8601 instant such as 2030-01-31T09:00:00Z"),
        (["a=1", "--run-at", "2030-01-31T09:00"], "has no time zone: add Z for UTC"),
        (["a=1", "--priority", "99999"], "99999 is not in the range -32768<=x<=32767"),
        (["a=1", "--max-retries", "-1"], "-1 is not in the range"),
        (["a=1", "--metadata", "x"], "'x' is not KEY=VALUE"),
        (["a=1", "--args", '{"a": 1}'], "'a' is given twice: in --args and as a word"),
    ],
)
def test_invalid_enqueue_is_a_usage_error(cli, shop, args, said):
    refused = cli("enqueue", "add", *args, "--app", shop)
    assert refused.exit_code == 2
    assert said in " ".join(refused.stderr.split())


def test_positional_arguments_need_the_app(cli, store):
    refused = cli("enqueue", "add", "--args", "[1]", "--store", store)
    assert refused.exit_code == 2
    assert "arguments go by name" in refused.stderr
