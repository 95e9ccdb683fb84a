"""docs/api.md: its example calls against a server, and its table of codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from test_schemathesis import served

from mainspring.api.problem_codes import CODES
from pages import ROOT, blocks, commands, fits

PAGE = ROOT / "docs" / "api.md"


def test_example_calls_of_the_api_docs_get_the_documented_responses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    ids: dict[str, str] = {}
    with served(url, "worker") as (address, key):
        environ = os.environ | {"API": f"{address}/api/v1", "KEY": key, "MAINSPRING_STORE": url}
        for block in blocks(PAGE):
            for words, says in commands(block) if block.language == "console" else ():
                if not words.startswith("curl"):
                    continue
                for page, real in ids.items():
                    words = words.replace(page, real)
                done = subprocess.run(["bash", "-c", words], env=environ, capture_output=True, text=True, timeout=60)
                assert fits(says, f"{done.stdout}\n", ids), f"{block.place} $ {words}\n{done.stdout}{done.stderr}"


def test_the_api_docs_list_every_error_code_and_no_other() -> None:
    told = re.findall(r"^\| `(\w+)` \| .+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert told == sorted(CODES)


def test_the_openapi_document_is_printed_without_a_server() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.cli", "server", "--store", "memory://", "--openapi"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert '"operationId":"listJobs"' in done.stdout
