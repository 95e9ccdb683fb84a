"""The connection of a client: how long its request may be, and how long it may take to arrive."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes. The parser has a limit for the first line alone, and would take headers for ever.
LONGEST = 64 << 10
# Seconds from the connection, or the first byte of a later request, until its headers are complete.
HEAD_SECONDS = 15.0
# Seconds from then on until its body is: 8 MiB at 70 kB a second.
BODY_SECONDS = 120.0
# Seconds in which a client may finish a body after the answer, so that it does not miss the answer.
LINGER_SECONDS = 5.0


class Bounded(HttpToolsProtocol):
    """A connection on which a head that is too long is answered with 400, complete or not, and no more is read.

    One that is too slow is answered with 408. Neither a connection that stays silent nor a body without an end keeps
    its place.
    """

    _complete = False
    _unfinished = 0
    """Bytes that came since, and did not complete it."""
    _length = 0
    """Of the headers so far."""
    _arriving = False
    """Whether a request has begun whose last byte has not come."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allow(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._allow(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unfinished += len(data)
        super().data_received(data)
        if self._complete:
            self._unfinished = 0
        elif self._unfinished > LONGEST and not self.transport.is_closing():
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        self._length, self._unfinished, self._complete = 0, 0, False
        self._arriving = True
        self._allow(HEAD_SECONDS)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._length += len(name) + len(value)
        if self._length > LONGEST:
            raise ValueError(_TOO_LONG)  # as if it were no HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._complete = True
        self._allow(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arriving = False
        self._allow(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._arriving and self._complete and self.cycle.response_complete:
            self._allow(LINGER_SECONDS)
        super().on_response_complete()

    def _allow(self, seconds: float | None) -> None:
        """As long as this for what comes next; None: as long as it takes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # by this server, which is behind itself
            self._allow(HEAD_SECONDS)
            return
        if self._arriving and self._is_unanswered():
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _is_unanswered(self) -> bool:
        """Whether the request that arrives is the next to be answered, and nothing of its answer is sent."""
        if self._complete:
            return not self.pipeline and not self.cycle.response_started
        return self.cycle is None or self.cycle.response_complete


_TOO_LONG = f"The request line and headers have more than {LONGEST:,} bytes."
_SLOW_TEXT = b"The request took too long to arrive."
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_SLOW_TEXT), _SLOW_TEXT)
)
