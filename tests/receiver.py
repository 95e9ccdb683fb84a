"""A server that receives webhooks, and answers as the test decides."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

YES = b"HTTP/1.1 204 No Content\r\n\r\n"


def says(status: int, *headers: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} So", f"content-length: {len(body.encode())}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@dataclass
class Message:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`answer` is what each message is answered with; a list is used up first."""

    port: int = 0
    answer: bytes = YES
    answers: list[bytes] = field(default_factory=list)
    holds: bool = False
    """Keeps the connection open after its answer, and says no more until it is released."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    messages: list[Message] = field(default_factory=list)
    knocks: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in?from=here"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.messages.append(Message(line, headers, body))
            writer.write(self.answers.pop(0) if self.answers else self.answer)
            await writer.drain()
            if self.holds:
                await self.released.wait()
        except (ConnectionError, EOFError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Listening on a free port of this machine until the block is left."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver._serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.close()
