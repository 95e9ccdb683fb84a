"""A partial run on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

COUNTING = """
@app.task(max_retries=0)
async def counting(ctx: Context, failed: int) -> None:
    ctx.items(success=10 - failed, failed=failed)
"""


@pytest.fixture
def partial(here: Path, shop: str, enqueued, work) -> str:
    file = here.joinpath("shop.py")
    file.write_text(file.read_text() + COUNTING)
    enqueued("counting", "failed=0")
    id = enqueued("counting", "failed=1")
    work()
    return id


def test_partial_jobs_are_listed_and_shown_as_partial(cli, shop, partial):
    (job,) = json.loads(cli("jobs", "list", "--app", shop, "--outcome", "partial", "--json").stdout)
    assert (job["id"], job["state"], job["outcome"]) == (partial, "completed", "partial")
    assert "◑ partial" in cli("jobs", "list", "--app", shop).stdout
    page = cli("jobs", "show", "--app", shop, partial).stdout
    assert page.startswith("◑ partial  counting")
    assert "Partial: 1 of 10 items failed" in page
    shown = json.loads(cli("jobs", "show", "--app", shop, partial, "--json").stdout)
    assert [run["outcome"] for run in shown["executions"]] == ["partial"]


def test_stats_have_a_column_for_partial_runs_if_there_are_some(cli, shop, partial):
    lines = cli("stats", "--app", shop).stdout.splitlines()
    (titles,) = [line.split() for line in lines if line.startswith("TASK")]
    (row,) = [line.split() for line in lines if line.startswith("counting")]
    assert titles[:5] == ["TASK", "RUNS", "OK", "FAILED", "PARTIAL"]
    assert row[:6] == ["counting", "2", "100", "%", "0", "1"]
