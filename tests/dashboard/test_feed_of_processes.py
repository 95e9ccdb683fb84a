"""The live feed between processes: open pages show the events of `mainspring dev`, `server` and `worker --metrics`.

The pages cannot poll here, so every change on them was published by the process that made it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from scenery import follow, shown
from visit import Visits

from servers import Postgres, Redis

START_SECONDS = 60
# A file ends an attempt: NAME.1 fails the first one of the job NAME.
APP = """
import asyncio
from pathlib import Path
from mainspring import Backoff, Context, Mainspring

app = Mainspring(beat=0.2, sweep=0.2, grace=1)

@app.task(queue="guided", max_retries=1, backoff=Backoff.constant(3600))
async def guided(ctx: Context, name: str) -> None:
    file = Path(f"{name}.{ctx.attempt}")
    while not file.exists():
        await asyncio.sleep(0.02)
    raise RuntimeError("the disk is full")
"""
NO_POLLING = "window.setInterval = () => 0"


@contextmanager
def process(folder: Path, store: str, word: str, *args: str) -> Iterator[str]:
    """Starts a command and waits for a line with this word; returns the address in that line, if any."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "MAINSPRING_STORE": store, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "mainspring.cli", *args]
    with (folder / "stderr").open("ab") as stderr:
        running = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert running.stdout is not None
    late = threading.Timer(START_SECONDS, running.kill)
    late.start()
    try:
        line = next((line for line in running.stdout if word in line), None)
        assert line is not None, (folder / "stderr").read_text()
        late.cancel()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        yield found[0] if found else ""
    finally:
        late.cancel()
        running.terminate()
        try:
            running.wait(START_SECONDS)
        finally:
            running.kill()
            running.stdout.close()


def start_dev(stack: ExitStack, folder: Path, store: str) -> str:
    return stack.enter_context(process(folder, store, "running on", "dev", "shop:app", "--port", "0", "--no-auth"))


def start_server_and_worker(stack: ExitStack, folder: Path, store: str) -> str:
    serving = process(folder, store, "serving", "server", "shop:app", "--port", "0", "--no-auth")
    address = stack.enter_context(serving)
    stack.enter_context(process(folder, store, "metrics at", "worker", "shop:app", "--metrics", "0"))
    return address


STARTS = {"dev": start_dev, "server and worker": start_server_and_worker}


# In `dev` one process publishes and serves, so the store makes no difference to it.
@pytest.fixture(
    params=["dev-sqlite", "server and worker-sqlite", "server and worker-postgres", "server and worker-redis"]
)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    commands, name = request.param.split("-")
    server: Postgres | Redis | None = None if name == "sqlite" else request.getfixturevalue(name)
    (tmp_path / "shop.py").write_text(APP)
    with ExitStack() as stack:
        store = f"sqlite:///{tmp_path}/jobs.db" if server is None else server.fresh("pages")
        yield STARTS[commands](stack, tmp_path, store)


def open_page(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    shown(page)
    listens(page)
    page.evaluate("window.stayed = true")
    return page


def listens(page: Page) -> None:
    """Waits for the stream of a page that shows its data."""
    expect(page.get_by_role("button", name="Live")).to_be_visible()


def enqueue(address: str, name: str) -> str:
    body = {"task": "guided", "arguments": {"name": name}}
    answer = httpx.post(f"{address}/api/v1/jobs", json=body, timeout=30)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def row_of(page: Page, id: str) -> Locator:
    return page.get_by_role("row").filter(has=page.locator(f"a[href$='{id}']"))


def test_open_pages_follow_jobs_and_actions_over_the_live_feed(visit: Visits, address: str, tmp_path: Path) -> None:
    context = visit.browser()
    context.add_init_script(NO_POLLING)
    jobs, other = open_page(context, f"{address}/jobs"), open_page(context, f"{address}/queues")
    id = enqueue(address, "first")
    row = row_of(jobs, id)
    expect(row).to_contain_text("running")
    pause = other.get_by_role("button", name="Pause queue guided")
    expect(pause).to_be_visible()
    follow(other, f"{address}/jobs/{id}")
    listens(other)
    state, why = other.get_by_role("main").get_by_role("status").first, other.get_by_role("region", name="Why")

    (tmp_path / "first.1").touch()
    expect(row).to_contain_text("retrying")
    why.get_by_role("button", name="Run now").click()
    expect(row).to_contain_text("running")
    expect(state).to_have_text("running")
    (tmp_path / "first.2").touch()
    expect(row).to_contain_text("dead")
    expect(state).to_have_text("dead")
    expect(why).to_contain_text("the disk is full")

    follow(other, f"{address}/queues")
    listens(other)
    pause.click()
    other.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(other.get_by_role("row").filter(has_text="guided")).to_contain_text("paused")
    waiting = enqueue(address, "second")
    expect(row_of(jobs, waiting)).to_contain_text("pending")
    follow(other, f"{address}/jobs/{waiting}")
    listens(other)
    other.get_by_role("button", name="Cancel", exact=True).click()
    other.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(state).to_have_text("cancelled")
    expect(row_of(jobs, waiting)).to_contain_text("cancelled")
    assert jobs.evaluate("window.stayed") is True
    assert other.evaluate("window.stayed") is True
