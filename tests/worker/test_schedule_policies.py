"""Policies of schedules (overlap, missed ticks, windows, dependencies, limits), and what is recorded of their ticks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring, State, Task, every
from mainspring.schedule.record import Tick
from mainspring.testing import VirtualClock


def second(n: float) -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=n)


def hour(n: float) -> datetime:
    return second(3600 * n)


def sleeper(app: Mainspring, clock: VirtualClock, seconds: float) -> tuple[Task[[], None], list[tuple[str, float]]]:
    """A slow task, and a list of when its runs began and ended."""
    said: list[tuple[str, float]] = []

    @app.task
    async def work() -> None:
        said.append(("begins", clock.monotonic()))
        try:
            await clock.sleep(seconds)
            said.append(("ends", clock.monotonic()))
        except BaseException:
            said.append(("stopped", clock.monotonic()))
            raise

    return work, said


async def record(app: Mainspring, name: str) -> Sequence[Tick]:
    """The records of its ticks, oldest first."""
    return list(reversed(await app.schedules.ticks(name)))


def fates(ticks: Sequence[Tick]) -> list[tuple[float, str, str]]:
    return [((tick.at - second(0)).total_seconds(), tick.what, tick.reason) for tick in ticks]


# overlap


async def test_a_tick_is_skipped_while_the_last_run_goes_on(app: Mainspring, clock: VirtualClock) -> None:
    work, said = sleeper(app, clock, 15)
    app.schedule("work", every(10).seconds, work)
    async with app, app.worker() as worker:
        await clock.elapse(seconds=36)
        ticks = await record(app, "work")
        await worker.stop(grace=0)
    assert said[:3] == [("begins", 10), ("ends", 25), ("begins", 30)]
    assert fates(ticks) == [(10, "fired", ""), (20, "skipped", "overlap"), (30, "fired", "")]


async def test_overlap_queue_holds_one_tick_until_the_run_has_ended(app: Mainspring, clock: VirtualClock) -> None:
    work, said = sleeper(app, clock, 25)
    app.schedule("work", every(10).seconds, work, overlap="queue")
    async with app, app.worker() as worker:
        await clock.elapse(seconds=38)
        ticks = await record(app, "work")
        await worker.stop(grace=0)
    assert said[:3] == [("begins", 10), ("ends", 35), ("begins", 35)]
    assert fates(ticks) == [(10, "fired", ""), (30, "skipped", "overlap"), (20, "fired", "")]


async def test_runs_may_overlap_if_that_is_allowed(app: Mainspring, clock: VirtualClock) -> None:
    work, said = sleeper(app, clock, 15)
    app.schedule("work", every(10).seconds, work, overlap="allow")
    async with app, app.worker() as worker:
        await clock.elapse(seconds=26)
        await worker.stop(grace=0)
    assert said[:3] == [("begins", 10), ("begins", 20), ("ends", 25)]


async def test_a_tick_cancels_the_run_before_it_and_begins_when_that_has_ended(
    app: Mainspring, clock: VirtualClock
) -> None:
    work, said = sleeper(app, clock, 100)
    app.schedule("work", every(20).seconds, work, overlap="cancel")
    async with app, app.worker() as worker:
        await clock.elapse(seconds=50)
        ticks, first = await record(app, "work"), (await app.jobs.list())[-1]
        await worker.stop(grace=0)
    (begins, began), (stopped, at), (again, second_at) = said[:3]
    assert (begins, stopped, again) == ("begins", "stopped", "begins")
    assert began == 20
    assert 40 <= at <= second_at <= 46
    assert fates(ticks) == [(20, "fired", ""), (40, "fired", "")]
    assert first.state is State.CANCELLED


# missed ticks


@pytest.mark.parametrize(
    ("catch_up", "runs", "missed"),
    [("latest", [5], 4), ("skip", [], 5), ("all", [1, 2, 3, 4, 5], 0)],
)
async def test_five_missed_ticks_are_one_none_or_five_runs(
    app: Mainspring, clock: VirtualClock, catch_up: Any, runs: list[int], missed: int
) -> None:
    seen: list[datetime | None] = []

    @app.every(hours=1, catch_up=catch_up)
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.advance(hours=5, minutes=30)
        await app.drain()
        row = await app.schedules.get("work")
        assert seen == [hour(n) for n in runs]
        assert (row.fired, row.missed, row.next_run_at) == (len(runs), missed, hour(6))
        clock.set(hour(6))
        await app.drain()
    assert seen[-1] == hour(6)


async def test_a_tick_within_its_grace_is_on_time_in_every_mode(app: Mainspring, clock: VirtualClock) -> None:
    @app.every(hours=1, catch_up="skip", grace=300)
    async def work() -> None: ...

    async with app:
        await app.drain()
        clock.advance(hours=1, seconds=299)
        assert await app.drain() == 1
        clock.set(hour(2) + timedelta(seconds=300))
        assert await app.drain() == 0
        assert fates(await record(app, "work")) == [(3600, "fired", ""), (7200, "missed", "catch_up")]


async def test_ticks_older_than_the_catch_up_window_are_not_made_up_for(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []

    @app.every(hours=1, catch_up="all", catch_up_window=timedelta(hours=2))
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.advance(hours=6, minutes=30)
        await app.drain()
        first = (await record(app, "work"))[0]
    assert seen == [hour(5), hour(6)]
    assert (first.what, first.reason, first.count) == ("missed", "too_old", 4)
    assert (first.at, first.last_at) == (hour(1), hour(4))


# windows and excluded dates


async def test_ticks_outside_the_window_are_skipped_and_on_record(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []

    @app.every(hours=1, window=("08:00", "10:00"), catch_up="all")
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.advance(hours=23)
        await app.drain()
        clock.advance(hours=12)
        await app.drain()
        gone = [tick for tick in await record(app, "work") if tick.reason == "window"]
    assert seen == [hour(n) for n in (8, 9, 32, 33)]
    assert sum(tick.count for tick in gone) == 7 + 22
    assert {tick.what for tick in gone} == {"skipped"}


async def test_a_window_goes_across_midnight_on_the_days_it_opens(app: Mainspring, clock: VirtualClock) -> None:
    """The first of January 2030 is a Tuesday."""
    seen: list[datetime | None] = []

    @app.every(hours=2, window=("22:00", "03:00", "tue"), catch_up="all", catch_up_window=timedelta(days=9))
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        for n in (191, 192):
            clock.set(hour(n))
            await app.drain()
    assert seen == [hour(n) for n in (22, 24, 26, 168 + 22, 168 + 24)]


async def test_a_tick_outside_the_window_may_be_moved_to_its_opening(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []
    window = {"opens": "08:00", "closes": "18:00", "tz": "UTC", "outside": "move"}

    @app.cron("0 3 * * *", window=window)
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.set(hour(7))
        assert await app.drain() == 0
        clock.set(hour(8))
        assert await app.drain() == 1
    assert seen == [hour(8)]


async def test_excluded_dates_have_no_runs(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []

    @app.cron("0 9 * * *", exclude=[date(2030, 1, 2)], catch_up="all", catch_up_window=timedelta(days=9))
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.advance(hours=72)
        await app.drain()
        reasons = (await app.schedules.stats("work")).reasons
    assert (seen, reasons) == ([hour(9), hour(57)], {"excluded": 1})


# dependencies


async def test_a_schedule_fires_only_after_the_one_it_depends_on_has_succeeded(
    app: Mainspring, clock: VirtualClock
) -> None:
    ran: list[tuple[str, float]] = []
    broken = True

    @app.every(hours=1)
    @app.task(max_retries=0)
    async def load() -> None:
        ran.append(("load", clock.monotonic() / 3600))
        if broken:
            raise OSError("no data")

    @app.cron("30 * * * *", depends_on="load")
    async def report() -> None:
        ran.append(("report", clock.monotonic() / 3600))

    async with app:
        for half in range(7):
            clock.set(hour(half / 2))
            broken = half < 4
            await app.drain()
        ticks = await record(app, "report")
    assert [entry for entry in ran if entry[0] == "report"] == [("report", 2.0), ("report", 3.0)]
    assert fates(ticks) == [(1800, "skipped", "dependency"), (5400, "fired", ""), (9000, "fired", "")]


async def test_a_success_of_a_dependency_counts_once(app: Mainspring, clock: VirtualClock) -> None:
    ran: list[float] = []

    @app.cron("0 0,6 * * *", run_on_start=True)
    async def load() -> None: ...

    @app.every(hours=1, depends_on=["load"])
    async def report() -> None:
        ran.append(clock.monotonic() / 3600)

    async with app:
        for n in range(8):
            clock.set(hour(n))
            await app.drain()
    assert ran == [1, 6]


# limits


async def test_a_schedule_ends_after_max_runs(app: Mainspring, clock: VirtualClock) -> None:
    @app.every(hours=1, max_runs=2)
    async def work() -> None: ...

    async with app:
        await app.drain()
        for n in range(1, 5):
            clock.set(hour(n))
            await app.drain()
        row = await app.schedules.get("work")
    assert (row.fired, row.status, row.next_run_at) == (2, "ended", None)


async def test_a_schedule_has_ticks_from_its_start_to_its_end(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []

    @app.every(hours=1, start_at=hour(2.5), end_at=hour(5), catch_up="all")
    async def work(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await app.drain()
        clock.set(hour(12))
        await app.drain()
        assert (await app.schedules.get("work")).status == "ended"
    assert seen == [hour(2.5), hour(3.5), hour(4.5)]


async def test_an_interval_may_count_from_the_end_of_the_last_run(app: Mainspring, clock: VirtualClock) -> None:
    work, said = sleeper(app, clock, 4)
    app.schedule("work", every(10).seconds, work, after="finish")
    async with app, app.worker() as worker:
        await clock.elapse(seconds=40)
        await worker.stop(grace=0)
    assert [at for kind, at in said if kind == "begins"] == pytest.approx([10, 24, 38], abs=0.01)


async def test_jitter_delays_a_job_by_the_same_span_each_time_and_leaves_its_tick_alone(
    app: Mainspring, clock: VirtualClock
) -> None:
    ran: list[tuple[datetime | None, datetime]] = []

    @app.every(hours=1, jitter=600)
    async def work(ctx: Context) -> None:
        ran.append((ctx.scheduled_at, clock.now()))

    async with app:
        await app.drain()
        for _ in range(3):
            due = (await app.schedules.get("work")).due_at
            assert due is not None
            clock.set(due)
            await app.drain()
    (offset,) = {at - tick for tick, at in ran if tick is not None}
    assert [tick for tick, _ in ran] == [hour(1), hour(2), hour(3)]
    assert timedelta(0) < offset < timedelta(minutes=10)
