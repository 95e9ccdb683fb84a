"""mainspring webhooks and triggers: show, update, deliveries."""

from __future__ import annotations

import json

import pytest

URL = "https://hooks.example.com/services/T0K3N"


@pytest.fixture
def hook(cli, shop):
    made = cli("webhooks", "create", "ops", URL, "--event", "job.dead", "--queue", "mail", "--app", shop)
    assert made.exit_code == 0, made.stderr
    return shop


@pytest.fixture
def trigger(cli, shop):
    made = cli(
        "triggers", "create", "paid", "--task", "add", "--argument", "a=body.n", "--priority", "3", "--app", shop
    )
    assert made.exit_code == 0, made.stderr
    return shop


def shown(cli, noun, name, shop):
    return json.loads(cli(noun, "show", name, "--json", "--app", shop).stdout)


def test_webhook_update_changes_only_given_options(cli, hook):
    done = cli(
        "webhooks", "update", "ops", "--event", "job.completed", "--include", "result", "--note", "n", "--app", hook
    )
    assert (done.exit_code, done.stdout) == (0, "webhook 'ops' is changed: note, events, include\n")
    found = shown(cli, "webhooks", "ops", hook)
    assert (found["events"], found["include"], found["note"]) == (["job.completed"], ["result"], "n")
    assert (found["url"], found["queues"]) == (URL, ["mail"])


def test_webhook_update_empties_a_list(cli, hook):
    assert cli("webhooks", "update", "ops", "--queue", "", "--include", "result", "--app", hook).exit_code == 0
    assert cli("webhooks", "update", "ops", "--include", "", "--app", hook).exit_code == 0
    found = shown(cli, "webhooks", "ops", hook)
    assert (found.get("queues"), found.get("include", [])) == (None, [])


def test_webhook_show_has_no_secret(cli, hook):
    page = cli("webhooks", "show", "ops", "--app", hook).stdout
    facts = dict(line.split(maxsplit=1) for line in page.splitlines())
    assert (facts["webhook"], facts["state"], facts["events"], facts["queues"]) == ("ops", "open", "job.dead", "mail")
    assert "T0K3N" not in page
    assert "whsec_" not in page


def test_deliveries_are_listed_with_their_event(cli, hook, inside):
    empty = cli("webhooks", "deliveries", "ops", "--app", hook)
    assert "has no deliveries that are still kept" in empty.stderr

    async def told(app):
        await app.webhooks.test("ops")
        await app.webhooks.test("ops")

    inside(told)
    lines = cli("webhooks", "deliveries", "ops", "--app", hook).stdout.splitlines()
    assert lines[0].split() == ["JOB", "STATE", "EVENT", "TRY", "WHEN", "ABOUT"]
    assert len(lines) == 3
    assert all("pending" in line for line in lines[1:])
    first = cli("webhooks", "deliveries", "ops", "--limit", "1", "--app", hook)
    after = first.stderr.split("--after ")[1].split()[0]
    second = json.loads(cli("webhooks", "deliveries", "ops", "--after", after, "--json", "--app", hook).stdout)
    assert [job["payload"]["webhook"] for job in second] == ["ops"]


def test_a_trigger_is_changed_disabled_and_enabled(cli, trigger):
    done = cli("triggers", "update", "paid", "--body", "--priority", "", "--kwargs", '{"b": 4}', "--app", trigger)
    assert (done.exit_code, done.stdout) == (0, "trigger 'paid' is changed: priority, kwargs, arguments\n")
    found = shown(cli, "triggers", "paid", trigger)
    assert (found["arguments"], found.get("priority"), found["kwargs"]) == ("body", None, {"b": 4})
    assert "is disabled; enable it with" in cli("triggers", "disable", "paid", "--app", trigger).stdout
    assert "state      disabled" in cli("triggers", "show", "paid", "--app", trigger).stdout
    assert cli("triggers", "enable", "paid", "--app", trigger).stdout == "trigger 'paid' is enabled\n"
    assert "state      open" in cli("triggers", "show", "paid", "--app", trigger).stdout


def test_trigger_update_changes_its_target_from_a_task_to_a_schedule(cli, trigger):
    moved = cli(
        "triggers", "update", "paid", "--schedule", "daily", "--priority", "", "--argument", "", "--app", trigger
    )
    assert moved.exit_code == 0, moved.stderr
    found = shown(cli, "triggers", "paid", trigger)
    assert (found.get("task"), found["schedule"], found.get("arguments", {})) == (None, "daily", {})


def test_invalid_hook_updates_are_one_error_line(cli, hook, trigger):
    for noun, words, code, message in (
        ("webhooks", ("update", "ops"), 2, "what is to be changed?"),
        ("webhooks", ("update", "opps", "--note", "n"), 1, "there is no webhook 'opps'"),
        ("webhooks", ("update", "ops", "--url", "https://10.0.0.1/"), 1, "10.0.0.1 is not public (private)"),
        ("webhooks", ("deliveries", "opps"), 1, "there is no webhook 'opps'"),
        ("triggers", ("update", "paid"), 2, "what is to be changed?"),
        ("triggers", ("update", "paid", "--body", "--argument", "a=body"), 2, "not both"),
        ("triggers", ("update", "paid", "--task", "a", "--schedule", "b"), 2, "give one of them"),
        ("triggers", ("update", "paid", "--priority", "high"), 2, "'high' is not a whole number"),
        ("triggers", ("update", "paid", "--task", "ad"), 1, "no task 'ad' is registered"),
        ("triggers", ("disable", "payed"), 1, "there is no trigger 'payed'"),
    ):
        refused = cli(noun, *words, "--app", hook)
        assert (refused.exit_code, message in refused.stderr) == (code, True), (words, refused.stderr)


def test_hook_updates_are_audited(cli, hook, trigger):
    cli("webhooks", "update", "ops", "--note", "n", "--app", hook)
    cli("triggers", "update", "paid", "--note", "n", "--app", trigger)
    acts = json.loads(cli("audit", "--json", "--app", hook).stdout)
    assert [act["action"] for act in acts[:2]] == ["triggers.update", "webhooks.update"]
