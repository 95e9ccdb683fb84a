"""Changes of time in a harness with schedules: with a running worker, or as an outage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Backoff, BadInput, Context, Mainspring, ScheduleNotFound, State, every


def hour(n: float) -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=n)


class Shop:
    """An app as in production, with schedules, on a file that no test may create."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.app = app = Mainspring(f"sqlite:///{file}")
        self.ran: list[tuple[str, datetime | None]] = []

        @app.every(hours=1)
        async def hourly(ctx: Context) -> None:
            self.ran.append(("hourly", ctx.scheduled_at))

        @app.cron("30 1 * * *", overlap="allow")
        @app.task(max_retries=1, backoff=Backoff.constant(600, jitter=0))
        async def daily(ctx: Context) -> None:
            self.ran.append(("daily", ctx.scheduled_at))
            if ctx.attempt == 1:
                raise OSError("no route")

        @app.task
        async def send(to: str) -> None: ...

        self.send = send


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db")


async def test_advance_fires_every_tick_at_its_instant(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        ran = await jobs.advance(hours=3)
        assert jobs.fired("hourly") == [hour(1), hour(2), hour(3)]
        assert jobs.clock.now() == hour(3)
    hourly = [job for job in ran if job.schedule == "hourly"]
    assert [(job.scheduled_at, job.started_at) for job in hourly] == [(hour(n), hour(n)) for n in (1, 2, 3)]
    assert not shop.file.exists()


async def test_advance_runs_retries_and_delayed_jobs_at_their_instants(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        late = await shop.send.using(delay=5400).enqueue("ada")
        ran = await jobs.advance(timedelta(hours=2))
        assert (await late.job()).started_at == hour(1.5)
    daily = [job for job in ran if job.schedule == "daily"]
    assert [(job.attempt, job.state) for job in daily] == [(1, State.PENDING), (2, State.COMPLETED)]


async def test_clock_advance_simulates_an_outage(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        jobs.clock.advance(hours=5, minutes=30)
        await jobs.drain()
        assert jobs.fired("hourly") == [hour(5)]
        assert [(tick.what, tick.reason, tick.count) for tick in jobs.ticks("hourly")] == [
            ("missed", "catch_up", 4), ("fired", "", 1),
        ]  # fmt: skip


async def test_schedules_count_from_the_beginning_of_the_block(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        jobs.clock.advance(hours=1)
        ran = await jobs.drain()
    assert [job.scheduled_at for job in ran] == [hour(1)]


async def test_harness_has_its_own_schedules_in_each_block(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.app.schedules.pause("hourly")
        await jobs.advance(hours=1)
        assert jobs.fired("hourly") == []
    async with shop.app.testing() as jobs:
        await jobs.advance(hours=1)
        assert jobs.fired("hourly") == [hour(1)]


async def test_advance_fires_a_schedule_created_in_the_block(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.app.schedules.create("mine", every(20).minutes, shop.send, kwargs={"to": "ada"})
        await jobs.advance(hours=1)
        assert len(jobs.fired("mine")) == 3


def test_sync_advance_lets_time_pass(shop: Shop) -> None:
    with shop.app.testing() as jobs:
        assert len(jobs.sync.advance(hours=2)) >= 2
        assert jobs.fired("hourly") == [hour(1), hour(2)]


async def test_inline_enqueue_fires_no_schedule(shop: Shop) -> None:
    async with shop.app.testing("inline") as jobs:
        jobs.clock.advance(hours=1)
        await shop.send.enqueue("ada")
        assert shop.ran == []
        await jobs.drain()
        assert shop.ran == [("hourly", hour(1))]


async def test_ticks_of_an_unknown_schedule_suggest_a_known_one(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'hourley'; did you mean 'hourly'"):
            jobs.fired("hourley")


async def test_advance_refuses_negative_spans_and_too_many_runs(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        with pytest.raises(BadInput, match="time passes forward only"):
            await jobs.advance(hours=-1)
        with pytest.raises(AssertionError, match=r"after 10 runs it is 2030-01-01 .*give advance\(\) a higher limit="):
            await jobs.advance(days=365, limit=10)
