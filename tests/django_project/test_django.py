"""Mainspring in a Django project: the example project with real commands, a real worker and Django's test runner."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from servers import Postgres
from source_tree import ROOT

PROJECT = ROOT / "examples" / "django_project"
HERE = Path(__file__).parent


def environ(folder: Path, settings: str = "project.settings", **more: str) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    places = os.pathsep.join([str(PROJECT), str(HERE), *([before] if before else [])])
    given = {"SHOP_FOLDER": str(folder), "DJANGO_SETTINGS_MODULE": settings, "PYTHONPATH": places, **more}
    return {**os.environ, **given}


def manage(folder: Path, *words: str, settings: str = "project.settings", **more: str) -> str:
    """The output of manage.py with these words."""
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "manage.py", *words],
        cwd=PROJECT,
        env=environ(folder, settings, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def place(server: Postgres) -> str:
    """Host, port, user and database, as the settings of the project read them."""
    parts = urlsplit(server.dsn)
    return f"{parts.hostname} {parts.port} {parts.username} {parts.path[1:]}"


ORDER = """
from django.test import Client
for customer in ("ada", "nobody"):
    print(customer, Client().get(f"/orders/{customer}").json()["receipt"])
"""
RECEIPT = """
from mainspring.django import app
from shop.models import Order
from shop.tasks import send_receipt
print(app.sync.jobs.wait({id!r}, 30).state, send_receipt.get_result({id!r}).return_value, *Order.objects.values_list())
print(sum(job.task == "shop.tasks.send_receipt" for job in app.sync.jobs.list()))
"""


def suite(folder: Path, **more: str) -> str:
    labels = ["suite.tests"]
    if find_spec("litestar") is not None:  # scripts/test-pythons installs no server
        labels.append("suite.dashboard_tests")
    return manage(folder, "test", "--noinput", *labels, settings="suite.settings", **more)


def test_backend_passes_its_suite_on_sqlite(tmp_path: Path) -> None:
    assert "\nOK" in suite(tmp_path)


def test_backend_passes_its_suite_on_postgresql(tmp_path: Path, postgres: Postgres) -> None:
    assert "\nOK" in suite(tmp_path, POSTGRES=place(postgres))


def test_worker_of_manage_py_runs_what_a_view_has_committed(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "--verbosity", "0")
    words = [sys.executable, "manage.py", "mainspring", "worker", "--settings", "project.settings"]
    with subprocess.Popen(words, cwd=PROJECT, env=environ(tmp_path), stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert "4 tasks, 20 slots" in worker.stdout.readline()
            made = dict(line.split() for line in manage(tmp_path, "shell", "-v0", "-c", ORDER).splitlines())
            assert manage(tmp_path, "shell", "-v0", "-c", RECEIPT.format(id=made["ada"])).splitlines() == [
                "completed receipt for ada (1, 'ada', 'receipt for ada')",
                "1",  # there is no job for nobody, whose order was rolled back
            ]
        finally:
            worker.terminate()
        assert "1 completed" in worker.communicate(timeout=30)[0]
    assert worker.returncode == 0
