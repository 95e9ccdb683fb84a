"""mainspring worker with jobs that do not end: leaked slots, SIGTERM, orphaned processes."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring

STUBBORN = """
import asyncio
import os
import signal
import sys
import threading
import time
from mainspring import Mainspring
from mainspring.executor import threads
from mainspring.worker import slots

if "worker" in sys.argv:  # not where a test's own process loads this app
    slots.INTERRUPT_GRACE_SECONDS = threads.INTERRUPT_GRACE_SECONDS = 0.3
app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2, sweep=0.2, poll_interval=0.2, grace=SECONDS_OF_GRACE)

def say(text: str) -> None:
    os.write(1, f"{text} in {os.getpid()}\\n".encode())

@app.task(timeout=0.2, max_retries=0)
async def swallow() -> None:
    say("swallowing")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@app.task(timeout=0.2, max_retries=0)
def stuck() -> None:
    say("stuck")
    time.sleep(3600)  # in C: no interruption gets there

@app.task
async def held(gate: str) -> str:
    say("held")
    while not os.path.exists(gate):
        await asyncio.sleep(0.01)
    return "done"

@app.task
async def quick() -> None:
    say("quick")

@app.task(executor="process")
def crunch() -> None:
    say("crunching")
    time.sleep(3600)

@app.task(executor="process")
def crunched() -> None:
    say("crunched")
"""


@pytest.fixture
def grace() -> float:
    return 20


@pytest.fixture
def shop(here: Path, grace: float) -> str:
    here.joinpath("shop.py").write_text(STUBBORN.replace("SECONDS_OF_GRACE", str(grace)))
    return "shop:app"


def pid_of(line: str) -> int:
    return int(line.split()[-1])


def gone(pid: int, within: float = 5.0) -> bool:
    """Whether a process has ended, or ends in time."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], within)[0])
    finally:
        os.close(watch)


def books(inside: Callable[..., Any], id: str) -> tuple[str, list[str]]:
    """A job's state, and how its runs ended."""

    async def look(app: Mainspring) -> tuple[str, list[str]]:
        job, runs = await app.jobs.get(id), await app.executions.list(job_id=id)
        return str(job.state), [str(run.ending) for run in runs]

    return inside(look)


# leaked slots


@pytest.mark.parametrize("task", ["swallow", "stuck"])
def test_a_leaked_slot_restarts_a_single_worker_process_after_its_running_jobs(
    process, shop, enqueued, inside, here, task
):
    worker = process("worker", shop)
    first = worker.line(" on sqlite")
    held = enqueued("held", f"gate={here}/gate")
    assert pid_of(worker.line("held in")) == worker.popen.pid
    poison = enqueued(task)
    worker.logged(f"recycles: a slot leaked: {task} {poison} ignores its interruption")
    here.joinpath("gate").touch()
    assert "1 completed, 0 to run again, 1 dead" in worker.line("stopped:")
    second = worker.line(" on sqlite")
    assert first != second
    assert f"-{worker.popen.pid}-" in second
    enqueued("quick")
    assert pid_of(worker.line("quick in")) == worker.popen.pid
    worker.signal(signal.SIGTERM)
    code, out, errors = worker.end()
    assert (code, out.count(" on sqlite")) == (0, 2)
    assert f"pid {worker.popen.pid} restarts: a slot leaked" in errors
    assert books(inside, poison) == ("dead", ["timeout"])
    assert books(inside, held) == ("completed", ["completed"])


@pytest.mark.parametrize("task", ["swallow", "stuck"])
def test_a_supervised_process_with_a_leaked_slot_is_replaced(process, shop, enqueued, inside, task):
    two = process("worker", shop, "--workers", "2")
    two.logged("all 2 processes take jobs")
    poison = enqueued(task)
    leaked = pid_of(two.line(" in "))
    recycled = two.logged("recycled:")  # logged for exit code 75 only
    assert f"(pid {leaked}) recycled: a slot leaked: {task} {poison} ignores its interruption" in recycled
    fresh = int(re.findall(r"started: pid (\d+)", two.logged("started"))[0])
    assert fresh != leaked
    assert gone(leaked)
    two.signal(signal.SIGTERM)
    code, out, errors = two.end()
    assert code == 0
    assert "1 dead, 0 cancelled, in 3 processes" in out.splitlines()[-1]
    assert "the next one starts in" not in errors
    assert books(inside, poison) == ("dead", ["timeout"])


def test_a_job_that_swallows_its_cancellation_does_not_keep_its_worker_from_stopping(process, shop, enqueued):
    worker = process("worker", shop)
    worker.line(" on sqlite")
    enqueued("swallow")
    worker.line("swallowing in")
    worker.signal(signal.SIGTERM)
    code, _, errors = worker.end()
    assert code == 0
    assert "Traceback" not in errors


# SIGTERM


@pytest.mark.parametrize("grace", [0.2])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_ends_the_child_processes_of_a_worker(process, shop, enqueued, inside, workers, grace):
    worker = process("worker", shop, "--workers", workers)
    worker.line(" on sqlite")
    ended, running = enqueued("crunched"), enqueued("crunch")
    pids = [pid_of(worker.line("crunch")) for _ in range(2)]
    assert worker.popen.pid not in pids
    worker.signal(signal.SIGTERM)
    code, out, errors = worker.end()
    assert code == 0
    assert "Traceback" not in errors
    assert "1 completed, 1 to run again" in out.splitlines()[-1]
    assert all(gone(pid, 0) for pid in pids)
    assert books(inside, ended) == ("completed", ["completed"])
    assert books(inside, running) == ("pending", ["released"])


def test_child_process_does_not_outlive_a_killed_worker(process, shop, enqueued):
    worker = process("worker", shop)
    enqueued("crunch")
    pid = pid_of(worker.line("crunching in"))
    worker.popen.kill()
    assert gone(pid)
