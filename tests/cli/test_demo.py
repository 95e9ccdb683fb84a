"""mainspring demo: plain lines, the live view, the summary; and the busy shop in mainspring dev."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from mainspring import Mainspring
from mainspring.cli.top.frame import Frame
from mainspring.cli.top.snapshot import take_snapshot
from mainspring.cli.top.view import TopView
from mainspring.demo import orders
from mainspring.demo.app import shop as demo_shop
from mainspring.demo.feeder import feed
from mainspring.demo.tally import DemoTally
from mainspring.testing import VirtualClock


def test_plain_demo_prints_lines_and_a_summary(process, here):
    code, out, errors = process("demo", "--plain", "--seconds", "2", TMPDIR=str(here)).end()
    assert (code, errors) == (0, "")
    assert "\x1b" not in out
    first, *lines = out.splitlines()
    (directory,) = re.findall(rf"on sqlite:///({here}/mainspring-demo-\w+)/demo.db", first)
    assert not Path(directory).exists()
    assert re.match(r" +\ds +[\d.]+ jobs/s \| done \d+ retried \d+ dead \d+ \| pending \d+", lines[0])
    assert any(line.startswith("draining: ") for line in lines)
    assert "jobs completed in" in out
    assert re.search(r"^close_till +every 10 seconds +\d+ +0 +0 ", out, re.MULTILINE)
    assert "mainspring demo --store sqlite:///demo.db" in out
    assert all(len(line) <= 80 for line in lines)


def test_demo_in_a_pipe_is_plain_and_sigint_ends_it(process):
    demo = process("demo")
    demo.line("jobs/s")
    demo.signal(signal.SIGINT)
    code, out, errors = demo.end()
    assert (code, errors) == (0, "")
    assert "draining: " in out
    assert "jobs completed in" in out


def test_second_signal_releases_running_jobs(process, cli):
    demo = process("demo", "--store", "sqlite:///kept.db")
    demo.line("jobs/s")
    demo.signal(signal.SIGINT)
    demo.line("draining")
    demo.signal(signal.SIGINT)
    code, out, errors = demo.end()
    assert (code, errors) == (0, "")
    assert "jobs completed in" in out
    args = ("jobs", "list", "--store", "sqlite:///kept.db", "--task", "transcode", "--state", "pending", "--json")
    assert any(job["runs"] == 1 for job in json.loads(cli(*args).stdout))


def test_demo_summary_agrees_with_the_store(process, cli):
    code, out, _ = process("demo", "--seconds", "2", "--store", "sqlite:///kept.db").end()
    assert code == 0
    (completed,) = re.findall(r"^(\d+) jobs completed", out, re.MULTILINE)
    args = ("jobs", "list", "--store", "sqlite:///kept.db", "--state", "completed", "--limit", "1000", "--json")
    jobs = json.loads(cli(*args).stdout)
    assert len(jobs) == int(completed) > 0
    assert {"mail", "media"} <= {job["queue"] for job in jobs}
    assert "mainspring jobs list --store sqlite:///kept.db --state dead" in out


def test_demo_on_an_unknown_store_is_an_error(cli):
    refused = cli("demo", "--store", "nosuch://x", "--seconds", "1")
    assert refused.exit_code == 1
    assert "unknown store 'nosuch'" in refused.stderr


def test_demo_seconds_must_be_positive(cli):
    assert cli("demo", "--seconds", "0").exit_code == 2


@pytest.mark.parametrize("ends", [("--seconds", "1.5"), ()])
def test_demo_shows_top_in_a_terminal(ends):
    """The demo ends after --seconds, or when q is pressed."""
    parent, child = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    args = [sys.executable, "-m", "mainspring.cli", "demo", *ends]
    demo = subprocess.Popen(args, stdin=child, stdout=child, stderr=child, env=env)
    os.close(child)
    shown, pressed = b"", bool(ends)
    try:
        while chunk := os.read(parent, 65536):
            shown += chunk
            if not pressed and b"[1 running " in shown:
                pressed = os.write(parent, b"q") == 1
    except OSError:  # Linux raises EIO when the other end is closed
        pass
    finally:
        os.close(parent)
        assert demo.wait(30) == 0
    text = shown.decode()
    enter, leave = text.index("\x1b[?1049h"), text.index("\x1b[?1049l")
    assert enter < text.index("[1 running ") < leave < text.index("jobs completed in")
    assert "draining: " in text
    assert "Traceback" not in text
    assert "mainspring: " not in text


async def view_of_a_busy_shop() -> TopView:
    app, view = demo_shop("memory://"), TopView(title="mainspring demo")
    async with app:
        tasks = app.tasks
        await app.enqueue_many([tasks["remind_of_cart"].job(n) for n in range(40)])
        await tasks["sync_crm"].using(max_retries=0).enqueue(7)
        await app.drain()
        async with app.worker(concurrency=3) as worker:
            jobs = [tasks["transcode"].job(f"clip-{n}") for n in range(5)]
            await app.enqueue_many(jobs)
            while view.snapshot is None or len(view.snapshot.running) < 3:
                view.update(await take_snapshot(app))
                await app.clock.sleep(0)
            await worker.stop(grace=0)
        return view


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 20)])
def test_top_shows_the_demo_at_every_terminal_size(monkeypatch, width, height):
    monkeypatch.setenv("MAINSPRING_FIRE", "never")  # a tick would add a job
    view = asyncio.run(view_of_a_busy_shop())

    def lines() -> list[str]:
        console = Console(width=width, height=height, force_terminal=True, color_system=None)
        with console.capture() as capture:
            console.print(Frame(view), height=height)
        return capture.get().splitlines()

    shown = lines()
    assert len(shown) == height
    assert all(len(line) <= width for line in shown)
    text = "\n".join(shown)
    assert text.startswith("mainspring demo")
    assert "[1 running 3]" in text
    assert "► transcode" in text
    assert "40 completed" in text
    assert re.search(r"media +2 +0 +0 +3", text)
    view.press("2")
    assert "PermissionError: 403, key expired" in "\n".join(lines())
    view.press("4")
    assert "count_stock" in "\n".join(lines())


def test_demo_feeder_enqueues_every_task():
    async def kinds() -> set[str]:
        app = demo_shop("memory://")
        tally = DemoTally(app)
        async with app:
            feeding = asyncio.create_task(feed(app))
            wanted = app.tasks.keys() - {"send_receipt"} - app._registry.schedules.keys()
            while not wanted <= tally.tasks.keys():
                await app.clock.sleep(0.01)
            feeding.cancel()
            return set(tally.tasks)

    assert len(asyncio.run(kinds())) == 7


@pytest.mark.parametrize(
    ("cents", "bad", "end", "steps"),
    [
        (700, 0, "completed", {"copy_clip": "completed", "deliver_disc": "completed", "refund_order": "skipped"}),
        (100, 0, "completed", {"copy_clip": "skipped", "deliver_disc": "skipped", "answer_customer": "completed"}),
        (700, 1, "dead", {"burn_disc": "dead", "deliver_disc": "not_run", "refund_order": "completed"}),
    ],
)
def test_demo_orders_are_flows_that_end_in_three_ways(monkeypatch, cents, bad, end, steps):
    for name, ratio in (("BAD_DISC_RATIO", bad), ("RETRY_RATIO", 0)):
        monkeypatch.setattr(orders, name, ratio)
    monkeypatch.setattr(orders.random, "choice", min)  # the risk of the order
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC), autojump=True)

    async def play() -> tuple[str, dict[str, str]]:
        app = Mainspring("memory://", clock=clock, log_level="critical")
        orders.sell_discs(app)
        async with app, app.worker():
            run = await app.tasks["fulfil_order"].enqueue(orders.DiscOrder(7, ("spring", "charge"), cents, gift=True))
            job = await app.jobs.wait(run.id, 60)
            return job.state, {step.name: step.state for step in await app.flows.steps(run.id)}

    state, found = asyncio.run(play())
    assert (state, found | steps) == (end, found)


def test_demo_app_runs_in_dev_and_removes_its_store(process, until, here):
    shop = process("dev", "mainspring.demo.life:app", "--no-reload", "--port", "0", "--log-level", "critical",
                   TMPDIR=str(here), MAINSPRING_STORE="")  # fmt: skip
    address, token = re.search(r"(http://\S+)/#token=(\S+)", shop.line("it signs you in")).groups()
    shop.line("running on sqlite:///")
    with httpx.Client(base_url=f"{address}/api/v1") as http:
        assert http.post("/session", json={"key": token}).status_code == 200

        def seen() -> bool:
            counts = http.get("/jobs/counts").json()
            steps = http.get("/jobs/counts", params={"task": "check_order"}).json()
            return counts["completed"] > 20 and counts["retrying"] + counts["dead"] > 0 and steps["completed"] > 0

        until(seen)
        paused = [queue for queue in http.get("/queues").json()["items"] if queue["paused"]]
        assert [(queue["name"], queue["pending"]) for queue in paused] == [("partners", 12)]
        schedules = {one["name"]: one for one in http.get("/schedules").json()["items"]}
        assert schedules["send_bills"]["note"] == "until the tax office answers"
        assert {one["spec"]["trigger"]["kind"] for one in schedules.values()} == {"cron", "every", "calendar"}
    shop.signal(signal.SIGINT)
    code, _, errors = shop.end()
    assert (code, errors) == (0, "")
    assert not list(here.glob("mainspring-demo-*"))
