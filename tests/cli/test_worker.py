"""mainspring worker as a process."""

from __future__ import annotations

import json
import re
import signal
import sqlite3

import pytest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_runs_jobs_and_stops_on_a_signal(process, shop, enqueued, number):
    enqueued("add", "a=1")
    worker = process("worker", shop, "--concurrency", "7", "--queues", "mail=5,default", "--log-level", "debug")
    start = worker.line("worker")
    assert re.fullmatch(r"worker \S+ on sqlite:///jobs.db: queues mail=5,default, 5 tasks, 7 slots", start)
    waiting = process("enqueue", "add", "a=2", "--app", shop, "--wait", "20")
    assert waiting.end()[0] == 0
    worker.signal(number)
    code, out, errors = worker.end()
    assert code == 0
    assert out.endswith("stopped: 2 completed, 0 to run again, 0 dead, 0 cancelled")
    assert "DEBUG" in errors
    assert "Traceback" not in errors


def test_failures_are_logged_to_stderr_without_control_codes(process, shop, enqueued):
    enqueued("fail", "why=\x1b[31mred")
    worker = process("worker", shop)
    worker.line("worker")
    process("enqueue", "add", "a=2", "--app", shop, "--wait", "20").end()
    worker.signal(signal.SIGTERM)
    _, out, errors = worker.end()
    assert "ERROR   mainspring: dead fail" in errors
    assert "\x1b" not in errors
    assert "1 dead" in out


def test_second_signal_does_not_wait_for_running_jobs(process, shop, enqueued, cli, until):
    def job():
        return json.loads(cli("jobs", "list", "--app", shop, "--json").stdout)[0]

    enqueued("sleep", "seconds=60")
    worker = process("worker", shop)
    until(lambda: job()["state"] == "running")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    code, out, _ = worker.end()
    assert code == 0
    assert "0 completed, 1 to run again" in out
    assert job()["shown"] == "pending"


def test_app_comes_from_the_environment(process, shop):
    worker = process("worker", MAINSPRING_APP=shop)
    worker.line("queues all")
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_logging_set_up_by_the_app_is_left_alone(process, here, shop, enqueued):
    here.joinpath("own.py").write_text(
        "import logging, sys\nlogging.basicConfig(stream=sys.stderr, format='MINE %(message)s')\nfrom shop import app\n"
    )
    enqueued("fail", "why=x")
    worker = process("worker", "own:app")
    worker.line("worker")
    process("enqueue", "add", "a=2", "--app", shop, "--wait", "20").end()
    worker.signal(signal.SIGTERM)
    errors = worker.end()[2]
    assert "MINE dead fail" in errors
    assert "ERROR" not in errors


@pytest.mark.parametrize(("setting", "tuned"), [("on", True), ("off", False)])
def test_worker_tunes_the_garbage_collector_of_its_process(process, here, setting, tuned):
    here.joinpath("heap.py").write_text(
        "import gc\nfrom mainspring import Mainspring\napp = Mainspring('sqlite:///jobs.db')\n"
        "default = gc.get_threshold()\n"
        "@app.task\nasync def tuned() -> bool:\n    return gc.get_threshold() != default\n"
    )
    worker = process("worker", "heap:app", MAINSPRING_TUNE_GC=setting)
    worker.line("worker")
    code, out, _ = process("enqueue", "tuned", "--app", "heap:app", "--wait", "20").end()
    assert code == 0
    assert json.dumps(tuned) in out
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_recycled_process_restarts_in_place(process, shop, enqueued):
    worker = process("worker", shop, "--queues", "mail", MAINSPRING_RECYCLE_JOBS="1")
    starts = [worker.line(" on sqlite")]
    for _ in range(2):
        enqueued("add", "a=1")
        worker.line("stopped: 1 completed, 0 to run again")
        starts.append(worker.line(" on sqlite"))
    assert len(set(starts)) == 3
    assert {int(start.split("-")[-2]) for start in starts} == {worker.popen.pid}
    assert all("queues mail" in start for start in starts)
    worker.signal(signal.SIGTERM)
    code, _, errors = worker.end()
    assert code == 0
    assert errors.count("recycles: ran 1 job\n") == 2


