"""The clip service of the examples: its own tests pass, and one command starts it, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT
from servers import Postgres, prometheus_program
from test_examples import environ

EXAMPLES = ROOT / "examples"
SERVICE = EXAMPLES / "clip_service"
LIMIT_SECONDS = 120
TASKS = {
    "sync_clips", "embed_clips", "hot_scores", "trending", "outbound_webhooks", "retry_webhooks", "refresh_cdn",
    "mirror_clips", "export_clips", "dunning", "email_metrics", "sender_reputation", "live_status",
}  # fmt: skip


def test_clip_service_passes_its_own_tests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "clip_service"],
        cwd=EXAMPLES, env=environ(), capture_output=True, text=True, timeout=LIMIT_SECONDS,
    )  # fmt: skip
    assert re.search(r"^[1-9]\d* passed", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == 0, done.stdout


def test_each_alert_of_the_clip_service_fires_when_it_should() -> None:
    done = subprocess.run(
        [prometheus_program("promtool"), "test", "rules", str(SERVICE / "alerts.test.yml")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rules = re.findall(r"alert: (\w+)", (SERVICE / "alerts.yml").read_text())
    tried = (SERVICE / "alerts.test.yml").read_text()
    assert [rule for rule in rules if f'alertname="{rule}"' not in tried] == []


def test_readme_of_the_clip_service_names_every_task_and_has_no_broken_link() -> None:
    page = (SERVICE / "README.md").read_text()
    assert {name for name in TASKS if f"| `{name}` |" not in page} == set()
    assert [link for link in re.findall(r"\]\(([^)\s#]+)\)", page) if not (SERVICE / link).exists()] == []


class Running:
    """The service, as its one command starts it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.console = folder / "console.txt"
        with self.console.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clip_service", "--port", "0", "--clips", "200", "--trouble", "0", "--url", url],
                cwd=folder, env=environ(PYTHONPATH=str(EXAMPLES)), stdout=out, stderr=out,
            )  # fmt: skip
        try:
            self._until_ready()
        except BaseException:
            self.kill()
            raise

    def _until_ready(self) -> None:
        end = time.monotonic() + LIMIT_SECONDS
        while not (found := re.search(r"Dashboard: (http:\S+)/#token=(\S+)", self.said)):
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.05)
        self.ops, self.key = found[1], found[2]
        self.origin = self.ops.removesuffix("/ops")

    @property
    def said(self) -> str:
        return self.console.read_text()

    def ask(self, path: str, *, post: bool = False) -> Any:
        request = urllib.request.Request(f"{self.ops}/api/v1/{path}", headers={"Authorization": f"Bearer {self.key}"})
        if post:
            request.method, request.data = "POST", b"{}"
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def page(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.origin}/{path}", timeout=30) as answer:
            content: bytes = answer.read()
            return content

    def until_all_have_run(self) -> dict[str, str]:
        """The last outcome of each schedule, once each has one and nothing is under way."""
        end = time.monotonic() + LIMIT_SECONDS
        while True:
            rows = {row["name"]: row for row in self.ask("schedules?limit=100")["items"]}
            if all(row["last_outcome"] and not row["active"] for row in rows.values()):
                return {name: row["last_outcome"] for name, row in rows.items()}
            assert time.monotonic() < end, rows
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9, by its own pid."""
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT_SECONDS)


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    postgres.run("CREATE DATABASE clips")
    yield postgres.dsn.replace("/postgres?", "/clips?")
    postgres.run("DROP DATABASE clips WITH (FORCE)")


def test_one_command_starts_the_clip_service_and_starts_it_again_after_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/clips.db"
    first = Running(url, tmp_path)
    try:
        assert "Filled " in first.said
        assert {row["name"] for row in first.ask("schedules?limit=100")["items"]} == TASKS
    finally:
        first.kill()

    second = Running(url, tmp_path)
    try:
        assert "Filled " not in second.said
        assert {row["name"] for row in second.ask("schedules?limit=100")["items"]} == TASKS
        assert second.stop() == 0
        assert "Traceback" not in second.said
    finally:
        second.kill()


def test_every_job_of_the_clip_service_completes_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    service = Running(postgres_url, tmp_path)
    try:
        for name in TASKS:
            service.ask(f"schedules/{name}/trigger", post=True)
        assert service.until_all_have_run() == dict.fromkeys(TASKS, "completed")
        assert os.listdir(tmp_path / "exports")
        figures = service.page("metrics").decode()
        assert sum(map(float, re.findall(r"^indexing_jobs_total.* (\S+)$", figures, re.MULTILINE))) >= 1
        # 1, or 2 if the test runs across one of its ticks.
        dunned = r'^job_execution_total\{job="dunning",status="completed"\} (\S+)$'
        assert sum(map(float, re.findall(dunned, figures, re.MULTILINE))) in (1, 2)
        assert json.loads(service.page("trending"))[0]["rank"] == 1
    finally:
        service.kill()
