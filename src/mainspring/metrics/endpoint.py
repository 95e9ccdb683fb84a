"""A very small HTTP server for a worker's metrics and health: GET, one answer a connection, everything bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from ..errors import BadSetting

_logger = logging.getLogger("mainspring")
# Gets the Accept header; returns status, content type and body.
Page = Callable[[str], Awaitable[tuple[int, str, bytes]]]
# Bytes of a request's head, seconds for it and for its answer, and connections at a time.
HEAD, PATIENCE, MOST = 16_384, 10.0, 32
TEXT = "text/plain; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Endpoint:
    """Serves pages by their paths."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._open = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[Endpoint]:
        """Until the block is left. Port 0 is a free one."""
        try:
            server = await asyncio.start_server(self._meet, host, port, limit=HEAD)
        except OSError as error:
            raise BadSetting(f"metrics cannot be served at {host}:{port}: {error.strerror or error}") from None
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    writer.write(await self._answer(reader))
                    await writer.drain()
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.partition("\r\n")[0].split(" ", 2)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return _response(400, TEXT, b"this is no request\n")
        if self._open > MOST:
            return _response(503, TEXT, b"too many connections\n")
        if method not in ("GET", "HEAD"):
            return _response(405, TEXT, b"GET only\n", "Allow: GET, HEAD\r\n")
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return _response(404, TEXT, ("there is " + ", ".join(self._pages) + "\n").encode())
        status, kind, body = await page(_accept(head))
        return _response(status, kind, body, alone=method == "HEAD")


def _accept(head: str) -> str:
    lines = (line.partition(":") for line in head.split("\r\n")[1:])
    return next((value.strip() for name, _, value in lines if name.strip().lower() == "accept"), "")


def _response(status: int, kind: str, body: bytes, more: str = "", *, alone: bool = False) -> bytes:
    """With `alone` the head only."""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    ).encode()
    return head if alone else head + body
