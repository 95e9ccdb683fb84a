"""Calls to PostgreSQL without an answer: ended if the server does not work on them, and not before."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from proxy import Proxy

from mainspring.errors import StoreUnavailable
from mainspring.stores.postgres import connector as route
from mainspring.stores.postgres import stalled as doubt
from mainspring.stores.postgres.pool import SETTINGS, Pool, Session
from mainspring.stores.postgres.url import PostgresUrl
from servers import Postgres

LONG = "SELECT pg_sleep(1)"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long against a round trip, short against a long statement."""
    monkeypatch.setattr(doubt, "STALLED_AFTER_SECONDS", 0.2)


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    proxy = Proxy(postgres.port)
    try:
        yield proxy
    finally:
        proxy.close()


@asynccontextmanager
async def pooled(postgres: Postgres, proxy: Proxy) -> AsyncIterator[Pool]:
    pool = Pool(PostgresUrl(proxy.between(postgres.dsn, postgres.port), "the server"))
    try:
        async with asyncio.timeout(30):
            yield pool
    finally:
        await pool.close()


async def ask(db: Session) -> int:
    number: int = await db.value("SELECT pg_backend_pid()")
    return number


async def test_call_whose_answer_is_lost_is_ended(postgres: Postgres, proxy: Proxy) -> None:
    async with pooled(postgres, proxy) as pool:
        first = await pool.call(ask)
        proxy.mood = "deaf"
        lost = asyncio.create_task(pool.call(ask))
        await asyncio.wait([lost], timeout=0.5)  # and no server can be asked meanwhile
        assert not lost.done()
        proxy.mood = "fair"
        with pytest.raises(StoreUnavailable):
            await lost
        assert await pool.call(ask) != first


async def test_call_that_the_server_received_in_part_is_ended(postgres: Postgres, proxy: Proxy) -> None:
    async with pooled(postgres, proxy) as pool:
        await pool.call(ask)
        proxy.mood = "dumb"
        lost = asyncio.create_task(pool.call(lambda db: db.value("SELECT 41 + $1::int", 1)))
        while not proxy.caught:  # the server has answered
            await asyncio.sleep(0)
        proxy.mood = "fair"
        with pytest.raises(StoreUnavailable):
            await lost


async def test_stalled_call_keeps_no_lock_on_the_server(
    postgres: Postgres, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "idle_in_transaction_session_timeout", "60000")
    monkeypatch.setitem(SETTINGS, "lock_timeout", "1000")

    async def locked(db: Session) -> None:
        await db.run("SELECT pg_advisory_xact_lock(1, 2)")

    async def cut_off(db: Session) -> None:
        await locked(db)
        proxy.mood = "deaf"
        asyncio.get_running_loop().call_later(0.1, setattr, proxy, "mood", "fair")
        await db.run("SELECT 1")

    async with pooled(postgres, proxy) as pool:
        with pytest.raises(StoreUnavailable):
            await pool.transact(cut_off)
        await pool.transact(locked)


async def test_long_statement_is_not_ended(postgres: Postgres, proxy: Proxy) -> None:
    async with pooled(postgres, proxy) as pool:
        await pool.call(lambda db: db.run(LONG))


async def test_call_that_waits_for_a_lock_is_not_ended(postgres: Postgres, proxy: Proxy) -> None:
    async def held(db: Session) -> None:
        await db.run("SELECT pg_advisory_xact_lock(1, 2)")
        await db.run(LONG)

    async with pooled(postgres, proxy) as pool:
        await asyncio.gather(*(pool.transact(held) for _ in range(2)))


async def test_call_behind_a_proxy_with_other_process_ids_is_not_ended(postgres: Postgres, proxy: Proxy) -> None:
    proxy.masks = True
    async with pooled(postgres, proxy) as pool:
        await pool.call(lambda db: db.run(LONG))


async def test_a_call_without_an_answer_ends_with_its_connection(
    postgres: Postgres, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "CALL_SECONDS", 0.3)
    proxy.masks = True
    async with pooled(postgres, proxy) as pool:
        await pool.call(ask)
        proxy.mood = "deaf"
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await pool.call(ask)
        proxy.mood = "fair"
        await pool.call(ask)
