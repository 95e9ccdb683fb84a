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
from .address import Address, AllowList, WebhookTarget, check_addresses, ip_literal, parse_target

# Seconds: for the connection to stand, for the whole exchange, and for some words on why the answer was no.
CONNECT_SECONDS, TOTAL_SECONDS, BODY_SECONDS = 5.0, 20.0, 1.0
# Bytes of an answer that are read: its head, and the first of its body.
MAX_HEAD_BYTES, MAX_BODY_BYTES = 16_384, 2_048
# Addresses of one name that are tried, and answers that are none yet (100, 103).
MAX_ADDRESSES, MAX_PROVISIONAL_RESPONSES = 4, 5
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SendFailed(Exception):
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
        self,
        allowed: AllowList,
        *,
        resolve: Resolve = resolve,
        connect: float = CONNECT_SECONDS,
        total: float = TOTAL_SECONDS,
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
                to = parse_target(url)
                async with self._connected(to) as (reader, writer):
                    writer.write(_request(to, headers, body))
                    with suppress(ConnectionError):  # who has heard enough may have answered all the same
                        await writer.drain()
                    return await _read_response(reader)
        except BadInput as refused:
            raise SendFailed(str(refused)) from None
        except TimeoutError:
            raise SendFailed(f"no answer within {self._total:g} s") from None
        except EOFError:
            raise SendFailed("the connection was closed before an answer") from None
        except asyncio.LimitOverrunError:
            raise SendFailed(f"the head of the answer is longer than {MAX_HEAD_BYTES:,} bytes") from None
        except (OSError, ValueError) as error:
            raise SendFailed(f"{type(error).__name__}: {error}") from None

    @asynccontextmanager
    async def _connected(self, to: WebhookTarget) -> AsyncIterator[Streams]:
        reader, writer = await self._reach(to, await self._addresses(to))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # nothing is left to be said, nor to be heard

    async def _addresses(self, to: WebhookTarget) -> Sequence[Address]:
        """Asked for once, so that those which are checked are those which are used."""
        own = ip_literal(to.host)
        try:
            found = [own] if own is not None else await self._resolve(to.host, to.port)
        except (OSError, UnicodeError) as error:
            raise SendFailed(f"{to.host} is not found: {error}") from None
        if not found:
            raise SendFailed(f"{to.host} has no address")
        check_addresses(to, found, self._allowed)
        return found[:MAX_ADDRESSES]

    async def _reach(self, to: WebhookTarget, addresses: Sequence[Address]) -> Streams:
        last: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(self._connect):
                    return await asyncio.open_connection(
                        str(address),
                        to.port,
                        limit=MAX_HEAD_BYTES,
                        ssl=self._trusted() if to.secure else None,
                        server_hostname=to.host if to.secure else None,
                    )
            except TimeoutError:
                last = SendFailed(f"no connection to {to.host} within {self._connect:g} s")
            except OSError as error:
                last = SendFailed(f"no connection to {to.host}: {error}")
        assert last is not None
        raise last

    def _trusted(self) -> ssl.SSLContext:
        """The machine's own authorities, read once."""
        self._trust = self._trust or ssl.create_default_context()
        return self._trust


def _request(to: WebhookTarget, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = {
        "host": to.authority,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "user-agent": "mainspring-webhooks",
        "accept": "*/*",
        "connection": "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {to.path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


async def _read_response(reader: asyncio.StreamReader) -> WebhookResponse:
    for _ in range(MAX_PROVISIONAL_RESPONSES):
        head = await reader.readuntil(b"\r\n\r\n")
        found = _STATUS.match(head)
        if found is None:
            raise ValueError(f"not an answer in HTTP: {head[:80]!r}")
        status = int(found[1])
        if status >= 200:
            words = "" if status < 300 else await _read_body_start(reader)
            return WebhookResponse(status, _header(head, b"retry-after"), words)
    raise ValueError("no answer but provisional ones")


def _header(head: bytes, name: bytes) -> str | None:
    for line in head.split(b"\r\n")[1:]:
        before, _, value = line.partition(b":")
        if before.lower() == name:
            return value.strip().decode("latin-1")
    return None


async def _read_body_start(reader: asyncio.StreamReader) -> str:
    """As much of the body as comes at once: a receiver that dawdles is not waited for."""
    read = b""
    with suppress(TimeoutError, OSError, ValueError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(read) < MAX_BODY_BYTES and (more := await reader.read(MAX_BODY_BYTES - len(read))):
                read += more
    return read.decode("utf-8", "replace")
