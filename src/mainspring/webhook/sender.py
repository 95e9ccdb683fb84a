"""Sender: posts one message to one URL, and to no other server.

A small HTTP client over asyncio streams. Its safety is in what it does not do: resolve a name twice, follow redirects,
use proxies from the environment, read without limit. That is shorter than to disable it in a large client.
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

# Time limit for the connection to one address.
CONNECT_SECONDS = 5.0
# Time limit for the whole exchange.
TOTAL_SECONDS = 20.0
# Time limit for the start of the body, which explains an error.
BODY_SECONDS = 1.0
# Length of a response's head.
MAX_HEAD_BYTES = 16_384
# Bytes of a response's body that are read.
MAX_BODY_BYTES = 2_048
# Addresses of one name that are tried.
MAX_ADDRESSES = 4
# Provisional responses (100, 103) before the final one.
MAX_PROVISIONAL_RESPONSES = 5
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SendFailed(Exception):
    """The request was not sent, or got no response."""


class WebhookResponse(Struct, frozen=True):
    """A receiver's response."""

    status: int
    retry_after: str | None = None
    body_start: str = ""
    """The start of the body, unless the status is 2xx."""


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, without duplicates."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


class Sender:
    """Posts messages to allowed addresses."""

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
        """Returns the response. Raises SendFailed if there is none in time, or if the URL is not allowed."""
        try:
            async with asyncio.timeout(self._total):
                to = parse_target(url)
                async with self._connected(to) as (reader, writer):
                    writer.write(_request(to, headers, body))
                    with suppress(ConnectionError):  # the receiver may have answered before it closed
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
            writer.transport.abort()  # nothing more is sent or received

    async def _addresses(self, to: WebhookTarget) -> Sequence[Address]:
        """The addresses to try. Resolved once, so that the checked addresses are the ones used."""
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
        """The TLS context with the system's certificate authorities, loaded once."""
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
            body_start = "" if status < 300 else await _read_body_start(reader)
            return WebhookResponse(status, _header(head, b"retry-after"), body_start)
    raise ValueError("no answer but provisional ones")


def _header(head: bytes, name: bytes) -> str | None:
    for line in head.split(b"\r\n")[1:]:
        before, _, value = line.partition(b":")
        if before.lower() == name:
            return value.strip().decode("latin-1")
    return None


async def _read_body_start(reader: asyncio.StreamReader) -> str:
    """The start of the body, as far as it arrives within BODY_SECONDS."""
    read = b""
    with suppress(TimeoutError, OSError, ValueError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(read) < MAX_BODY_BYTES and (more := await reader.read(MAX_BODY_BYTES - len(read))):
                read += more
    return read.decode("utf-8", "replace")
