"""Live events on their way to one reader, who is cut off if he is too slow; and how many may read at once."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from litestar.types import Receive, Scope, Send

from ..app import Mainspring
from ..errors import MainspringError
from ..feed.event import FeedFilter
from ..feed.hub import FeedHub, Item, Reader, ReaderLagged
from ..mask import mask_text
from ..survived_errors import count_error
from .access.redaction import shown_notice
from .problem import Problem

_logger = logging.getLogger("mainspring")
# Streams of one principal, and of one process.
EACH, MOST = 8, 500
# Seconds without a word after which a heartbeat shows that somebody is there, and proxies keep the connection.
HEARTBEAT = 15.0
# Seconds in which a reader must have taken what was sent.
SLOW = 10.0
# Real seconds for the last word of a server that stops.
LAST = 1.0
# Seconds after which a stream ends, so that its reader signs in again.
LIFE = 900.0
# Seconds between two looks whether its reader may still read.
CHECK_SECONDS = 5.0
# Milliseconds after which a client comes back.
RETRY = 2000
# Events looked at and sent together: between two such lots the reader must keep up, and others have their turn.
LOT = 100
# Under this name a server puts into the scope what says whether it has been told to stop.
STOPPING = "mainspring.stopping"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Streams:
    """Those of one process."""

    def __init__(self, app: Mainspring, *, each: int = EACH, most: int = MOST) -> None:
        self.app = app
        self._each, self._most = each, most
        self._readers: Counter[str] = Counter()
        self._stand: FeedHub | None = None
        self._stopping: Callable[[], bool] = _foreign_server_stops

    @contextmanager
    def seat(self, name: str) -> Iterator[None]:
        """One of those this principal may have."""
        if self._readers[name] >= self._each:
            raise Problem(
                429, "too_many_streams", f"{name} has {self._each} streams open, which is all it may: close one",
                headers={"Retry-After": str(RETRY // 1000)},
            )  # fmt: skip
        if self._readers.total() >= self._most:
            raise Problem(
                503, "streams_full", f"{self._most} streams are open here, which is all there are: try again later",
                headers={"Retry-After": str(RETRY // 1000)},
            )  # fmt: skip
        self._readers[name] += 1
        try:
            yield
        finally:
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]

    def stand(self, scope: Scope) -> FeedHub:
        self._stopping = scope.get(STOPPING) or self._stopping  # type: ignore[assignment]
        if self._stand is None or not self._stand.open:
            app = self.app
            self._stand = FeedHub(
                app.opened, app.clock, app.herald, beat=app.settings.beat, leaving=lambda: self._stopping()
            )  # fmt: skip
        return self._stand


class EventStream:
    """Answers with server-sent events until the client goes, falls behind, or the server stops."""

    def __init__(
        self,
        streams: Streams,
        name: str,
        wish: FeedFilter,
        after: int | None,
        is_allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        self._streams = streams
        self._is_allowed = is_allowed
        self._clock = streams.app.clock
        self._name = name
        self._wish = wish
        self._after = after
        self._cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stand = self._streams.stand(scope)
        with self._streams.seat(self._name):
            async with stand.reader(self._after) as reader:
                telling = asyncio.ensure_future(self._tell(reader, stand, send))
                ends = [telling, asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(stand.closed.wait())]
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    if not stand.open:  # there is time for a last word, if the reader listens
                        await asyncio.wait(ends[:2], timeout=LAST, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in ends:
                        task.cancel()
                    await asyncio.wait(ends)
        if self._cut:
            _logger.info("%s takes no live events any more: cut off after %g s", self._name, SLOW)
        if not telling.cancelled():
            telling.result()

    async def _tell(self, reader: Reader, stand: FeedHub, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        # The number comes first: who is cut off before the first event goes on from here.
        await self._say(send, f"retry: {RETRY}\nid: {reader.after}\n: mainspring\n{_heartbeat()}")
        reason = "stopping"
        try:
            reason = await self._follow(reader, stand, send) or reason
        except ReaderLagged:
            reason = "too_slow"
        except MainspringError as error:
            _logger.info("%s is sent away from the live events: %s", self._name, error)
            count_error("feed_reader", error)
            reason = "trouble"
        await self._say(send, f"event: closing\ndata: {json.dumps({'type': 'closing', 'reason': reason})}\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, reader: Reader, stand: FeedHub, send: Send) -> str | None:
        """Until it is over; why, if not because the stand has closed."""
        now = self._clock.monotonic
        ends_at, beat_at, trouble = now() + LIFE, now() + HEARTBEAT, None
        check_at = now() + CHECK_SECONDS
        while stand.open:
            if now() >= ends_at:
                return "age"
            if now() >= check_at:
                if not await self._is_allowed():
                    return "revoked"
                check_at = now() + CHECK_SECONDS
            items = await reader.read(max(0.0, min(beat_at, ends_at, check_at) - now()))
            wanted = False
            for n in range(0, len(items), LOT):
                lot = [_block(item) for item in items[n : n + LOT] if self._wish.met(item.notice)]
                wanted = wanted or bool(lot)
                await (self._say(send, "".join(lot)) if lot else asyncio.sleep(0))
            if not wanted and now() >= beat_at:
                await self._say(send, f"id: {reader.after}\n: {self._clock.now().isoformat()}\n{_heartbeat()}")
            if reader.trouble != trouble:
                trouble = reader.trouble
                await self._say(send, _state(trouble))
            if wanted or now() >= beat_at:
                beat_at = now() + HEARTBEAT
        return None

    async def _say(self, send: Send, text: str) -> None:
        """A reader that does not take it is cut off: this task is cancelled, and the connection closed."""
        task = asyncio.current_task()
        assert task is not None

        def cut() -> None:
            self._cut = True
            task.cancel()

        timer = self._clock.call_later(SLOW, cut)
        try:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        finally:
            timer.cancel()


def _heartbeat() -> str:
    """An event, since EventSource hides comments from pages. It says how soon the next one follows."""
    return f"event: heartbeat\ndata: {json.dumps({'type': 'heartbeat', 'seconds': HEARTBEAT})}\n\n"


def _block(item: Item) -> str:
    return f"id: {item.n}\nevent: {item.notice.type}\ndata: {shown_notice(item.notice, item.text)}\n\n"


def _state(trouble: str | None) -> str:
    """Tells a client that the feed stands still, and why, or that it goes on. Has no number: it is not repeated."""
    data = {"type": "resumed"} if trouble is None else {"type": "stalled", "reason": mask_text(trouble)}
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


async def _gone(receive: Receive) -> None:
    """Until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _foreign_server_stops() -> bool:
    """Whether a server that is not ours, and has the signals of this process, was told to stop.

    uvicorn says so to nobody before it has waited for every stream to end.
    """
    servers: Iterable[object] = (
        getattr(signal.getsignal(number), "__self__", None) for number in (signal.SIGTERM, signal.SIGINT)
    )
    return any(getattr(server, "should_exit", False) is True for server in servers)
