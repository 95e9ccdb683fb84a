"""Limits of a request's head and of the time in which a request has to arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainspring import Mainspring
from mainspring.api import request_limits as head_of_request
from mainspring.api.request_limits import MAX_HEAD_BYTES
from mainspring.api.server import Server, listen

START = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"


@asynccontextmanager
async def served(spring: Mainspring) -> AsyncIterator[int]:
    """A server; yields its port."""
    up, listener = asyncio.Event(), listen("127.0.0.1", 0)
    server = Server(spring.asgi(), grace=1, ready=up.set)
    serving = asyncio.create_task(server.run(listener))
    await up.wait()
    yield listener.getsockname()[1]
    server.stop()
    await serving


async def answered(spring: Mainspring, *parts: bytes) -> bytes:
    """The first line of the response; empty if the connection was closed before."""
    async with served(spring) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            async with asyncio.timeout(20):
                return await reader.readline()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize(
    "head",
    [
        START + b"X: " + b"a" * (MAX_HEAD_BYTES - 100) + b"\r\n\r\n",
        START + b"X: abcdefgh\r\n" * (MAX_HEAD_BYTES // 20) + b"\r\n",
        b"GET /health/live?" + b"a" * (MAX_HEAD_BYTES - 100) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1_000_000,
    ],
    ids=["one header", "many headers", "the first line", "a body is none"],
)
async def test_a_request_head_within_the_limit_is_accepted(spring: Mainspring, head: bytes) -> None:
    assert (await answered(spring, head)).split()[1] in (b"200", b"405")


@pytest.mark.parametrize(
    "head",
    [
        START + b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
        START + b"X: abcdefgh\r\n" * (MAX_HEAD_BYTES // 8) + b"\r\n",
        b"GET /health/live?" + b"a" * 2 * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["one header", "many headers", "the first line"],
)
async def test_a_request_head_over_the_limit_is_refused(spring: Mainspring, head: bytes) -> None:
    assert (await answered(spring, head)).split()[1:2] in ([b"400"], [])


@pytest.mark.parametrize("part", [b"a" * 1000, b"X: abcdefgh\r\n" * 80])
async def test_an_endless_request_head_is_refused(spring: Mainspring, part: bytes) -> None:
    begun = START + (b"X: " if part.startswith(b"a") else b"")
    assert (await answered(spring, begun, *[part] * 2000)).split()[1:2] in ([b"400"], [])


async def test_head_limits_apply_to_each_request_of_a_connection(spring: Mainspring) -> None:
    async with served(spring) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(START + b"X: " + b"a" * (MAX_HEAD_BYTES - 1000) + b"\r\n\r\n")
            async with asyncio.timeout(20):
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line.split()[1]) for line in head.splitlines() if line.startswith(b"content-length"))
                await reader.readexactly(length)
            assert head.startswith(b"HTTP/1.1 200")
        writer.write(START + b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n")
        async with asyncio.timeout(20):
            assert (await reader.read(12)) == b"HTTP/1.1 400"
        writer.close()


# slow clients


async def closed(spring: Mainspring, *parts: bytes, every: float = 0.0) -> bytes:
    """All bytes received until the server closes, while `parts` are sent repeatedly."""

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(parts[0])
        while parts[1:]:
            writer.write(parts[1])
            await writer.drain()
            await asyncio.sleep(every)

    async with served(spring) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sending = asyncio.ensure_future(send(writer))
        try:
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionError:
            return b"cut"
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(head_of_request, name, 0.5)


@pytest.mark.usefixtures("soon")
async def test_an_idle_connection_is_closed(spring: Mainspring) -> None:
    assert await closed(spring, b"") == b""


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("begun", [b"GET /hea", START, START + b"X: "])
async def test_a_slow_request_head_is_refused(spring: Mainspring, begun: bytes) -> None:
    assert (await closed(spring, begun, b"a", every=0.05)).startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 ", b"cut"))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("body", [b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
async def test_a_slow_request_body_is_refused(spring: Mainspring, body: bytes) -> None:
    begun = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\n" + body
    part = b"1\r\na\r\n" if b"chunked" in body else b"a"
    assert (await closed(spring, begun, part, every=0.05)).startswith((b"HTTP/1.1 408 ", b"cut"))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("path", [b"POST /api/v1/session", b"GET /health/live", b"POST /api/v1/jobs"])
async def test_an_endless_request_body_is_refused(spring: Mainspring, path: bytes) -> None:
    begun = path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await closed(spring, begun, b"10000\r\n" + b" " * 65_536 + b"\r\n")
    assert answer.split()[1:2] in ([b"413"], [b"200"], [b"401"], [])


@pytest.mark.usefixtures("soon")
async def test_an_event_stream_outlives_the_deadlines_of_its_request(spring: Mainspring) -> None:
    key = await spring.keys.create("v", "viewer")
    async with served(spring) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):  # after all deadlines of this test
            async with asyncio.timeout(1.2):
                await reader.read(-1)
        writer.close()


# log lines caused by anonymous callers


async def test_invalid_http_is_logged_once_a_minute(spring: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async with served(spring) as port:
        for _ in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01 is no HTTP\r\n\r\n")
            async with asyncio.timeout(20):
                assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()
    assert len([one for one in caplog.records if one.name == "uvicorn.error"]) <= 1
