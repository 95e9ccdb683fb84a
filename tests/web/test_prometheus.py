"""A real Prometheus scrapes a real server and a real worker, and loads the shipped rules."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import Context, Mainspring, every
from servers import Prometheus, free_port, prometheus_program

ROOT = Path(__file__).parent.parent.parent
SHOP = """
from mainspring import Context, Mainspring, every

app = Mainspring("sqlite:///jobs.db", poll_interval=0.2)

@app.task(max_retries=0)
async def send(ctx: Context, well: bool) -> None:
    ctx.items(success=3, failed=1)
    if not well:
        raise ValueError("no such address")

app.schedule("often", every(1).seconds, send, kwargs={"well": True})
"""
# As in docs/metrics.md, but with a shorter scrape interval.
CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: mainspring
    honor_labels: true
    authorization: {{credentials_file: {key}}}
    static_configs: [{{targets: ["127.0.0.1:{server}"]}}]
  - job_name: mainspring-workers
    honor_labels: true
    static_configs: [{{targets: ["127.0.0.1:{worker}"]}}]
"""


async def prepared(url: str) -> str:
    """Enqueues some jobs; returns a key for Prometheus."""
    async with Mainspring(url) as app:
        for well in (True, True, False):
            await app.enqueue("send", well=well)
        return str(await app.keys.create("prometheus", "viewer", ["metrics:read"]))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    ports = {"server": free_port(), "worker": free_port()}
    command = [sys.executable, "-m", "mainspring.cli"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}

    (folder / "key").write_text(asyncio.run(prepared(f"sqlite:///{folder}/jobs.db")))
    services = [
        ("server", "shop:app", "--port", str(ports["server"])),
        ("worker", "shop:app", "--metrics", str(ports["worker"])),
    ]
    with (folder / "log").open("wb") as log:
        processes = [
            subprocess.Popen([*command, *args], cwd=folder, env=environ, stdout=log, stderr=log) for args in services
        ]
        config = CONFIG.format(rules=ROOT / "ops" / "alerts.yml", key=folder / "key", **ports)
        one = Prometheus(config, folder)
        try:
            yield one
        finally:
            one.close()
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


def value(prometheus: Prometheus, query: str, at_least: float) -> float:
    """The value of a query, as soon as it is at least `at_least`."""

    def asked() -> float | None:
        found = prometheus.ask("query", query=query)["result"]
        number = float(found[0]["value"][1]) if found else -1.0
        return number if number >= at_least else None

    return prometheus.until(asked)


def test_worker_and_server_are_scraped(prometheus: Prometheus) -> None:
    def up() -> bool:
        found = prometheus.ask("targets")["activeTargets"]
        return [target["health"] for target in found] == ["up", "up"]

    assert prometheus.until(up)


def test_prometheus_has_the_metrics_of_finished_jobs(prometheus: Prometheus) -> None:
    assert value(prometheus, 'job_execution_total{job="send",status="failed"}', 1) == 1
    assert value(prometheus, 'mainspring_job_deaths_total{job="send"}', 1) == 1
    assert value(prometheus, 'job_items_processed_total{job="send",result="success"}', 9) % 3 == 0
    assert value(prometheus, "mainspring_workers", 1) == 1
    assert value(prometheus, 'mainspring_schedule_ticks_total{schedule="often",what="fired"}', 2) >= 2
    assert value(prometheus, "histogram_quantile(0.5, job_execution_duration_seconds_bucket)", 0.0) < 1
    assert value(prometheus, 'time() - job_last_success_timestamp_seconds{job="send"}', -1) < 60


def test_the_worker_and_the_server_expose_their_own_metrics(prometheus: Prometheus) -> None:
    assert value(prometheus, 'mainspring_store_seconds_count{job="mainspring-workers",verb="finish"}', 1) >= 1
    assert value(prometheus, 'mainspring_store_seconds_count{job="mainspring",verb="tallies"}', 1) >= 1
    assert value(prometheus, 'mainspring_job_lag_seconds_count{queue="default"}', 3) >= 3


def test_prometheus_loads_and_evaluates_the_alert_rules(prometheus: Prometheus) -> None:
    def evaluated() -> list[str] | None:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        done = rules and all(rule["health"] != "unknown" for rule in rules)
        return [rule["health"] for rule in rules] if done else None

    health = prometheus.until(evaluated)
    assert len(health) >= 15
    assert set(health) == {"ok"}


def test_promtool_accepts_the_exposed_metrics() -> None:
    from mainspring.counters import Counters
    from mainspring.metrics import exposition
    from mainspring.metrics.cluster import ClusterMetrics
    from mainspring.metrics.process import families
    from mainspring.metrics.timed_store import measure

    app = Mainspring("memory://")
    meter: Counters = measure(app)

    @app.task
    async def work(ctx: Context) -> None:
        ctx.items(success=1)

    app.schedule("often", every(1).hours, work)

    async def page() -> bytes:
        async with app:
            await work.enqueue()
            await app.drain()
            return exposition([*await ClusterMetrics(app).families(), *families(meter.whole())])[0]

    body = asyncio.run(page())
    done = subprocess.run(
        [prometheus_program("promtool"), "check", "metrics"], input=body, capture_output=True, timeout=60
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0
