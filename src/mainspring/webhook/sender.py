"""Sends one message to one URL, and nowhere else.

A client of our own over asyncio's streams: what makes it safe is what it does not do (look a name up twice, follow
redirects, ask the environment for proxies, read on), which is shorter to write than to take out of a large one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from socket import SOCK_STREAM

from msgspec import Struct

from ..errors import BadInput
from .address import Address, Allowance, WebhookTarget, checked, literal, target

# Seconds: for the connection to stand, for the whole exchange, and for some words on why the answer was no.
CONNECT, TOTAL, WORDS = 5.0, 20.0, 1.0
# Bytes of an answer that are read: its head, and the first of its body.
HEAD, BODY = 16_384, 2_048
# Addresses of one name that are tried, and answers that are none yet (100, 103).
TRIES, PROVISIONAL = 4, 5
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unsent(Exception):
    """Nobody has answered, or nobody was asked."""


class WebhookResponse(Struct, frozen=True):
    status: int
    retry_after: str | None = None
    words: str = ""
    """How its body begins, if it is not a yes."""


async def resolve(host: str, port: int) -> list[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


class Sender:
    def __init__(
        self, allowed: Allowance, *, resolve: Resolve = resolve, connect: float = CONNECT, total: float = TOTAL
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._connect = connect
        self._total = total
        self._trust: ssl.SSLContext | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """The answer, whatever it is; Unsent if there is none in time, or if the URL leads where it may not."""
        try:
            async with asyncio.timeout(self._total):
                to = target(url)
                async with self._connected(to) as (reader, writer):
                    writer.write(_request(to, headers, body))
                    with suppress(ConnectionError):  # who has heard enough may have answered all the same
                        await writer.drain()
                    return await _answer(reader)
        except BadInput as refused:
            raise Unsent(str(refused)) from None
        except TimeoutError:
            raise Unsent(f"no answer within {self._total:g} s") from None
        except EOFError:
            raise Unsent("the connection was closed before an answer") from None
        except asyncio.LimitOverrunError:
            raise Unsent(f"the head of the answer is longer than {HEAD:,} bytes") from None
        except (OSError, ValueError) as error:
            raise Unsent(f"{type(error).__name__}: {error}") from None

    @asynccontextmanager
    async def _connected(self, to: WebhookTarget) -> AsyncIterator[Streams]:
        reader, writer = await self._reach(to, await self._addresses(to))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # nothing is left to be said, nor to be heard

    async def _addresses(self, to: WebhookTarget) -> Sequence[Address]:
        """Asked for once, so that those which are checked are those which are used."""
        own = literal(to.host)
        try:
            found = [own] if own is not None else await self._resolve(to.host, to.port)
        except (OSError, UnicodeError) as error:
            raise Unsent(f"{to.host} is not found: {error}") from None
        if not found:
            raise Unsent(f"{to.host} has no address")
        checked(to, found, self._allowed)
        return found[:TRIES]

    async def _reach(self, to: WebhookTarget, addresses: Sequence[Address]) -> Streams:
        last: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(self._connect):
                    return await asyncio.open_connection(
                        str(address), to.port, limit=HEAD, ssl=self._trusted() if to.secure else None,
                        server_hostname=to.host if to.secure else None,
                    )  # fmt: skip
            except TimeoutError:
                last = Unsent(f"no connection to {to.host} within {self._connect:g} s")
            except OSError as error:
                last = Unsent(f"no connection to {to.host}: {error}")
        assert last is not None
        raise last

    def _trusted(self) -> ssl.SSLContext:
        """The machine's own authorities, read once."""
        self._trust = self._trust or ssl.create_default_context()
        return self._trust


def _request(to: WebhookTarget, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = {
        "host": to.authority, "content-type": "application/json", "content-length": str(len(body)),
        "user-agent": "mainspring-webhooks", "accept": "*/*", "connection": "close", **headers,
    }  # fmt: skip
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {to.path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


async def _answer(reader: asyncio.StreamReader) -> WebhookResponse:
    for _ in range(PROVISIONAL):
        head = await reader.readuntil(b"\r\n\r\n")
        found = _STATUS.match(head)
        if found is None:
            raise ValueError(f"not an answer in HTTP: {head[:80]!r}")
        status = int(found[1])
        if status >= 200:
            words = "" if status < 300 else await _words(reader)
            return WebhookResponse(status, _header(head, b"retry-after"), words)
    raise ValueError("no answer but provisional ones")


def _header(head: bytes, name: bytes) -> str | None:
    for line in head.split(b"\r\n")[1:]:
        before, _, value = line.partition(b":")
        if before.lower() == name:
            return value.strip().decode("latin-1")
    return None


async def _words(reader: asyncio.StreamReader) -> str:
    """As much of the body as comes at once: a receiver that dawdles is not waited for."""
    read = b""
    with suppress(TimeoutError, OSError, ValueError):
        async with asyncio.timeout(WORDS):
            while len(read) < BODY and (more := await reader.read(BODY - len(read))):
                read += more
    return read.decode("utf-8", "replace")
