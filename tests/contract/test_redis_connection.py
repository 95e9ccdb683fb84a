"""A connection to Redis is lost when a reply does not come in time, or belongs to no command."""

import asyncio

import pytest

from mainspring.errors import StoreUnavailable
from mainspring.stores import open_store
from mainspring.stores.redis import connection
from mainspring.stores.redis.url import RedisUrl
from mainspring.testing.contract.build import new_job, put
from servers import Redis


async def test_a_connection_without_a_reply_in_time_is_lost(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REPLY_SECONDS", 2.0)  # before it opens: the timer is set with its first command
    store = open_store(redis.fresh())
    await store.open()
    redis.run("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        with pytest.raises(StoreUnavailable, match="no answer within 2 s; try again"):
            await put(store, new_job())
    finally:
        redis.run("CLIENT", "UNPAUSE")
    assert len(await put(store, new_job())) == 1
    await store.close()


async def test_a_connection_with_an_unexpected_reply_is_lost() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"+OK\r\n")
        await reader.readuntil(b"mainspring\r\n")
        writer.write(b"+what nobody asked\r\n")
        writer.close()  # newer Pythons wait for it when the server closes

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, asyncio.timeout(30):
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        opened = await connection.connect(RedisUrl(url, url).server())
        assert await opened.lost == "it sent a reply to no command: b'what nobody asked'"
        with pytest.raises(connection.ConnectionLost):
            await opened.send(connection.pack(("PING",)), 1)
