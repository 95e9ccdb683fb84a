"""A TCP proxy in its own thread, between a server and its clients, with faults that a test can turn on."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Literal

Mood = Literal["fair", "deaf", "dumb", "swallow", "torn"]
"""Fair: what is said is passed on. Deaf: it is not, and nobody is told. Dumb: questions are, answers not, and nobody
is told. Swallow: an answer is not, and the connection is cut. Torn: it is cut in the middle of an answer."""

CHUNK = 1 << 16
# The message in which PostgreSQL sends a client the number of the process that serves it.
_KEY, _MASKED = re.compile(rb"K\0\0\0\x0c....", re.DOTALL), b"K\0\0\0\x0c\0\0\0\x01"


class Link:
    """One connection and its other half."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self.vanished = False

    async def ask(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            await self._passable("deaf")
            self._server.write(data)

    async def answer(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            await self._passable("deaf", "dumb")
            data = _KEY.sub(_MASKED, data) if self._proxy.masks else data
            match self._proxy.strikes():
                case "swallow":
                    return
                case "torn":
                    self._client.write(data[: self._proxy.chance.randrange(len(data))])
                    return
                case _:
                    self._client.write(data)

    async def _passable(self, *moods: Mood) -> None:
        """A connection that was stopped does not continue, as if the other end had vanished."""
        if self._proxy.mood in moods:
            self.vanished = True
            await self._proxy.over.wait()

    def cut(self) -> None:
        for writer in (self._client, self._server):
            writer.transport.abort()


class Proxy:
    """Passes everything on until its mood changes. It breaks some answers, by `rate`; deaf or dumb, it stops all."""

    def __init__(self, port: int, *, seed: int = 20300101, rate: float = 0.05) -> None:
        self.mood: Mood = "fair"
        self.masks = False
        """Whether it gives the server's processes other numbers, as poolers do."""
        self.chance, self.struck = random.Random(seed), 0
        self._target, self._rate = port, rate
        self.over = asyncio.Event()
        self._links: set[Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server = self._wait(asyncio.start_server(self._serve, sock=self._bound()))
        self.port = int(self._server.sockets[0].getsockname()[1])

    def _bound(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))

    def _wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, writer, server)
        self._links.add(link)
        halves = [asyncio.ensure_future(link.ask(reader)), asyncio.ensure_future(link.answer(answers))]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
            if link.vanished:  # no side notices that the other end is gone
                await self.over.wait()
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            link.cut()
            self._links.discard(link)

    # for tests

    def strikes(self) -> Mood:
        """The fault for the next answer."""
        if self.mood not in ("swallow", "torn") or self.chance.random() >= self._rate:
            return "fair"
        self.struck += 1
        return self.mood

    @property
    def caught(self) -> bool:
        """Whether data was stopped on its way."""
        return any(link.vanished for link in list(self._links))

    def between(self, url: str, port: int) -> str:
        """The URL of the server at `port`, by way of this proxy."""
        return url.replace(f":{port}/", f":{self.port}/")

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            self.over.set()
            for link in self._links:
                link.cut()
            while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(tasks)

        self._wait(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
