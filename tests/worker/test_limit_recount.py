"""Workers recount limits once an hour, correct what is wrong, and tell the log and the doctor."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Limit, Mainspring, StoreUnavailable
from mainspring.cli.doctor import examine
from mainspring.insight.wrong_counts import MAX_NAMED_GROUPS, wrong_counts
from mainspring.records.finding import Finding
from mainspring.records.limit import Recount, limit_key_of
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.worker.pruner import RECOUNT_SECONDS, LimitRecount

# A job that does not exist takes the place of each waiting one.
PLANT = """INSERT INTO mainspring_limited SELECT 'ghost' || job_id, limit_key, 1, queue, task, rank, run_at
    FROM mainspring_limited"""


async def finding_of(app: Mainspring) -> Finding:
    return next(finding for finding in await examine(app) if finding.about == "limits")


async def test_a_worker_frees_a_place_that_no_job_holds(tmp_path: Path, clock: VirtualClock, caplog: Any) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)

    @app.task(limit=Limit(running=1, by="customer"))
    async def charge(customer: str) -> None: ...

    async with app:
        handle = await charge.enqueue("ada")
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
            db.execute(PLANT)
            db.execute("DELETE FROM mainspring_limit_lines")
        assert (await finding_of(app)).verdict == "ok"
        async with app.worker():
            await clock.elapse(minutes=4)
            assert (await app.jobs.get(handle.id)).state == "pending"
            await clock.elapse(minutes=20)
            assert (await app.jobs.get(handle.id)).state == "completed"
        found = await finding_of(app)
    assert (found.verdict, found.text.partition(":")[2]) == ("warn", " task:charge ada")
    assert "limits were counted otherwise than their jobs, and corrected: task:charge ada" in caplog.text


async def test_a_waiting_job_that_was_taken_for_a_running_one_is_claimed_again(
    tmp_path: Path, clock: VirtualClock
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)

    @app.task(limit=Limit(running=1, by="customer"))
    async def charge(customer: str) -> None: ...

    async with app:
        handle = await charge.enqueue("ada")
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
            db.execute("UPDATE mainspring_limited SET standing = 1")
            db.execute("DELETE FROM mainspring_limit_lines")
        await LimitRecount(clock).recount_if_due(await app.connect())
        await app.drain()
        assert (await app.jobs.get(handle.id)).state == "completed"


async def test_a_file_without_limits_is_not_written(tmp_path: Path, clock: VirtualClock) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    async with app:
        store = await app.connect()
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
            before = db.execute("PRAGMA data_version").fetchone()
            await LimitRecount(clock).recount_if_due(store)
            assert db.execute("PRAGMA data_version").fetchone() == before


class WrongStore(MemoryStore):
    """A memory store whose recounts find what the test says."""

    def __init__(self, clock: VirtualClock, *lots: Recount) -> None:
        super().__init__(clock)
        self.lots = list(lots)
        self.asked: list[str | None] = []

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        self.asked.append(after)
        if not self.lots:
            raise StoreUnavailable("gone")
        return self.lots.pop(0)


def lots(clock: VirtualClock, keys: Sequence[str]) -> list[Recount]:
    return [Recount((key,), key) for key in keys[:-1]] + [Recount((keys[-1],), None)]


def key(n: int) -> str:
    return limit_key_of("task:charge", f"c{n:02}")


async def elapsing(clock: VirtualClock, recount: Any) -> None:
    """Runs a recount whose pauses pass."""
    task = asyncio.ensure_future(recount)
    while not task.done():
        await clock.elapse(seconds=1)
    await task


async def test_many_groups_are_recounted_in_lots_by_one_worker_an_hour(clock: VirtualClock) -> None:
    keys = [key(n) for n in range(12)]
    store = WrongStore(clock, *lots(clock, keys))
    await store.open()
    mine, other = LimitRecount(clock), LimitRecount(clock)
    await elapsing(clock, mine.recount_if_due(store))
    assert store.asked == [None, *keys[:-1]]
    store.lots = [Recount((), keys[0])]
    await elapsing(clock, other.recount_if_due(store))
    await mine.recount_if_due(store)
    assert len(store.asked) == len(keys) + 1
    found = await wrong_counts(store, clock.now())
    assert found is not None
    assert (found.corrected, len(found.names), found.names[0]) == (12, MAX_NAMED_GROUPS, "task:charge c11")
    clock.advance(seconds=RECOUNT_SECONDS)
    store.lots = [Recount((), None)]
    await mine.recount_if_due(store)
    assert store.asked[-1] is None
    clock.advance(days=8)
    assert await wrong_counts(store, clock.now()) is None


async def test_a_recount_that_fails_is_logged_and_made_in_the_next_hour(clock: VirtualClock, caplog: Any) -> None:
    store, recount = WrongStore(clock), LimitRecount(clock)
    await store.open()
    await recount.recount_if_due(store)
    assert "recount: StoreUnavailable: gone" in caplog.text
    store.lots = [Recount((key(1),), None)]
    await recount.recount_if_due(store)
    assert await wrong_counts(store, clock.now()) is None
    clock.advance(seconds=RECOUNT_SECONDS)
    await recount.recount_if_due(store)
    assert await wrong_counts(store, clock.now()) is not None


async def test_a_stop_between_lots_keeps_what_was_found(clock: VirtualClock) -> None:
    store = WrongStore(clock, Recount((key(1),), key(1)))
    await store.open()
    task = asyncio.ensure_future(LimitRecount(clock).recount_if_due(store))
    while not store.asked:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = await wrong_counts(store, clock.now())
    assert found is not None
    assert found.names == ("task:charge c01",)
    assert found.at + timedelta(days=1) > clock.now()
