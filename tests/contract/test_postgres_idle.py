"""An idle worker on PostgreSQL: it closes connections that rest, and reads the webhooks only when they have changed."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, cast

import pytest

from mainspring import Mainspring
from mainspring.records.worker import WorkerCommands
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import pool as pools
from mainspring.stores.postgres.pool import Pool
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.stores.rules import SILENT_WORKER_RETENTION
from mainspring.testing import Faults, FaultStore
from mainspring.testing.contract.build import NOW, a_worker, later
from servers import Postgres


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.fresh()


async def until_true(check: Any) -> None:
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.02)


# connections


async def test_connections_that_rest_are_closed_but_one_for_claims(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.3)
    pool = Pool(PostgresUrl(url, ""))
    try:
        await asyncio.gather(*(pool.call(lambda db: db.value("SELECT pg_sleep(0.1)")) for _ in range(3)))
        await pool.warm(3)
        idle = pool._idle
        assert (len(idle[pool.connector]), len(idle[pool._hot])) == (3, 3)
        last = idle[pool._hot][-1][0]
        await until_true(lambda: (len(idle[pool.connector]), len(idle[pool._hot])) == (0, 1))
        assert idle[pool._hot][0][0] is last
        assert await pool.hot(lambda db: db.value("SELECT 1")) == 1
        assert await pool.call(lambda db: db.value("SELECT 2")) == 2
    finally:
        await pool.close()


async def test_connection_in_use_is_not_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.1)
    pool = Pool(PostgresUrl(url, ""))
    try:
        await pool.call(lambda db: db.value("SELECT 1"))
        assert await pool.call(lambda db: db.value("SELECT 7 FROM pg_sleep(0.5)")) == 7
    finally:
        await pool.close()


# webhooks


async def test_listening_worker_reads_webhooks_when_they_have_changed(url: str) -> None:
    faults, read = Faults(), Counter[str]()
    faults.when("documents", lambda: bool(read.update(["documents"])))  # type: ignore[func-returns-value]
    app = Mainspring(cast(Store, FaultStore(open_store(url), faults)), beat=0.1, lease=5)
    app.task(name="task")(lambda: None)
    async with app, app.worker():
        store = await app.connect()
        while store.listening != "ok":
            await store.wait("claimable", 0.05)
        await beats(app, 5)
        read.clear()
        await beats(app, 10)
        assert read["documents"] <= 1  # the sample of the queues' depth, once a minute
        await app.webhooks.create("shop", "https://shop.example/hook", events=["job.dead"])
        await until_true(lambda: app._engine.dispatcher.watches_jobs)
        await app.webhooks.delete("shop")
        await until_true(lambda: not app._engine.dispatcher.watches_jobs)


async def beats(app: Mainspring, count: int) -> None:
    (worker,) = await app.workers.list()
    end = worker.info.beats + count
    async with asyncio.timeout(20):
        while (await app.workers.list())[0].info.beats < end:
            await asyncio.sleep(0.02)


# the row of a silent worker


async def test_worker_that_beats_after_a_day_has_no_commands_and_its_late_beats_count(url: str) -> None:
    store = cast(PostgresStore, open_store(url))
    await store.open()
    try:
        await store.beat(a_worker(beats=5), until=later(20), now=NOW)
        await store.command_workers(None, WorkerCommands(drained=True), now=NOW)
        back = NOW + SILENT_WORKER_RETENTION + timedelta(hours=1)
        reply = await store.beat(a_worker(beats=1), until=back + timedelta(seconds=20), now=back)
        assert reply.orders == WorkerCommands()
        assert [row.info.beats for row in await store.workers(now=back)] == [1]
    finally:
        await store.close()
