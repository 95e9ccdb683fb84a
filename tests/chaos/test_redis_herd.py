"""A thousand schedules of Redis that are due in the same second, fired by real workers that are each other's rivals."""

import asyncio
import signal
from datetime import UTC, datetime, timedelta

import pytest
from audit import until
from crew import Crew

from mainspring.schedule.edit import create
from mainspring.schedule.record import Firing, Schedule, Spec
from mainspring.stores import open_store
from mainspring.trigger import Every

# Schedules, and the seconds after which they are due: until then they are made, and found by the workers.
COUNT, LEAD_SECONDS = 1_000, 3
# Far above what it takes: without a bound on round trips it did not settle in nine minutes.
SETTLED_SECONDS, STOPPED_SECONDS = 40, 30


async def make(url: str, at: datetime) -> None:
    store = open_store(url)
    await store.open()
    now, spec = datetime.now(UTC), Spec(trigger=Every(seconds=3600), task="quick")
    new = [create(f"herd {n:04}", spec, owner="user", now=now, anchor_at=at) for n in range(COUNT)]
    assert all(fired.stands for fired in await store.fire([Firing(schedule=one) for one in new], now=now))
    await store.close()


async def rows(url: str) -> list[Schedule]:
    store = open_store(url)
    await store.open()
    found = await store.schedules(limit=COUNT + 1)
    await store.close()
    return found


# That of one worker alone: also tests/worker/test_many_due_at_once.py.
@pytest.mark.parametrize(
    ("ground", "count"),
    [("keys", 2), ("cluster", 2), pytest.param("cluster", 1, marks=pytest.mark.slow)],
    indirect=["ground"],
)
def test_a_thousand_schedules_due_at_once_complete_and_their_workers_stop(clockwork: Crew, count: int) -> None:
    workers = [clockwork.up(f"worker{n}", beat=5, lease=30, sweep=5, concurrency=COUNT) for n in range(count)]
    at = (datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS)).replace(microsecond=0)
    asyncio.run(make(clockwork.url, at))
    until(lambda: clockwork.client.sync.stats().completed == COUNT, SETTLED_SECONDS)
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        worker.died(STOPPED_SECONDS)
    found = asyncio.run(rows(clockwork.url))
    assert [(row.fired, row.completed, row.active) for row in found] == [(1, 1, ())] * COUNT
    assert clockwork.ground.complaints() == []
