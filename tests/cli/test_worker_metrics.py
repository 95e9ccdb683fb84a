"""mainspring worker --metrics: one endpoint for one process or several."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_SECONDS = 30.0
TEAM = """
from mainspring import Context, Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=1, sweep=0.2, poll_interval=0.2, grace=5)

@app.task
async def mark(ctx: Context) -> None:
    ctx.items(success=2)
"""


@pytest.fixture
def shop(here: Path) -> str:
    here.joinpath("shop.py").write_text(TEAM)
    return "shop:app"


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def figure(url: str, name: str) -> float:
    """The sum of all samples of that name."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(page(url))
        for sample in family.samples
        if sample.name == name
    )


def until(holds: Callable[[], bool]) -> None:
    """Repeats a check until it holds, since processes report their counters only periodically."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def worker(process: Callable[..., Any], shop: str) -> Iterator[Callable[..., tuple[Any, str]]]:
    """Starts a worker that serves metrics; returns it and its URL. Its processes end with the test."""
    started = []

    def start(*args: str, **env: str) -> tuple[Any, str]:
        one = process("worker", shop, *args, **env)
        started.append(one)
        return one, one.line("metrics at").split()[-1]

    yield start
    for one in started:
        if one.popen.poll() is None:
            one.signal(signal.SIGTERM)
            one.end()


def test_one_process_serves_metrics_and_health(worker, inside):
    one, url = worker("--metrics", "0")
    one.line("worker ")
    inside(lambda app: app.enqueue_many(app.tasks["mark"].job() for _ in range(10)))
    until(lambda: figure(url, "mainspring_finish_batch_size_sum") == 10)
    assert figure(f"{url}/cluster", "job_execution_total") == 10
    assert figure(f"{url}/cluster", "job_items_processed_total") == 20
    assert figure(f"{url}/cluster", "mainspring_workers") == 1
    health = url.removesuffix("/metrics") + "/health"
    for question in ("live", "ready"):
        assert json.loads(page(f"{health}/{question}")) == {"status": "ok", "reasons": [], "notes": []}


def test_supervisor_sums_the_metrics_of_all_processes_and_keeps_those_of_killed_ones(worker, inside):
    team, url = worker("--workers", "2", "--metrics", "0")
    team.logged("all 2 processes take jobs")
    inside(lambda app: app.enqueue_many(app.tasks["mark"].job() for _ in range(200)))
    until(lambda: figure(url, "mainspring_finish_batch_size_sum") == 200)
    assert figure(url, "mainspring_process_starts_total") == 2
    before = {
        name: figure(url, name) for name in ("mainspring_store_seconds_count", "mainspring_job_lag_seconds_count")
    }
    os.kill(int(re.findall(r"pid (\d+)", "\n".join(team._errors))[0]), signal.SIGKILL)
    until(lambda: figure(url, "mainspring_process_starts_total") == 3)
    assert {name: figure(url, name) >= value for name, value in before.items()} == dict.fromkeys(before, True)
    until(lambda: "ok" in ready(url))
    inside(lambda app: app.enqueue_many(app.tasks["mark"].job() for _ in range(50)))
    until(lambda: figure(url, "mainspring_finish_batch_size_sum") == 250)


def ready(url: str) -> str:
    try:
        return page(url.removesuffix("/metrics") + "/health/ready")
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_metrics_port_setting(worker):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, url = worker(MAINSPRING_METRICS_PORT=str(port), MAINSPRING_METRICS_HOST="127.0.0.1")
    assert url == f"http://127.0.0.1:{port}/metrics"
    assert figure(url, "mainspring_jobs_lost_total") == 0


def test_metrics_port_in_use_is_an_error(process, shop):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for more in ((), ("--workers", "2")):
            code, _, errors = process("worker", shop, "--metrics", port, *more).end()
            assert code == 1
            assert f"metrics cannot be served at 127.0.0.1:{port}" in errors
            assert "Traceback" not in errors


def test_worker_without_metrics_does_not_import_prometheus(process, shop, inside, here):
    here.joinpath("shop.py").write_text(
        TEAM + "\nimport sys\n@app.task\nasync def tell() -> str:\n"
        "    return str(sorted(name for name in sys.modules if 'prometheus' in name or 'mainspring.metrics' in name))\n"
    )
    one = process("worker", shop)
    one.line("worker ")
    found = inside(lambda app: _told(app))
    assert found == "[]"
    one.signal(signal.SIGTERM)
    assert "metrics at" not in one.end()[1]


async def _told(app: Any) -> str:
    return await (await app.tasks["tell"].enqueue()).result(timeout=TIMEOUT_SECONDS)
