"""mainspring queues."""

from __future__ import annotations

import json

import pytest


def test_list_counts_what_waits(cli, shop, enqueued):
    enqueued("add", "a=1")
    enqueued("add", "a=1", "--delay", "1h")
    table = cli("queues", "list", "--app", shop).stdout.splitlines()
    assert table[0].split() == ["QUEUE", "STATE", "PENDING", "SCHEDULED", "RETRYING", "RUNNING"]
    assert table[1].split() == ["mail", "►", "open", "1", "1", "0", "0"]
    (queue,) = json.loads(cli("queues", "list", "--app", shop, "--json").stdout)
    assert queue == {"name": "mail", "paused": False, "pending": 1, "scheduled": 1, "retrying": 0, "running": 0}


def test_an_empty_list_says_what_to_do(cli, shop):
    empty = cli("queues", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no queue of sqlite:///jobs.db holds unfinished jobs; store one" in empty.stderr
    assert json.loads(cli("queues", "list", "--app", shop, "--json").stdout) == []


def test_a_paused_queue_gives_no_jobs_until_it_is_resumed(cli, shop, enqueued, work):
    enqueued("add", "a=1")
    paused = cli("queues", "pause", "mail", "--app", shop)
    assert paused.stdout == "queue 'mail' is paused; it goes on with: mainspring queues resume mail\n"
    assert paused.stderr == ""
    assert "‖ paused" in cli("queues", "list", "--app", shop).stdout
    assert work() == 0
    assert cli("queues", "resume", "mail", "--app", shop).stdout == "queue 'mail' is open again\n"
    assert work() == 1


def test_a_name_nobody_uses_is_pointed_out(cli, shop, enqueued):
    enqueued("add", "a=1")
    paused = cli("queues", "pause", "mial", "--app", shop)
    assert paused.exit_code == 0
    assert paused.stderr == "it holds no unfinished jobs so far (those that do: mail)\n"
    assert cli("queues", "resume", "mail", "--app", shop).stdout == "queue 'mail' was not paused (paused: mial)\n"


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_name_that_cannot_be_is_refused(cli, shop, action):
    refused = cli("queues", action, " ", "--app", shop)
    assert refused.exit_code == 1
    assert "a queue name is 1 to 200 printable characters" in refused.stderr