def test_sighup_restarts_the_process(process, shop):
    worker = process("worker", shop)
    first = worker.line(" on sqlite")
    worker.signal(signal.SIGHUP)
    second = worker.line(" on sqlite")
    assert first != second
    assert f"-{worker.popen.pid}-" in second
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_workers_stop_ends_the_process_without_a_restart(process, cli, shop, enqueued, until):
    worker = process("worker", shop)
    name = worker.line(" on sqlite").split()[1]
    enqueued("sleep", "seconds=1")
    until(lambda: cli("jobs", "list", "--state", "running", "--app", shop).stdout)
    assert cli("workers", "stop", name, "--app", shop).stdout == f"worker {name} stops from its next beat on\n"
    code, out, errors = worker.end()
    assert code == 0
    assert out.splitlines()[-1] == f"worker {name} stopped: 1 completed, 0 to run again, 0 dead, 0 cancelled"
    assert out.count(" on sqlite") == 1
    assert "recycles" not in errors
    assert cli("workers", "list", "--json", "--app", shop).stdout.strip() == "[]"


def test_sighup_restart_keeps_environment_and_directory(process, here, shop):
    here.joinpath("moved.py").write_text(
        "import os\nprint('FROM', os.environ.get('WHERE', 'here'), flush=True)\nos.environ['WHERE'] = 'elsewhere'\n"
        "from shop import app\nos.makedirs('elsewhere', exist_ok=True)\nos.chdir('elsewhere')\n"
    )
    worker = process("worker", "moved:app")
    for _ in range(2):
        assert worker.line("FROM") == "FROM here"
        worker.line(" on sqlite")
        worker.signal(signal.SIGHUP)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([], 2, "which app? Give module:attribute, e.g. shop:app, or set $MAINSPRING_APP"),
        (["shop:app", "--app", "shop:other"], 2, "two apps are named, shop:app and shop:other: give one"),
        (["zzz:app"], 1, "there is no module 'zzz'"),
        (["shop:app", "--queues", "mail=x"], 2, "cannot read 'mail=x'"),
        (["shop:app", "--queues", "mail,,low"], 2, "cannot read ''"),
        (["shop:app", "--queues", "mail=0"], 2, "cannot read 'mail=0'"),
        (["shop:app", "--concurrency", "0"], 2, "0 is not in the range"),
        (["shop:app", "--log-level", "loud"], 2, "'loud' is not one of"),
    ],
)
def test_invalid_worker_arguments_are_refused_with_the_reason(cli, shop, args, code, said):
    refused = cli("worker", *args)
    assert refused.exit_code == code
    assert said in " ".join(refused.stderr.split())


def test_worker_without_tasks_is_an_error(cli, here):
    here.joinpath("bare.py").write_text("from mainspring import Mainspring\napp = Mainspring('sqlite:///jobs.db')\n")
    refused = cli("worker", "bare:app")
    assert refused.exit_code == 1
    assert "register some with @app.task" in refused.stderr


def test_worker_on_an_unopenable_store_is_an_error(cli, here):
    here.joinpath("lost.py").write_text(
        "from mainspring import Mainspring\napp = Mainspring('sqlite:////no/such/dir/jobs.db')\n"
        "@app.task\nasync def f() -> None: ...\n"
    )
    refused = cli("worker", "lost:app")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: cannot open SQLite file '/no/such/dir/jobs.db': there is no directory '/no/such/dir'\n"
    )


def test_worker_ends_with_an_error_if_a_table_is_dropped(process, shop, here):
    worker = process("worker", shop)
    worker.line("worker")
    with sqlite3.connect(here / "jobs.db") as db:
        db.execute("DROP TABLE mainspring_queues")
    db.close()
    code, _, errors = worker.end()
    assert code == 1
    assert "error: SQLite: no such table: mainspring_" in errors
    assert "Traceback" not in errors


HOSTILE = """
import asyncio, sys
from shop import app

async def leave():
    sys.exit(7)

@app.task(max_retries=0)
async def leave_in_a_task() -> str:
    task = asyncio.create_task(leave())
    await asyncio.sleep(0.2)
    return "stayed"

@app.task(max_retries=0)
async def leave_later() -> str:
    asyncio.get_running_loop().call_soon(sys.exit, 9)
    await asyncio.sleep(0.2)
    return "stayed"

@app.task(max_retries=0)
async def stop_the_loop() -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.2)
    return "stayed"
"""


def test_a_job_that_ends_the_event_loop_does_not_end_the_worker(process, here, shop):
    here.joinpath("hostile.py").write_text(HOSTILE)
    worker = process("worker", "hostile:app")
    worker.line("worker")
    for task in ("leave_in_a_task", "leave_later", "stop_the_loop"):
        code, out, _ = process("enqueue", task, "--app", "hostile:app", "--wait", "20").end()
        assert (code, "stayed" in out) == (0, True), (task, out)
    process("enqueue", "add", "a=2", "--app", shop, "--wait", "20").end()
    worker.signal(signal.SIGTERM)
    code, out, errors = worker.end()
    assert code == 0
    assert "stopped: 4 completed, 0 to run again, 0 dead" in out
    assert "code of a job has ended the event loop, which goes on" in errors
