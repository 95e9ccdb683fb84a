"""A thousand schedules due in the same second: one worker fires each of them once, and everything settles."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Filter, Mainspring
from mainspring.events import JobEnded
from mainspring.schedule.edit import create
from mainspring.schedule.record import Firing, Spec
from mainspring.stores import open_store
from mainspring.trigger import Every

SCHEDULES_COUNT = 1000
# Far more than it takes: the machine may be busy with other things.
BOUND_SECONDS = 60


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in ("memory", "sqlite"):
        return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue(request.param).fresh())


async def test_a_thousand_schedules_due_at_once_each_run_once_and_complete(url: str) -> None:
    app = Mainspring(url)
    runs, ended, settled = 0, 0, asyncio.Event()

    @app.task
    async def beacon() -> None:
        nonlocal runs
        runs += 1

    @app.on(JobEnded)
    def count(event: JobEnded) -> None:
        nonlocal ended
        ended += 1
        if ended == SCHEDULES_COUNT:
            settled.set()

    now = datetime.now(UTC)
    spec = Spec(trigger=Every(seconds=3600, anchor=now - timedelta(seconds=1)), task="beacon")
    rows = [create(f"s-{n:04}", spec, owner="user", now=now - timedelta(seconds=2)) for n in range(SCHEDULES_COUNT)]
    async with app:
        store = await app.connect()
        for n in range(0, SCHEDULES_COUNT, 100):
            fired = await store.fire([Firing(schedule=row) for row in rows[n : n + 100]], now=now)
            assert all(one.stands for one in fired)
        async with asyncio.timeout(BOUND_SECONDS), app.worker():
            await settled.wait()
        known = await store.schedules(limit=2 * SCHEDULES_COUNT)
        assert runs == SCHEDULES_COUNT
        assert {(row.fired, row.completed, row.active, row.ticks) for row in known} == {(1, 1, (), 1)}
        jobs = await store.jobs(Filter(states=("completed",)), now=datetime.now(UTC), limit=2 * SCHEDULES_COUNT)
        assert len({job.schedule for job in jobs}) == len(jobs) == SCHEDULES_COUNT


async def test_ticks_of_schedules_fired_in_one_batch_are_stored_in_a_sqlite_file(tmp_path: Path) -> None:
    """What was fired together is read by another handle as if it had been fired one by one."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Mainspring(url)

    @app.task
    async def beacon() -> None:
        """Nothing to do."""

    now = datetime.now(UTC)
    spec = Spec(trigger=Every(seconds=3600, anchor=now - timedelta(seconds=1)), task="beacon", tags=("a", "b"))
    rows = [create(f"s-{n}", spec, owner="user", now=now - timedelta(seconds=2)) for n in range(20)]
    async with app:
        await (await app.connect()).fire([Firing(schedule=row) for row in rows], now=now)
        await app.drain()
    store = open_store(url)
    await store.open()
    try:
        for row in rows:
            (tick,) = await store.ticks(row.name, limit=9)
            (job,) = await store.jobs(Filter(schedules=(row.name,), tags=("a", "b")), now=now, limit=9)
            assert (tick.job_id, job.scheduled_at) == (job.id, tick.at)
    finally:
        await store.close()
