"""Server-sent events: sends blocks to one reader, until it disconnects or is too slow."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from typing import Any

from litestar.types import Receive, Send

from ..clock import Clock

_logger = logging.getLogger("mainspring")
# After this time without an event a heartbeat is sent, so that clients and proxies keep the connection.
HEARTBEAT_SECONDS = 15.0
# A reader that does not take what was sent within this time is disconnected.
SEND_TIMEOUT_SECONDS = 10.0
# Real seconds in which a stopping server sends its closing event.
CLOSING_SECONDS = 1.0
# A stream ends after this time, so that its reader has to authenticate again.
MAX_STREAM_SECONDS = 900.0
# Between two checks whether the caller is still allowed to read.
CHECK_SECONDS = 5.0
# After which a client reconnects.
RECONNECT_MS = 2000
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class SseSender:
    """Sends to one reader."""

    def __init__(self, send: Send, clock: Clock, name: str, what: str) -> None:
        """`name` is the reader's, and `what` it reads, for the log."""
        self._send = send
        self._clock = clock
        self._name = name
        self._what = what
        self.cut = False
        """Whether the reader was too slow."""

    async def begin(self, last: int) -> None:
        """Begins the response. `last` comes first: a client that is disconnected early continues from that number."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.text(f"retry: {RECONNECT_MS}\nid: {last}\n: mainspring\n{_heartbeat_block()}")

    async def text(self, text: str) -> None:
        """Sends a text. If the reader does not take it in time, this task is cancelled and the connection closed."""
        task = asyncio.current_task()
        assert task is not None

        def cut() -> None:
            self.cut = True
            task.cancel()

        timer = self._clock.call_later(SEND_TIMEOUT_SECONDS, cut)
        try:
            await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        finally:
            timer.cancel()

    async def heartbeat(self, last: int) -> None:
        await self.text(f"id: {last}\n: {self._clock.now().isoformat()}\n{_heartbeat_block()}")

    async def close(self, reason: str) -> None:
        """The last event, which says why the stream ends."""
        await self.text(event_block({"type": "closing", "reason": reason}))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def run(self, sending: Awaitable[None], receive: Receive, closed: asyncio.Event | None = None) -> None:
        """Awaits `sending` until the reader disconnects. If `closed` is set, it has time for its last event."""
        task = asyncio.ensure_future(sending)
        tasks: list[asyncio.Future[Any]] = [task, asyncio.ensure_future(_until_disconnected(receive))]
        if closed is not None:
            tasks.append(asyncio.ensure_future(closed.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if closed is not None and closed.is_set():
                await asyncio.wait(tasks[:2], timeout=CLOSING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.wait(tasks)
        if self.cut:
            _logger.info("%s reads no %s: disconnected after %g s", self._name, self._what, SEND_TIMEOUT_SECONDS)
        if not task.cancelled():
            task.result()


def event_block(data: dict[str, Any]) -> str:
    """An event without a number, which is not repeated."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def _heartbeat_block() -> str:
    """The heartbeat: an event, since EventSource hides comments from pages. Has the time until the next one."""
    return event_block({"type": "heartbeat", "seconds": HEARTBEAT_SECONDS})


async def _until_disconnected(receive: Receive) -> None:
    """Returns when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
