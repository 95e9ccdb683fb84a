"""mainspring audit, and the author that is recorded for every command."""

from __future__ import annotations

import getpass
import json
import socket

import pytest


@pytest.fixture
def me() -> str:
    return f"cli:{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def entries(cli, shop):
    def listed(*args):
        return json.loads(cli("audit", "--app", shop, "--json", *args).stdout)

    return listed


def test_changing_command_is_audited(cli, shop, enqueued, entries, me):
    id = enqueued("add", "a=1")
    cli("jobs", "cancel", id, "--reason", "why", "--app", shop)
    entry, _ = entries()
    assert (entry["who"], entry["action"], entry["target"]) == (me, "jobs.cancel", id)
    assert entry["asked"] == {"reason": "why"}
    assert entry["outcome"] == {"done": 1, "refused": 0, "ids": [id]}
    assert entry["at"].endswith("Z")


def test_every_changing_command_is_audited(cli, shop, enqueued, entries, me):
    id = enqueued("add", "a=1", "--delay", "1h")
    for words in (
        ["jobs", "pause", id],
        ["jobs", "resume", id],
        ["jobs", "update", id, "--priority", "3"],
        ["queues", "pause", "mail"],
        ["schedules", "create", "s", "--every", "1h", "--task", "add", "--kwargs", '{"a": 1}'],
        ["schedules", "pause", "s"],
        ["schedules", "trigger", "s"],
        ["schedules", "delete", "s"],
    ):
        done = cli(*words, "--app", shop, input="y\n")
        assert done.exit_code == 0, done.stderr
    assert [entry["action"] for entry in entries()] == [
        "schedules.delete", "schedules.trigger", "schedules.pause", "schedules.create", "queues.pause",
        "jobs.update", "jobs.resume", "jobs.pause", "jobs.enqueue",
    ]  # fmt: skip
    assert {entry["who"] for entry in entries()} == {me}


def test_reading_commands_are_not_audited(cli, shop, enqueued, entries):
    id = enqueued("add", "a=1")
    for words in (["jobs", "list"], ["jobs", "show", id], ["queues", "list"], ["stats"], ["audit"]):
        assert cli(*words, "--app", shop).exit_code == 0
    assert [entry["action"] for entry in entries()] == ["jobs.enqueue"]


def test_enqueue_is_audited_and_shown_on_the_job_page(cli, shop, enqueued, entries, me):
    id = enqueued("add", "a=1")
    (entry,) = entries()
    assert (entry["who"], entry["action"], entry["target"]) == (me, "jobs.enqueue", id)
    assert json.loads(cli("jobs", "show", id, "--json", "--app", shop).stdout)["enqueued_by"] == me
    assert ["made", "by", me] in [line.split() for line in cli("jobs", "show", id, "--app", shop).stdout.splitlines()]


def test_audit_shows_filters_in_words_and_cancel_reasons(cli, shop, enqueued, entries, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    enqueued("add", "a=1", "--delay", "1h")
    done = cli("jobs", "cancel", "--queue", "mail", "--reason", "wrong price", "--yes", "--app", shop)
    assert done.exit_code == 0, done.stderr
    entry = entries()[0]
    assert (entry["action"], entry["reason"]) == ("jobs.cancel", "wrong price")
    assert entry["target_text"] == "unfinished jobs in queue mail"
    listed = cli("audit", "--action", "jobs.cancel", "--app", shop).stdout
    assert "wrong price" in " ".join(listed.split())


def test_user_without_a_name_is_recorded_by_uid(cli, shop, entries, monkeypatch):
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    cli("queues", "pause", "mail", "--app", shop)
    assert entries()[0]["who"] == f"cli:4711@{socket.gethostname()}"


def test_audit_lists_newest_first(cli, shop, enqueued, monkeypatch, me):
    id = enqueued("add", "a=1")
    for words in (["queues", "pause", "mail"], ["jobs", "cancel", id], ["jobs", "pause", id]):
        cli(*words, "--app", shop)
    monkeypatch.setenv("COLUMNS", "200")
    table = cli("audit", "--app", shop).stdout.splitlines()
    assert table[0].split() == ["WHEN", "WHO", "ACTION", "TARGET", "OUTCOME"]
    assert [line.split(me)[1].split()[0] for line in table[1:4]] == ["jobs.pause", "jobs.cancel", "queues.pause"]
    assert table[1].split(me)[1].split()[1] == id
    assert table[2].rstrip().endswith("1 job")
    assert table[3].split()[-2:] == ["mail", "paused"]


def test_audit_filters_by_target_action_actor_and_time(cli, shop, entries, me):
    for words in (["queues", "pause", "mail"], ["queues", "pause", "low"], ["queues", "resume", "mail"]):
        cli(*words, "--app", shop)

    def found(*args):
        return [(entry["action"], entry["target"]) for entry in entries(*args)]

    assert found("--target", "mail") == [("queues.resume", "mail"), ("queues.pause", "mail")]
    assert found("--action", "queues.pause") == [("queues.pause", "low"), ("queues.pause", "mail")]
    assert len(found("--action", "queues", "--who", me, "--since", "1h")) == 3
    assert found("--who", "ada") == found("--action", "jobs") == found("--since", "2990-01-01T00:00:00Z") == []


def test_full_audit_page_hints_at_the_next(cli, shop, entries):
    for name in ("a", "b", "c"):
        cli("queues", "pause", name, "--app", shop)
    page = cli("audit", "--app", shop, "--limit", "2")
    (*_, last) = entries("--limit", "2")
    assert page.stderr == f"there may be more: --before {last['id']}\n"
    assert [entry["target"] for entry in entries("--before", last["id"])] == ["a"]
    assert "no more entries" in cli("audit", "--app", shop, "--before", "0").stderr


def test_empty_audit_log_has_a_hint(cli, shop):
    empty = cli("audit", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "the audit trail of sqlite:///jobs.db is empty" in empty.stderr
    assert "no entry in the audit trail of sqlite:///jobs.db fits" in cli("audit", "--app", shop, "--who", "x").stderr
    assert json.loads(cli("audit", "--app", shop, "--json").stdout) == []


def test_audit_text_cannot_control_the_terminal(cli, shop, inside):
    from mainspring import act_as

    async def act(app):
        with act_as("\x1b[31mred"):
            await app.queues.pause("mail")

    inside(act)
    assert "\\x1b[31mred" in cli("audit", "--app", shop).stdout
