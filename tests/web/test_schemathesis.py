"""Schemathesis finds no difference between the OpenAPI document and the API. Settings: schemathesis.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers import Postgres

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 600.0


@contextmanager
def served(url: str, *options: str) -> Iterator[tuple[str, str]]:
    """The address of a server on this store, and a key."""
    server = subprocess.Popen(
        [sys.executable, str(HERE / "fuzzed.py"), url, *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        address, key = server.stdout.readline().split()
        yield address, key
        assert server.poll() is None, "the server has not survived"
    finally:
        server.terminate()
        server.communicate(timeout=30)


def fuzz(url: str, place: Path, half: int, phases: str) -> None:
    with served(url) as (address, key):
        program = Path(sys.executable).with_name("st")
        asked = urllib.request.Request(f"{address}/openapi.json", headers={"Authorization": f"Bearer {key}"})
        (place / "openapi.json").write_bytes(urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS).read())
        done = subprocess.run(
            [program, "--config-file", HERE / "schemathesis.toml", "run", "openapi.json", "--url", address,
             "--no-color", "--checks", "all", "-H", f"Authorization: Bearer {key}", "--phases", phases],
            cwd=place, env=os.environ | {"COLUMNS": "120", "PYTHONPATH": str(HERE), "FUZZED_HALF": str(half)},
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


Runs = dict[str, Future[None]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Runs]:
    """One fuzzer for each store, in parallel: boundary values to both, and what is drawn at random to one of them."""
    one, other = (tmp_path_factory.mktemp(name) for name in ("sqlite", "postgresql"))
    with ThreadPoolExecutor(2) as side_by_side:
        yield {
            "sqlite": side_by_side.submit(fuzz, f"sqlite:///{one / 'fuzzed.db'}", one, 0, "coverage"),
            "postgresql": side_by_side.submit(fuzz, postgres.fresh(), other, 1, "coverage,fuzzing,stateful"),
        }


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_fuzzed_requests_get_documented_responses(runs: Runs, store: str) -> None:
    runs[store].result()
