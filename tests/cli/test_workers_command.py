"""mainspring workers."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta

import pytest

from mainspring.cli.app_loader import load_app
from mainspring.clock import EPOCH
from mainspring.records.worker import WorkerCommands, WorkerInfo, WorkerRow

ABOUT = {"host": "web", "pid": 7, "tasks": ("add", "greet"), "started_at": EPOCH, "memory": 48 << 20}


@pytest.fixture
def crew(shop):
    """Stores workers that have just sent a beat."""

    def beat(*workers: WorkerInfo) -> None:
        async def inside() -> None:
            app = load_app(shop)
            async with app:
                now = app.clock.now()
                for worker in workers:
                    await (await app.connect()).beat(worker, until=now + timedelta(seconds=60), now=now)

        asyncio.run(inside())

    return beat


def info(id: str, **more) -> WorkerInfo:
    return WorkerInfo(**{**ABOUT, "id": id, "queues": None, "concurrency": 10, "grace": 30.0} | more)


def listed(cli, shop) -> list[dict]:
    return json.loads(cli("workers", "list", "--app", shop, "--json").stdout)


def test_worker_list_has_a_line_per_worker(cli, shop, crew):
    crew(info("web-7-aa", running=3, finished=1234), info("web-8-bb", queues=("mail", "low"), queue_limits={"mail": 5}))
    title, first, second = cli("workers", "list", "--app", shop).stdout.splitlines()
    assert title.split() == ["ID", "STATE", "SLOTS", "ENDED", "MEMORY", "BEAT", "BY", "QUEUES"]
    assert first.split() == ["web-7-aa", "►", "open", "3/10", "1,234", "48M", "in", "59s", "all"]
    assert second.split()[-2:] == ["mail=5,", "low"]


def test_workers_without_a_subcommand_lists_the_workers(cli, shop, crew, monkeypatch):
    monkeypatch.setenv("MAINSPRING_APP", shop)
    crew(info("web-7-aa"))
    assert cli("workers").stdout == cli("workers", "list").stdout
    assert json.loads(cli("workers", "--json").stdout)[0]["id"] == "web-7-aa"
    assert "Commands:" in cli("workers", "--help").stdout


def test_worker_list_fits_80_columns_and_has_more_columns_when_wide(cli, shop, crew, monkeypatch):
    crew(info("worker-of-some-host-1234567-0123abcd", queues=tuple(f"queue-{n}" for n in range(20)), leaked=2))
    assert all(len(line) <= 80 for line in cli("workers", "--app", shop).stdout.splitlines())
    assert "LEAKED" in cli("workers", "--app", shop).stdout
    monkeypatch.setenv("COLUMNS", "140")
    title, row = cli("workers", "--app", shop).stdout.splitlines()
    assert {"HOST", "PID", "LEAKED"} <= set(title.split())
    assert {"web", "7", "2"} <= set(row.split())


def test_worker_text_cannot_control_the_terminal(cli, shop, crew, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    crew(info("w\x1b[2J", host="\x1b]0;x\x07", queues=("[red]q\x1b[1m",), tasks=("\x1b[5m",)))
    for words in (["list"], ["show", "w"], ["resize", "w", "3"], ["drain", "w"], ["stop", "w"]):
        shown = cli("workers", *words, "--app", shop)
        assert shown.exit_code == 0
        assert "\x1b" not in shown.output
        assert "w\\x1b[2J" in shown.stdout


def test_empty_worker_list_has_a_hint(cli, shop):
    none = cli("workers", "list", "--app", shop)
    assert (none.exit_code, none.stdout) == (0, "")
    assert none.stderr == "no worker of sqlite:///jobs.db is alive; start one: mainspring worker MODULE:ATTR\n"
    assert listed(cli, shop) == []


@pytest.mark.parametrize(
    ("about", "orders", "state"),
    [
        ({}, WorkerCommands(), "open"),
        ({}, WorkerCommands(drained=True), "draining"),
        ({"drained": True, "running": 1}, WorkerCommands(drained=True), "draining"),
        ({"drained": True}, WorkerCommands(drained=True), "drained"),
        ({"drained": True}, WorkerCommands(), "resuming"),
        ({}, WorkerCommands(stopped=True), "stopping"),
        ({"drained": True}, WorkerCommands(drained=True, stopped=True), "stopping"),
    ],
)
def test_worker_state_shows_pending_commands(about, orders, state):
    assert WorkerRow(info("w", **about), EPOCH, orders).state == state


def test_show_worker_page(cli, process, shop, enqueued, until):
    worker = process("worker", shop, "--queues", "mail=5,default", "--concurrency", "7")
    worker.line("worker")
    id = enqueued("sleep", "seconds=60")
    until(lambda: cli("jobs", "list", "--state", "running", "--app", shop).stdout)
    (live,) = listed(cli, shop)
    begin = live["id"][:-4]
    page = cli("workers", "show", begin, "--app", shop).stdout
    assert page.startswith(f"► open  {live['id']}\n")
    for part in ("/7 taken", "mail=5, default", "add, fail, greet, sleep, talk", id):
        assert part in page
    (job,) = json.loads(cli("workers", "show", begin, "--json", "--app", shop).stdout)["jobs"]
    assert job["id"] == id
    assert [
        one["id"] for one in json.loads(cli("jobs", "list", "--worker", begin, "--json", "--app", shop).stdout)
    ] == [id]
    cli("jobs", "cancel", id, "--app", shop)
    until(lambda: "It runs nothing now." in cli("workers", "show", begin, "--app", shop).stdout)
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_live_worker_follows_commands(cli, process, shop, enqueued, until):
    worker = process("worker", shop, "--concurrency", "7")
    worker.line("worker")
    (live,) = listed(cli, shop)
    assert cli("workers", "resize", live["id"], "3", "--app", shop).exit_code == 0
    until(lambda: listed(cli, shop)[0]["concurrency"] == 3)
    cli("workers", "drain", live["id"], "--app", shop)
    until(lambda: listed(cli, shop)[0]["state"] == "drained")
    id = enqueued("add", "a=1")
    assert "every worker that could take it is drained; resume one" in cli("why", id, "--app", shop).stdout
    cli("workers", "resume", "--all", "--app", shop)
    until(lambda: json.loads(cli("jobs", "show", id, "--json", "--app", shop).stdout)["state"] == "completed")
    cli("workers", "resize", live["id"], "default", "--app", shop)
    until(lambda: listed(cli, shop)[0]["concurrency"] == 7)
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_resize_is_printed_and_listed_as_pending(cli, shop, crew):
    crew(info("web-7-aa"))
    done = cli("workers", "resize", "web", "50", "--app", shop)
    assert done.stdout == "worker web-7-aa will have 50 slots from its next beat on\n"
    assert "0/10→50" in cli("workers", "--app", shop).stdout
    done = cli("workers", "resize", "--all", "default", "--app", shop)
    assert done.stdout == "worker web-7-aa will have the slots it was started with from its next beat on\n"
    assert listed(cli, shop)[0]["orders"] == {"concurrency": None, "drained": False, "stopped": False}


@pytest.mark.parametrize("args", [[], ["web"], ["web", "0"], ["web", "x"], ["web", "100001"], ["web", "3", "--all"]])
def test_resize_needs_a_worker_and_a_number(cli, shop, crew, args):
    crew(info("web-7-aa"))
    assert cli("workers", "resize", *args, "--app", shop).exit_code == 2


def test_drain_and_resume_of_some_workers(cli, shop, crew):
    crew(info("web-7-aa"), info("web-8-bb"), info("web-9-cc"))
    done = cli("workers", "drain", "web-7", "web-8", "web-7", "--app", shop)
    says = "takes no more jobs from its next beat on"
    assert done.stdout == f"worker web-7-aa {says}\nworker web-8-bb {says}\n"
    assert done.stderr == "to go on: mainspring workers resume web-7-aa web-8-bb\n"
    assert [worker["state"] for worker in listed(cli, shop)] == ["draining", "draining", "open"]
    done = cli("workers", "resume", "--all", "--json", "--app", shop)
    assert json.loads(done.stdout) == {"ordered": ["web-7-aa", "web-8-bb", "web-9-cc"]}
    assert [worker["state"] for worker in listed(cli, shop)] == ["open"] * 3


def test_drain_of_all_workers_asks_for_confirmation(cli, shop, crew):
    crew(info("web-7-aa"), info("web-8-bb"))
    refused = cli("workers", "drain", "--all", "--app", shop, input="n\n")
    assert refused.exit_code == 1
    assert "drain all 2 workers of sqlite:///jobs.db, so that nothing more is started?" in refused.stderr
    assert [worker["state"] for worker in listed(cli, shop)] == ["open", "open"]
    assert cli("workers", "drain", "--all", "-y", "--app", shop).exit_code == 0
    assert [worker["state"] for worker in listed(cli, shop)] == ["draining", "draining"]


def test_stopped_workers_refuse_later_commands(cli, shop, crew):
    crew(info("web-7-aa"), info("web-8-bb"), info("web-9-cc"))
    done = cli("workers", "stop", "web-7", "web-8", "web-7", "--app", shop)
    says = "stops from its next beat on"
    assert (done.stdout, done.stderr) == (f"worker web-7-aa {says}\nworker web-8-bb {says}\n", "")
    assert "■ stopping" in cli("workers", "list", "--app", shop).stdout
    assert [worker["state"] for worker in listed(cli, shop)] == ["stopping", "stopping", "open"]
    refused = cli("workers", "drain", "web-9", "web-8", "--app", shop)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: cannot drain worker web-8-bb: it is stopping, drain needs ")
    assert listed(cli, shop)[2]["state"] == "open"
    assert json.loads(cli("workers", "drain", "--all", "--yes", "--json", "--app", shop).stdout) == {
        "ordered": ["web-9-cc"]
    }


def test_stop_of_all_workers_asks_for_confirmation(cli, shop, crew):
    crew(info("web-7-aa"), info("web-8-bb"), info("old-1-dd", grace=None))
    refused = cli("workers", "stop", "--all", "--app", shop, input="n\n")
    assert refused.exit_code == 1
    assert "stop all 2 workers of sqlite:///jobs.db, so that nothing runs until others are started?" in refused.stderr
    assert [worker["state"] for worker in listed(cli, shop)] == ["open"] * 3
    assert cli("workers", "stop", "--all", "-y", "--app", shop).exit_code == 0
    assert [worker["state"] for worker in listed(cli, shop)] == ["open", "stopping", "stopping"]


@pytest.mark.parametrize(
    "words", [["show", "x"], ["drain", "web-7", "x"], ["resume", "x"], ["resize", "x", "1"], ["stop", "web-7", "x"]]
)
def test_unknown_worker_is_an_error_before_any_command_is_stored(cli, shop, crew, words):
    crew(info("web-7-aa"))
    refused = cli("workers", *words, "--app", shop)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "error: no live worker is called 'x' (alive: web-7-aa)\n"
    assert listed(cli, shop)[0]["state"] == "open"


def test_ambiguous_worker_id_is_refused(cli, shop, crew):
    crew(info("web-7-aa"), info("web-8-bb"))
    refused = cli("workers", "drain", "web", "--app", shop)
    assert refused.exit_code == 1
    assert refused.stderr == "error: the ids of 2 live workers begin with 'web': web-7-aa, web-8-bb\n"


@pytest.mark.parametrize("action", ["drain", "resume", "stop"])
def test_commands_without_live_workers_are_no_error(cli, shop, action):
    assert cli("workers", action, "--app", shop).exit_code == 2
    none = cli("workers", action, "--all", "--app", shop)
    assert none.exit_code == 0
    assert "no worker of sqlite:///jobs.db is alive" in none.stderr
