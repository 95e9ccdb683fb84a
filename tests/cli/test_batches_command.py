"""mainspring batches."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

BATCHES = """
import asyncio
from mainspring import BatchSummary, Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task(max_retries=0)
async def letter(to: str) -> None:
    if to == "bad":
        raise ValueError("no such address")

@app.task
async def report(batch: BatchSummary) -> None: ...

async def make() -> None:
    async with app:
        async with app.batch("news", on_success=report, metadata={"issue": 7}) as news:
            await news.enqueue_many(letter.job(to) for to in ("ada", "bob"))
        half = app.batch("half", on_failure=report)
        await half.begin()
        await half.enqueue(letter.job("bad"))

asyncio.run(make()) if __name__ == "__main__" else None
"""


@pytest.fixture
def shop(here):
    here.joinpath("letters.py").write_text(BATCHES)
    subprocess.run([sys.executable, "letters.py"], check=True, timeout=60)
    return "letters:app"


def test_batches_list_shows_how_far_they_are(cli, shop, work, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    work()
    head, half, news = cli("batches", "list", "--app", shop).stdout.splitlines()
    assert head.split() == ["ID", "STATE", "BATCH", "ENDED", "OF", "DEAD", "MADE"]
    assert half.split()[1:7] == ["waiting,", "open", "half", "1", "1", "1"]
    assert news.split()[1:5] == ["completed", "news", "2", "2"]
    (found,) = json.loads(cli("batches", "list", "--json", "--open", "--app", shop).stdout)
    assert (found["name"], found["counts"]["dead"], found["callbacks"]) == ("half", 1, {"on_failure": "completed"})
    assert "there may be more: --after" in cli("batches", "list", "--limit", "1", "--app", shop).stderr
    assert "no batch in sqlite:///jobs.db fits" in cli("batches", "list", "--state", "cancelled", "--app", shop).stderr


def test_batches_show_has_counts_callbacks_and_why(cli, shop, work, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    work()
    half, news = json.loads(cli("batches", "list", "--json", "--app", shop).stdout)
    shown = cli("batches", "show", half["id"], "--app", shop).stdout
    assert "half" in shown
    assert "1 job (1 dead)" in shown
    assert "open: its maker adds more" in shown
    shown = cli("batches", "show", news["id"], "--app", shop).stdout
    assert '{"issue":7}' in shown
    assert "on_success" in shown
    found = json.loads(cli("batches", "show", half["id"], "--json", "--app", shop).stdout)
    assert found["why"][0]["code"] == "waits_for_steps"
    refused = cli("batches", "show", "none", "--app", shop)
    assert "there is no job" in refused.stderr
