"""mainspring webhooks and mainspring triggers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mainspring.cli import webhooks
from mainspring.webhook.record import Standing

URL = "https://hooks.example.com/services/T0K3N"


@pytest.fixture
def hook(cli, shop):
    """Creates a webhook; returns the result of the command."""
    made = cli("webhooks", "create", "ops", URL, "--event", "job.dead", "--event", "schedule.missed", "--app", shop)
    assert made.exit_code == 0, made.stderr
    return made


def test_create_list_and_delete_a_webhook(cli, shop, hook):
    assert hook.stdout.startswith("whsec_")
    assert hook.stdout.count("\n") == 1
    assert "this is the secret of webhook 'ops'; it cannot be shown again" in hook.stderr
    title, row = cli("webhooks", "list", "--app", shop).stdout.splitlines()
    assert title.split() == ["NAME", "STATE", "DELIVERED", "FAILURES", "EVENTS", "URL"]
    assert row.split()[:6] == ["ops", "►", "open", "never", "0", "job.dead"]
    assert "T0K3N" not in row
    assert cli("webhooks", "delete", "ops", "--app", shop).stdout == "webhook 'ops' is gone\n"
    empty = cli("webhooks", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "has no webhooks; make one" in empty.stderr


def test_webhook_is_created_with_queue_task_and_tag_filters(cli, shop):
    words = ("--queue", "mail", "--task", "add", "--tag", "a", "--tag", "b", "--include", "result", "--note", "pager")
    made = cli("webhooks", "create", "ops", URL, "--event", "job.dead", *words, "--json", "--app", shop)
    hook = json.loads(made.stdout)["webhook"]
    assert (hook["queues"], hook["tasks"], hook["tags"], hook["include"]) == (["mail"], ["add"], ["a", "b"], ["result"])
    assert hook["note"] == "pager"


def test_webhook_json_has_no_secret(cli, shop, hook, inside):
    async def went(app):
        from mainspring.webhook.record import STANDINGS

        await STANDINGS.add(await app.connect(), Standing(name="ops", failures=2, error="no"), app.clock.now())

    inside(went)
    (listed,) = json.loads(cli("webhooks", "list", "--json", "--app", shop).stdout)
    assert (listed["url"], listed["standing"]["failures"]) == (URL, 2)
    assert hook.stdout.strip() not in json.dumps(listed)


def test_invalid_webhook_is_one_error_line(cli, shop, hook):
    for words, code, message in (
        (("create", "ops", URL, "--event", "job.dead"), 1, "a webhook named 'ops' is there already"),
        (("create", "it", "https://10.0.0.1/", "--event", "job.dead"), 1, "10.0.0.1 is not public (private)"),
        (("create", "it", URL, "--event", "job.born"), 2, "'job.born' is not one of"),
        (("create", "it", URL), 2, "Missing option '--event'"),
        (("delete", "opps"), 1, "there is no webhook 'opps'"),
        (("rotate", "opps"), 1, "there is no webhook 'opps'"),
        (("test", "opps"), 1, "there is no webhook 'opps'"),
    ):
        refused = cli("webhooks", *words, "--app", shop)
        assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr


def test_a_webhook_is_disabled_enabled_and_rotated(cli, shop, hook):
    assert "is disabled; enable it with" in cli("webhooks", "disable", "ops", "--app", shop).stdout
    assert "‖ disabled" in cli("webhooks", "list", "--app", shop).stdout
    assert cli("webhooks", "enable", "ops", "--app", shop).stdout == "webhook 'ops' is enabled\n"
    rotated = cli("webhooks", "rotate", "ops", "--overlap", "1h", "--app", shop)
    assert rotated.stdout.startswith("whsec_")
    assert rotated.stdout != hook.stdout


def test_webhook_test_without_a_worker_is_an_error(cli, shop, hook, monkeypatch):
    monkeypatch.setattr(webhooks, "TEST_TIMEOUT_SECONDS", 0.01)
    refused = cli("webhooks", "test", "ops", "--app", shop)
    assert refused.exit_code == 1
    assert "no worker has delivered it" in refused.stderr
    assert "mainspring why" in refused.stderr


class Receiver(BaseHTTPRequestHandler):
    status = 204

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver():
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhook_test_prints_the_response(cli, shop, receiver, process, monkeypatch):
    monkeypatch.setenv("MAINSPRING_WEBHOOK_ALLOW", "127.0.0.1")
    made = cli("webhooks", "create", "ops", receiver, "--event", "job.dead", "--store", "sqlite:///jobs.db")
    assert made.exit_code == 0, made.stderr
    process("worker", shop)
    assert cli("webhooks", "test", "ops", "--app", shop).stdout == "webhook 'ops' answered 204\n"
    monkeypatch.setattr(Receiver, "status", 500)
    refused = cli("webhooks", "test", "ops", "--app", shop)
    assert (refused.exit_code, refused.stderr) == (1, "error: webhook 'ops': it answered 500\n")


# triggers


def test_create_list_rotate_and_delete_a_trigger(cli, shop):
    words = ("--task", "add", "--argument", "a=body.data.a", "--kwargs", '{"b": 3}', "--queue", "q", "--priority", "5")
    made = cli("triggers", "create", "sums", *words, "--app", shop)
    assert made.stdout.startswith("whsec_")
    assert "the secret of trigger 'sums'" in made.stderr
    title, row = cli("triggers", "list", "--app", shop).stdout.splitlines()
    assert title.split() == ["NAME", "STATE", "SETS", "OFF", "ARGUMENTS", "MADE"]
    assert row.split()[:7] == ["sums", "►", "open", "task", "add", "a=body.data.a", "b=…"]
    (listed,) = json.loads(cli("triggers", "list", "--json", "--app", shop).stdout)
    assert (listed["queue"], listed["priority"], listed["kwargs"]) == ("q", 5, {"b": 3})
    assert made.stdout.strip() not in json.dumps(listed)
    assert cli("triggers", "rotate", "sums", "--app", shop).stdout != made.stdout
    assert cli("triggers", "delete", "sums", "--app", shop).stdout == "trigger 'sums' is gone\n"
    assert "has no triggers; make one" in cli("triggers", "list", "--app", shop).stderr


def test_a_trigger_fires_a_schedule_or_takes_a_whole_message(cli, shop):
    fires = cli("triggers", "create", "now", "--schedule", "nightly", "--json", "--app", shop)
    assert json.loads(fires.stdout)["trigger"]["schedule"] == "nightly"
    takes = cli("triggers", "create", "sums", "--task", "add", "--body", "--json", "--app", shop)
    assert json.loads(takes.stdout)["trigger"]["arguments"] == "body"
    assert "schedule nightly" in cli("triggers", "list", "--app", shop).stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["x"], 1, "makes a job of a task, fires a schedule"),
        (["x", "--task", "ad"], 1, "no task 'ad' is registered"),
        (["x", "--task", "add", "--body", "--argument", "a=body"], 2, "give it, or --argument, not both"),
        (["x", "--task", "add", "--argument", "a"], 2, "is not NAME=PART"),
        (["x", "--task", "add", "--kwargs", "[]"], 2, "takes a JSON object"),
        (["x y", "--task", "add"], 1, "a trigger's name is up to 100 letters"),
    ],
)
def test_invalid_trigger_is_one_error_line(cli, shop, words, code, message):
    refused = cli("triggers", "create", *words, "--app", shop)
    assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr
