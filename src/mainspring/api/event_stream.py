"""Streams of live events (SSE): their number is limited, and a reader that is too slow is disconnected."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from litestar.types import Receive, Scope, Send

from ..app import Mainspring
from ..errors import MainspringError
from ..feed.event import FeedFilter
from ..feed.hub import FeedHub, FeedReader, NumberedEvent, ReaderLagged
from ..mask import mask_text
from ..survived_errors import count_error
from .access.redaction import redact_event
from .problem import Problem
from .sse import CHECK_SECONDS, HEARTBEAT_SECONDS, MAX_STREAM_SECONDS, RECONNECT_MS, SseSender, event_block

_logger = logging.getLogger("mainspring")
# Open streams of one principal.
MAX_PRINCIPAL_STREAMS = 8
# Open streams of one process.
MAX_PROCESS_STREAMS = 500
# Events that are filtered and sent together. Between two batches other tasks of the event loop run.
BATCH_EVENTS = 100
# The key in an ASGI scope of a function that returns whether the server is stopping.
STOPPING = "mainspring.stopping"


class Streams:
    """The open event streams of one process."""

    def __init__(
        self,
        app: Mainspring,
        *,
        max_per_principal: int = MAX_PRINCIPAL_STREAMS,
        max_total: int = MAX_PROCESS_STREAMS,
    ) -> None:
        self.app = app
        self._max_per_principal, self._max_total = max_per_principal, max_total
        self._readers: Counter[str] = Counter()
        self._hub: FeedHub | None = None
        self._stopping: Callable[[], bool] = _foreign_server_stops

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Counts a stream of this principal. Raises Problem(429 or 503) if a limit is reached."""
        headers = {"Retry-After": str(RECONNECT_MS // 1000)}
        if self._readers[name] >= self._max_per_principal:
            text = f"{name} has {self._max_per_principal} open streams, which is the limit: close one"
            raise Problem(429, "too_many_streams", text, headers=headers)
        if self._readers.total() >= self._max_total:
            text = f"this server has {self._max_total} open streams, which is the limit: try again later"
            raise Problem(503, "streams_full", text, headers=headers)
        self._readers[name] += 1
        try:
            yield
        finally:
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]

    def is_stopping(self, scope: Scope) -> bool:
        """Whether the server that serves this request is stopping."""
        self._stopping = scope.get(STOPPING) or self._stopping  # type: ignore[assignment]
        return self._stopping()

    def hub(self, scope: Scope) -> FeedHub:
        """The hub that all streams of the process read from."""
        self._stopping = scope.get(STOPPING) or self._stopping  # type: ignore[assignment]
        if self._hub is None or not self._hub.open:
            app = self.app
            self._hub = FeedHub(
                app.connect, app.clock, app.herald, beat=app.settings.beat, leaving=lambda: self._stopping()
            )
        return self._hub


class EventStream:
    """A response of server-sent events, until the client disconnects or falls behind, or the server stops."""

    def __init__(
        self,
        streams: Streams,
        name: str,
        event_filter: FeedFilter,
        after: int | None,
        is_allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        self._streams = streams
        self._is_allowed = is_allowed
        self._clock = streams.app.clock
        self._name = name
        self._filter = event_filter
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._streams.hub(scope)
        with self._streams.counted(self._name):
            async with hub.reader(self._after) as reader:
                sender = SseSender(send, self._clock, self._name, "live events")
                await sender.run(self._send_events(reader, hub, sender), receive, hub.closed)

    async def _send_events(self, reader: FeedReader, hub: FeedHub, sender: SseSender) -> None:
        await sender.begin(reader.after)
        reason = "stopping"
        try:
            reason = await self._follow(reader, hub, sender) or reason
        except ReaderLagged:
            reason = "too_slow"
        except MainspringError as error:
            _logger.info("the stream of live events of %s ends: %s", self._name, error)
            count_error("feed_reader", error)
            reason = "trouble"
        await sender.close(reason)

    async def _follow(self, reader: FeedReader, hub: FeedHub, sender: SseSender) -> str | None:
        """Sends events until the stream ends. Returns the reason; None if the hub has closed."""
        now = self._clock.monotonic
        ends_at, beat_at, trouble = now() + MAX_STREAM_SECONDS, now() + HEARTBEAT_SECONDS, None
        check_at = now() + CHECK_SECONDS
        while hub.open:
            if now() >= ends_at:
                return "age"
            if now() >= check_at:
                if not await self._is_allowed():
                    return "revoked"
                check_at = now() + CHECK_SECONDS
            items = await reader.read(max(0.0, min(beat_at, ends_at, check_at) - now()))
            matched = False
            for n in range(0, len(items), BATCH_EVENTS):
                batch = [
                    _event_block(item) for item in items[n : n + BATCH_EVENTS] if self._filter.matches(item.notice)
                ]
                matched = matched or bool(batch)
                await (sender.text("".join(batch)) if batch else asyncio.sleep(0))
            if not matched and now() >= beat_at:
                await sender.heartbeat(reader.after)
            if reader.trouble != trouble:
                trouble = reader.trouble
                await sender.text(_feed_state_block(trouble))
            if matched or now() >= beat_at:
                beat_at = now() + HEARTBEAT_SECONDS
        return None


def _event_block(item: NumberedEvent) -> str:
    return f"id: {item.n}\nevent: {item.notice.type}\ndata: {redact_event(item.notice, item.text)}\n\n"


def _feed_state_block(trouble: str | None) -> str:
    """The event for a stalled feed, with the reason, or for a resumed one. Has no number: it is not repeated."""
    return event_block({"type": "resumed"} if trouble is None else {"type": "stalled", "reason": mask_text(trouble)})


def _foreign_server_stops() -> bool:
    """Whether another server, which handles this process's signals, is stopping.

    uvicorn reports that to applications only after every stream has ended, so its attribute is read.
    """
    servers: Iterable[object] = (
        getattr(signal.getsignal(number), "__self__", None) for number in (signal.SIGTERM, signal.SIGINT)
    )
    return any(getattr(server, "should_exit", False) is True for server in servers)
