"""OutputStream: the output of a job as server-sent events, until the job has ended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send
from msgspec import Struct

from ..control.job_output import OutputReader
from ..errors import JobNotFound, MainspringError
from ..records.run import OutputChunk
from ..survived_errors import count_error
from .event_stream import BATCH_EVENTS, Streams
from .sse import CHECK_SECONDS, HEARTBEAT_SECONDS, MAX_STREAM_SECONDS, SseSender, event_block

_logger = logging.getLogger("mainspring")
# Between two looks whether the server stops.
STOP_CHECK_SECONDS = 1.0
Views = Callable[[Sequence[OutputChunk]], Awaitable[Sequence[Struct]]]


class OutputStream:
    """A response of server-sent events: chunks by number, `reset` or `resumed` before another run."""

    def __init__(
        self,
        streams: Streams,
        name: str,
        reader: OutputReader,
        run: int | None,
        views: Views,
        is_allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        """`run` wrote the last chunk that the client has; None if it has none. `views` redacts chunks."""
        self._streams = streams
        self._name = name
        self._reader = reader
        self._run = run
        self._views = views
        self._is_allowed = is_allowed
        self._clock = streams.app.clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.counted(self._name):
            sender = SseSender(send, self._clock, self._name, "output")
            await sender.run(self._send_output(scope, sender), receive)

    async def _send_output(self, scope: Scope, sender: SseSender) -> None:
        await sender.begin(self._reader.after)
        try:
            reason = await self._follow(scope, sender)
        except JobNotFound:
            reason = "deleted"
        except MainspringError as error:
            _logger.info("the stream of output of %s ends: %s", self._name, error)
            count_error("output_reader", error)
            reason = "trouble"
        await sender.close(reason)

    async def _follow(self, scope: Scope, sender: SseSender) -> str:
        """Sends chunks until the stream ends, and returns the reason."""
        now, reader = self._clock.monotonic, self._reader
        ends_at, beat_at, check_at = now() + MAX_STREAM_SECONDS, now() + HEARTBEAT_SECONDS, now() + CHECK_SECONDS
        while not reader.ended:
            if self._streams.is_stopping(scope):
                return "stopping"
            if now() >= ends_at:
                return "age"
            if now() >= check_at:
                if not await self._is_allowed():
                    return "revoked"
                check_at = now() + CHECK_SECONDS
            chunks = await reader.read(STOP_CHECK_SECONDS, limit=BATCH_EVENTS)
            if chunks:
                await sender.text(await self._blocks(chunks))
                beat_at = now() + HEARTBEAT_SECONDS
            elif now() >= beat_at:
                await sender.heartbeat(reader.after)
                beat_at = now() + HEARTBEAT_SECONDS
        return "ended"

    async def _blocks(self, chunks: Sequence[OutputChunk]) -> str:
        blocks: list[str] = []
        for chunk, view in zip(chunks, await self._views(chunks), strict=True):
            if self._run not in (None, chunk.run):
                blocks.append(event_block({"type": "resumed" if chunk.resumed else "reset", "run": chunk.run}))
            self._run = chunk.run
            blocks.append(f"id: {chunk.n}\nevent: chunk\ndata: {msgspec.json.encode(view).decode()}\n\n")
        return "".join(blocks)


class StreamResponse(Response[Any]):
    """An OutputStream as the response of a route that also has others."""

    def __init__(self, stream: OutputStream) -> None:
        super().__init__(None)
        self._stream = stream

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:
        return cast(ASGIResponse, self._stream)
