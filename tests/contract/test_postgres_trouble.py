"""PostgreSQL that is away, full or silent: every call ends, reconnects are few, and work goes on afterwards."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from mainspring.errors import ShuttingDown, StoreUnavailable
from mainspring.stores import open_store
from mainspring.stores.postgres.connector import (
    KEEPALIVE_IDLE_SECONDS,
    KEEPALIVE_INTERVAL_SECONDS,
    KEEPALIVE_PROBES,
    UNACKNOWLEDGED_MILLISECONDS,
)
from mainspring.stores.postgres.pool import Pool, Session
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import all_jobs, beat, new_job, put
from servers import Postgres


class Door:
    """A proxy in front of a server that can drop data, and that counts connections."""

    def __init__(self, port: int) -> None:
        self.to, self.open, self.silent, self.knocks = port, True, False, 0
        self._writers: list[asyncio.StreamWriter] = []

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        self._writers.append(writer)
        if not self.open:
            writer.close()
            return
        if self.silent:
            return
        there = await asyncio.open_connection("127.0.0.1", self.to)
        self._writers.append(there[1])
        await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if not self.silent:
                    writer.write(data)
        writer.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()


@asynccontextmanager
async def door_to(postgres: Postgres) -> AsyncIterator[tuple[Door, str]]:
    door = Door(postgres.port)
    server = await asyncio.start_server(door.come, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield door, postgres.fresh().replace(f":{postgres.port}/", f":{port}/")
    finally:
        server.close()
        door.cut()
        await asyncio.sleep(0)


async def ask(pool: Pool) -> Any:
    return await pool.call(lambda db: db.value("SELECT 1"))


async def test_one_task_reconnects_for_all_callers(postgres: Postgres) -> None:
    async with door_to(postgres) as (door, url), asyncio.timeout(20):
        door.open = False
        pool = Pool(PostgresUrl(url, ""))
        with pytest.raises(StoreUnavailable):
            await ask(pool)
        for _ in range(3):
            before = door.knocks
            answers = await asyncio.gather(*(ask(pool) for _ in range(30)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            assert door.knocks - before == 1
        await pool.close()


async def test_callers_are_served_once_the_server_is_back(postgres: Postgres) -> None:
    async with door_to(postgres) as (door, url), asyncio.timeout(20):
        door.open = False
        pool = Pool(PostgresUrl(url, ""))
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await ask(pool)
        door.open = True
        assert await asyncio.gather(*(ask(pool) for _ in range(30))) == [1] * 30
        await pool.close()


async def test_cancelled_caller_does_not_stop_the_reconnect(postgres: Postgres) -> None:
    async with door_to(postgres) as (door, url), asyncio.timeout(20):
        door.open = False
        pool = Pool(PostgresUrl(url, ""))
        with pytest.raises(StoreUnavailable):
            await ask(pool)
        door.open = True
        first, second = (asyncio.create_task(ask(pool)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 1
        await pool.close()


async def test_store_closed_while_the_server_is_away_raises_shutting_down(postgres: Postgres) -> None:
    async with door_to(postgres) as (door, url), asyncio.timeout(20):
        door.open = False
        pool = Pool(PostgresUrl(url, "jobs"))
        with pytest.raises(StoreUnavailable):
            await ask(pool)
        asking = asyncio.create_task(ask(pool))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(ShuttingDown):
            await asking


async def test_silent_server_fails_a_call_after_its_timeout(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.connector.CALL_SECONDS", 1.0)
    monkeypatch.setattr("mainspring.stores.postgres.connector.CONNECT_SECONDS", 1.0)
    async with door_to(postgres) as (door, url), asyncio.timeout(20):
        store = open_store(url)
        await store.open()
        await beat(store)
        door.silent = True
        for _ in range(2):  # in a connection that was made before, and in making one
            async with asyncio.timeout(1.8):
                with pytest.raises(StoreUnavailable, match="no answer in time"):
                    await beat(store)
        door.silent = False
        (job_id,) = await put(store, new_job())
        assert [job.id for job in await all_jobs(store)] == [job_id]
        await store.close()


async def test_transaction_on_a_silent_server_is_not_rolled_back(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.connector.CALL_SECONDS", 1.0)
    async with door_to(postgres) as (door, url):
        pool = Pool(PostgresUrl(url, ""))

        async def falls_silent(db: Session) -> None:
            door.silent = True
            await db.run("SELECT 1")

        async with asyncio.timeout(1.8):
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                await pool.transact(falls_silent)
        door.silent = False
        assert await ask(pool) == 1
        await pool.close()


@pytest.fixture
def narrow(postgres: Postgres) -> Iterator[str]:
    """The URL of a user who may have one connection."""
    postgres.run("CREATE ROLE narrow LOGIN CONNECTION LIMIT 1")
    postgres.run("GRANT CREATE ON DATABASE postgres TO narrow")
    yield postgres.own("narrow").replace("tests@", "narrow@")
    postgres.run("DROP OWNED BY narrow CASCADE")
    postgres.run("DROP ROLE narrow")


async def test_exhausted_connections_error_names_the_remedy(narrow: str) -> None:
    async with asyncio.timeout(20):
        store = open_store(narrow)
        other = await asyncpg.connect(PostgresUrl(narrow, "").dsn)
        with pytest.raises(StoreUnavailable, match="no connection left: raise max_connections"):
            await store.open()
        await other.close()
        while True:  # a server process is gone a moment after its connection
            with suppress(StoreUnavailable):
                await store.open()
                break
        assert await all_jobs(store) == []
        await store.close()


async def test_tcp_keepalive_is_set_on_connections(postgres: Postgres) -> None:
    pool = Pool(PostgresUrl(postgres.dsn, ""))
    connection = await pool.listener_connection()
    peer = connection._transport.get_extra_info("socket")
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    wanted = {
        "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MILLISECONDS,
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
    }
    known = {name: value for name, value in wanted.items() if hasattr(socket, name)}
    assert {name: peer.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in known} == known
    await connection.close()
    await pool.close()
