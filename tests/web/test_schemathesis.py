"""Schemathesis finds no difference between the document and the service. Its settings: schemathesis.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import Postgres

HERE = Path(__file__).parent
PATIENCE = 240.0


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


def fuzz(url: str, place: Path, *options: str) -> None:
    with served(url) as (address, key):
        program = Path(sys.executable).with_name("st")
        done = subprocess.run(
            [program, "--config-file", HERE / "schemathesis.toml", "run", f"{address}/openapi.json", "--no-color",
             "--checks", "all", "-H", f"Authorization: Bearer {key}", *options],
            cwd=place, env=os.environ | {"COLUMNS": "120"}, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_every_border_of_every_parameter_is_as_the_document_says(tmp_path: Path) -> None:
    fuzz(f"sqlite:///{tmp_path / 'fuzzed.db'}", tmp_path, "--phases", "coverage")


def test_what_a_fuzzer_thinks_of_is_answered_as_the_document_says(tmp_path: Path, postgres: Postgres) -> None:
    fuzz(postgres.fresh(), tmp_path, "--phases", "fuzzing,stateful")
