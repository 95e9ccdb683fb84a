"""A minimal HTTP server for a worker's metrics and health: GET, one response per connection, everything bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from ..errors import BadSetting

_logger = logging.getLogger("mainspring")
# Called with the Accept header; returns status, content type and body.
PageHandler = Callable[[str], Awaitable[tuple[int, str, bytes]]]
MAX_HEAD_BYTES = 16_384
REQUEST_TIMEOUT_SECONDS = 10.0
MAX_CONNECTIONS = 32
TEXT = "text/plain; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Endpoint:
    """Serves pages by their paths."""

    def __init__(self, pages: Mapping[str, PageHandler]) -> None:
        self._pages = pages
        self._open = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[Endpoint]:
        """Serves inside the block. Port 0 picks a free one."""
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            raise BadSetting(f"metrics cannot be served at {host}:{port}: {error.strerror or error}") from None
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                    writer.write(await self._respond(reader))
                    await writer.drain()
        finally:
            self._open -= 1
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.partition("\r\n")[0].split(" ", 2)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return _response(400, TEXT, b"this is not an HTTP request\n")
        if self._open > MAX_CONNECTIONS:
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
    """The response as bytes; with `alone` only its head."""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    ).encode()
    return head if alone else head + body
