"""A real server in this process, and readers of its live events."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from msgspec import Struct

from mainspring import Mainspring
from mainspring.api.server import Server, listen, url_of

# Real seconds that a test waits at most.
TIMEOUT_SECONDS = 30.0


class Told(Struct):
    """One block of a stream; the first one is a heartbeat, too."""

    id: int | None
    type: str
    data: dict[str, Any]


class Site:
    """A server with its own address, and the key of a viewer."""

    def __init__(self, listener: socket.socket, server: Server, key: str) -> None:
        self._server, self._stopped = server, False
        self.port: int = listener.getsockname()[1]
        self.headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.AsyncClient(
            base_url=f"{url_of(listener)}/api/v1", headers=self.headers, timeout=TIMEOUT_SECONDS
        )

    def stop(self) -> None:
        """Stops the server, only once: a second stop would not wait for open requests."""
        if not self._stopped:
            self._stopped = True
            self._server.stop()

    @asynccontextmanager
    async def events(self, *, last: int | None = None, **filters: Any) -> AsyncIterator[Stream]:
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        async with self.http.stream("GET", "/events", params=filters, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Stream(response)

    @asynccontextmanager
    async def output(self, id: str, *, last: int | None = None, **query: Any) -> AsyncIterator[Stream]:
        headers = {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": str(last)})
        async with self.http.stream("GET", f"/jobs/{id}/output", params=query, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Stream(response)


class Stream:
    """The blocks that a reader receives."""

    def __init__(self, response: httpx.Response) -> None:
        self.headers = response.headers
        self.last: int | None = None
        """The last event number, to reconnect with."""
        self._lines = response.aiter_lines()

    async def block(self) -> Told | None:
        """The next block; None if the stream has ended."""
        id, type, data, some = None, "", "", False
        async for line in self._lines:
            if not line and some:
                self.last = self.last if id is None else id
                return Told(id, type, json.loads(data) if data else {})
            some = True
            name, _, value = line.partition(": ")
            id = int(value) if name == "id" else id
            type = value if name == "event" else type
            data = value if name == "data" else data
        return None

    async def next(self, *types: str) -> Told:
        """The next event, of one of these types if some are given."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (told := await self.block()) is not None:
                if told.type not in ("", "heartbeat") and (not types or told.type in types):
                    return told
        raise AssertionError("the stream has ended")

    async def rest(self) -> list[Told]:
        """Reads until the stream ends."""
        found = []
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (told := await self.block()) is not None:
                found.append(told)
        return found


@asynccontextmanager
async def serving(app: Mainspring, *, buffer: int | None = None) -> AsyncIterator[Site]:
    """`buffer`: bytes that the system may keep for a client that does not read."""
    listener = listen("127.0.0.1", 0)
    if buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    up = asyncio.Event()
    server = Server(app.asgi(), grace=1000.0, ready=up.set)
    running = asyncio.ensure_future(server.run(listener))
    await up.wait()
    site = Site(listener, server, await app.keys.create("reader", "viewer"))
    try:
        yield site
    finally:
        await site.http.aclose()
        site.stop()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await running
