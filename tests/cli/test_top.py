"""mainspring top: frames at every size, trouble of the store, and the load on the store."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from mainspring import Mainspring, cron, every
from mainspring.cli.top.frame import Frame, short_count
from mainspring.cli.top.live import refresh
from mainspring.cli.top.panes import progress
from mainspring.cli.top.snapshot import SnapshotFailure, TopSnapshot, take_snapshot
from mainspring.cli.top.view import TopView
from mainspring.records.queue import Overview
from mainspring.records.run import Progress, RunReport
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import a_worker
from mainspring.testing.faults import Faults, FaultStore

SIZES = [(60, 20), (80, 24), (100, 30), (140, 40), (220, 60)]


# a shop with data of every kind, on a virtual clock


def small_shop(store: Any, clock: VirtualClock) -> Mainspring:
    app = Mainspring(store, clock=clock)

    @app.task(queue="mail")
    async def send(to: str) -> None: ...

    @app.task(max_retries=0)
    async def charge(order: int) -> None:
        raise PermissionError(f"order {order}: card refused")

    @app.task(queue="media")
    async def transcode(clip: str) -> None: ...

    return app


async def alive(store: Store, clock: VirtualClock, name: str, **about: Any) -> None:
    info = a_worker(name, **{"tasks": ("send", "charge", "transcode"), "lease": 20.0, "memory": 50 << 20, **about})
    await store.beat(info, until=clock.now() + timedelta(seconds=20), now=clock.now())


async def make_busy(app: Mainspring, clock: VirtualClock) -> None:
    store, tasks = await app.connect(), app.tasks
    await app.enqueue_many([tasks["send"].job(f"{n}@example.com") for n in range(40)])
    await app.enqueue_many([tasks["charge"].job(n) for n in range(3)])
    await app.drain()
    await alive(store, clock, "host-1-aaaaaaaa", running=2, concurrency=5)
    await app.enqueue_many([tasks["transcode"].job(f"clip-{n}") for n in range(2)])
    claim = await store.claim(None, worker="host-1-aaaaaaaa", tasks=["transcode"], limit=2, now=clock.now())
    first, second = claim.jobs
    made = Progress(run=1, at=clock.now(), done=45, total=100, note="frames")
    await store.report([RunReport(id=first.id, lease=first.lease or "", progress=made)])
    made = Progress(run=1, at=clock.now(), done=1200, note="frames")
    await store.report([RunReport(id=second.id, lease=second.lease or "", progress=made)])
    await app.enqueue_many([tasks["send"].job("late@example.com"), tasks["send"].using(delay=3600).job("later")])
    await app.queues.pause("bulk")
    await app.schedules.create("a-rather-long-name-for-a-schedule", every(5).minutes, "send", kwargs={"to": "x"})
    await app.schedules.create("nightly", cron("30 1 * * *", tz="Europe/London"), "charge", kwargs={"order": 1})
    await alive(store, clock, "host-2-bbbbbbbb", leaked=3, concurrency=8)
    await app.workers.drain("host-2-bbbbbbbb")
    await alive(store, clock, "host-2-bbbbbbbb", leaked=3, concurrency=8, drained=True)
    clock.advance(seconds=7)


@pytest.fixture
def snapshot(here: Path, clock: VirtualClock) -> TopSnapshot:
    async def see() -> TopSnapshot:
        async with small_shop("sqlite:///jobs.db", clock) as app:
            await make_busy(app, clock)
            seen = await take_snapshot(app)
        assert isinstance(seen, TopSnapshot)
        return seen

    return asyncio.run(see())


def drawn(view: TopView, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None, markup=False, record=True)
    with console.capture() as capture:
        console.print(Frame(view), height=height)
    return capture.get().splitlines()


def seen(snapshot: TopSnapshot, **chosen: Any) -> TopView:
    view = TopView(**chosen)
    view.update(snapshot)
    return view


# frames


@pytest.mark.parametrize("pane", [0, 1, 2, 3])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_frame_fits_every_window(snapshot, width, height, pane):
    lines = drawn(seen(snapshot, pane=pane), width, height)
    assert len(lines) == height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for part in ("✓ ready", "00:00:07Z", "43 runs", "93.0 % ok", "p99", "max 40 in 1m", "max 3 in 1m", "q quit"):
        assert part in text
    assert re.search(r"○ 1 pend.*◔ 1 sched.*► 2 run.*✗ 3 dead", lines[1])
    assert re.search(r"► mail +1 +1 +0 +0 +7.0s", text)
    assert re.search(r"► media +0 +0 +0 +2 +–", text)
    assert re.search(r"‖ bulk p\S+ +0 +0 +0 +0 +–", text)
    assert re.search(r"► host-1-aaaaaaaa +2/5 +0 +50M +7.0s", text)
    assert re.search(r"‖ host-2-bbbbbbbb.* 0/8 +3 +50M +7.0s", text)


@pytest.mark.parametrize(("width", "height"), [(40, 10), (20, 5), (1, 1)])
def test_frame_fits_a_tiny_window(snapshot, width, height):
    lines = drawn(seen(snapshot), width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)


def test_running_jobs_have_their_progress(snapshot):
    text = "\n".join(drawn(seen(snapshot), 80, 24))
    assert "[1 running 2]" in text
    assert re.search(r"► transcode ████░░░░░░  45 % frames +7.0s +1 media", text)
    assert re.search(r"► transcode 1,200 frames +7.0s +1 media", text)
    wide = "\n".join(drawn(seen(snapshot), 140, 40))
    assert all(job.id in wide for job in snapshot.running)
    assert "host-1-aaaaaaaa\n" in re.sub(" +\n", "\n", wide)


def test_failures_are_counted_by_kind_and_the_newest_dead_are_named(snapshot):
    text = "\n".join(drawn(seen(snapshot, pane=1), 80, 24))
    assert "[2 failures 3]" in text
    assert re.search(r"3 PermissionError: order …: card refused +charge", text)
    assert len(re.findall(r"✗ 7s ago charge 1   PermissionError: order \d: card refused", text)) == 3
    wide = "\n".join(drawn(seen(snapshot, pane=1), 140, 40))
    assert all(job.id in wide for job in snapshot.dead)


def test_dead_jobs_are_grouped_by_error(snapshot):
    text = "\n".join(drawn(seen(snapshot, pane=2), 140, 40))
    assert "[3 dead 3]" in text
    assert re.search(rf"3 charge PermissionError: order …: card refused 7s ago {snapshot.groups[0].newest}", text)


def test_cut_lists_count_the_hidden_queues_and_workers(here, clock):
    async def crowd() -> TopSnapshot | SnapshotFailure:
        async with small_shop("sqlite:///jobs.db", clock) as app:
            send, store = app.tasks["send"], await app.connect()
            await app.enqueue_many(send.using(queue=f"queue-{n:02}").job("x") for n in range(30) for _ in range(n + 1))
            for n in range(20):
                await alive(store, clock, f"host-{n:02}-aaaaaaaa", leaked=int(n == 13))
            return await take_snapshot(app)

    crowded = asyncio.run(crowd())
    assert isinstance(crowded, TopSnapshot)
    lines = drawn(seen(crowded), 80, 24)
    text = "\n".join(lines)
    assert len(lines) == 24
    assert len(re.findall(r"\+2\d more", text)) == 1  # of 30 queues
    assert re.search(r"\+1\d more", text)  # of 20 workers
    assert lines[6].startswith("► queue-29 ")  # the busiest comes first
    assert "► host-13-aaaaaaaa" in lines[6]  # the worker with a leak comes first
    assert len(crowded.waits) == 10


def test_long_queue_name_is_cut(snapshot):
    queues = [replace(snapshot.stats.queues[0], name="a queue with a long name " * 5)]
    lines = drawn(seen(replace(snapshot, stats=replace(snapshot.stats, queues=queues))), 80, 24)
    assert re.match(r"‖ a queue[^…]*… +0 +0 +0 +0 +–  ► host-1-aaaaaaaa +2/5", lines[6])
    assert lines[8].startswith("[1 running 2]")


def test_names_cannot_control_the_terminal(snapshot):
    hostile = replace(snapshot.running[0], task="evil\x1b[2J\nname", queue="日本語" * 20)
    lines = drawn(seen(replace(snapshot, running=[hostile])), 80, 24)
    assert "\x1b" not in "\n".join(lines)
    assert "evil\\x1b[2J name" in "\n".join(lines)
    assert len(lines) == 24


def test_empty_store_is_shown(here, clock):
    async def see() -> TopSnapshot | SnapshotFailure:
        async with small_shop("sqlite:///jobs.db", clock) as app:
            return await take_snapshot(app)

    empty = asyncio.run(see())
    assert isinstance(empty, TopSnapshot)
    for pane, words in enumerate(("nothing runs", "nothing failed in the last hour", "no job is dead")):
        text = "\n".join(drawn(seen(empty, pane=pane), 80, 24))
        assert words in text
        assert re.search(r"^none +none is alive", text, re.MULTILINE)
        assert "none is alive" in text


def test_no_worker_while_jobs_wait_is_marked(here, clock):
    async def see() -> TopSnapshot | SnapshotFailure:
        async with small_shop("sqlite:///jobs.db", clock) as app:
            await app.tasks["send"].enqueue("x")
            return await take_snapshot(app)

    waiting = asyncio.run(see())
    assert isinstance(waiting, TopSnapshot)
    assert "✗ none is alive" in "\n".join(drawn(seen(waiting), 80, 24))


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, 100, "░░░░░░░░░░   0 %"),
        (99.9, 100, "█████████░  99 %"),
        (100, 100, "██████████ 100 %"),
        (150, 100, "██████████ 100 %"),
        (-5, 100, "░░░░░░░░░░   0 %"),
        (3, None, "3"),
        (3, 0, "3"),
    ],
)
def test_progress_bar_is_rounded_down_and_stays_within_its_range(clock, done, total, text):
    made = Progress(run=1, at=clock.now(), done=done, total=total)
    assert progress(made, 10).plain.rstrip() == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (9999, "9,999"), (12_345, "12.3k"), (99_999, "99.9k"), (123_456, "123k"), (1_250_000, "1.2M"),
     (123_456_789, "123M")],
)  # fmt: skip
def test_large_counts_are_short(count, text):
    assert short_count(count) == text


# keys


def test_pressed_keys_choose_the_pane_and_pause():
    view, panes = TopView(), []
    for key in ("2", "3", "4", "1", "\t", "\t", "\t", "\t", "x"):
        view.press(key)
        panes.append(view.pane)
    assert panes == [1, 2, 3, 0, 1, 2, 3, 0, 0]
    view.press("p")
    assert view.paused
    view.press("p")
    assert not view.paused


def test_top_shows_that_the_view_is_paused(snapshot):
    lines = drawn(seen(snapshot, paused=True), 80, 24)
    assert "‖ paused  ✓ ready" in lines[0]
    assert "p go on" in lines[-1]


# store trouble, and the number of store reads


def troubled(clock: VirtualClock) -> tuple[Mainspring, Faults]:
    faults = Faults()
    store: Any = FaultStore(open_store("sqlite:///jobs.db", clock=clock), faults)
    return small_shop(store, clock), faults


async def test_store_trouble_is_shown_above_the_last_snapshot(here, clock):
    app, faults = troubled(clock)
    view, frames = TopView(), []
    async with app:
        await make_busy(app, clock)
        refreshing = asyncio.create_task(refresh(app, view, lambda: frames.append(drawn(view, 80, 24))))
        await clock.elapse(seconds=0.5)
        assert "✓ ready" in frames[-1][0]
        faults.fail("overview", times=2)
        await clock.elapse(seconds=2)
        assert "✗ trouble" in frames[-1][0]
        assert frames[-1][1] == "✗ the store is in trouble for 1.0s: injected into overview"
        assert "► 2 running" in frames[-1][2]
        await clock.elapse(seconds=1)
        assert "✓ ready" in frames[-1][0]
        assert "trouble" not in "\n".join(frames[-1])
        refreshing.cancel()
    assert len(frames) == 4


async def test_hanging_store_does_not_block_the_view(monkeypatch):
    class Hanging(MemoryStore):
        async def overview(self, *, now: datetime) -> Overview:
            return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("mainspring.cli.top.snapshot.STORE_TIMEOUT_SECONDS", 0.05)
    async with Mainspring(Hanging()) as app:
        seen = await take_snapshot(app)
    assert isinstance(seen, SnapshotFailure)
    assert seen.reason == "the store has not answered within 0.05 s"


async def test_missing_store_is_shown_as_trouble(clock, tmp_path):
    app = small_shop(f"sqlite:///{tmp_path}/nowhere/jobs.db", clock)
    view = TopView()
    view.update(await take_snapshot(app))
    lines = drawn(view, 60, 20)
    assert "✗ trouble" in lines[0]
    assert "there is no directory" in " ".join(" ".join(lines).split())
    (tmp_path / "nowhere").mkdir()
    view.update(await take_snapshot(app))
    assert "✓ ready" in drawn(view, 60, 20)[0]
    await app.close()


async def test_top_masks_the_password_in_the_store_url(monkeypatch, clock):
    monkeypatch.setenv("MAINSPRING_STORE", "postgresql://me:s3cret@host/db")
    async with Mainspring(open_store("memory://", clock=clock), clock=clock) as app:
        view = TopView()
        view.update(await take_snapshot(app))
    assert "postgresql://me:***@host/db" in drawn(view, 80, 24)[0]


async def test_pressed_keys_do_not_cause_more_store_reads(here, clock):
    app, faults = troubled(clock)
    asked: list[str] = []
    for verb in ("time", "overview", "tallies", "workers", "jobs", "dead_groups"):
        faults.when(verb, lambda verb=verb: asked.append(verb) or False)  # type: ignore[misc]
    async with app:
        await make_busy(app, clock)
        asked.clear()
        view = TopView(interval=2.0)
        refreshing = asyncio.create_task(refresh(app, view, lambda: None))
        for key in ("2", "\t", "\t", "x", "1"):
            view.press(key)
            await clock.elapse(seconds=2)
        await clock.settle()
        rounds = asked.count("overview")
        assert rounds == 6
        assert len(asked) <= rounds * 10
        view.press("p")
        await clock.elapse(seconds=20)
        assert asked.count("overview") == rounds
        view.press("p")
        await clock.elapse(seconds=2)
        assert asked.count("overview") == rounds + 1
        refreshing.cancel()


async def test_slow_store_is_read_less_often(here, clock):
    app, faults = troubled(clock)
    asked: list[float] = []

    def slow() -> bool:
        asked.append(clock.monotonic())
        clock.advance(seconds=0.5)
        return False

    faults.when("overview", slow)
    async with app:
        refreshing = asyncio.create_task(refresh(app, TopView(interval=1.0), lambda: None))
        await clock.elapse(seconds=20)
        refreshing.cancel()
    assert asked[1] - asked[0] == pytest.approx(5.0)
    assert len(asked) <= 6


# the command


def test_top_once_prints_one_plain_frame_with_every_pane(cli, shop, enqueued, work):
    enqueued("fail", "why=no")
    work()
    enqueued("add", "a=1")
    done = cli("top", "--app", shop, "--once")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mainspring top  sqlite:///jobs.db ")
    assert all(len(line) <= 80 for line in lines)
    for part in ("► mail ", "✗ none is alive", "nothing runs", "ValueError: no", "dead ─"):
        assert part in done.stdout


def test_top_without_a_terminal_prints_once(process, shop, enqueued):
    enqueued("add", "a=1")
    code, out, errors = process("top", "--app", shop).end()
    assert (code, errors) == (0, "")
    assert "\x1b" not in out
    assert "○ 1 pending" in out


def test_top_once_on_a_store_that_does_not_answer_is_an_error(cli):
    done = cli("top", "--once", "--store", "sqlite:///nowhere/jobs.db")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: the store does not answer: cannot open SQLite file")


def test_top_interval_of_zero_is_a_usage_error(cli, shop):
    assert cli("top", "--app", shop, "--interval", "0").exit_code == 2
