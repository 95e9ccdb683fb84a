"""Limits of an HTTP connection: the size of a request's head, and the time for a request to arrive."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Of the request line and headers. The parser itself limits only the request line.
MAX_HEAD_BYTES = 64 << 10
# Seconds from the connection, or the first byte of a later request, until its headers are complete.
HEAD_SECONDS = 15.0
# Seconds from complete headers to a complete body: 8 MiB at 70 kB per second.
BODY_SECONDS = 120.0
# Seconds in which a client may finish sending a body after the response, so that it still reads the response.
LINGER_SECONDS = 5.0


class LimitedProtocol(HttpToolsProtocol):
    """A connection that closes with 400 if the head of a request is too long, complete or not, and with 408 if a
    request takes too long to arrive. So neither a silent connection nor an endless body stays open."""

    _complete = False
    """Whether the head of the request is complete."""
    _unfinished = 0
    """Bytes received since the request began, while its head is not complete."""
    _length = 0
    """Bytes of the headers so far."""
    _arriving = False
    """Whether a request has begun that is not complete."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_timeout(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timeout(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unfinished += len(data)
        super().data_received(data)
        if self._complete:
            self._unfinished = 0
        elif self._unfinished > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        self._length, self._unfinished, self._complete = 0, 0, False
        self._arriving = True
        self._set_timeout(HEAD_SECONDS)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._length += len(name) + len(value)
        if self._length > MAX_HEAD_BYTES:
            raise ValueError(_TOO_LONG)  # the parser handles it as invalid HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._complete = True
        self._set_timeout(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arriving = False
        self._set_timeout(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._arriving and self._complete and self.cycle.response_complete:
            self._set_timeout(LINGER_SECONDS)
        super().on_response_complete()

    def _set_timeout(self, seconds: float | None) -> None:
        """Replaces the timeout of the connection. None: no timeout."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the server is slow, not the client
            self._set_timeout(HEAD_SECONDS)
            return
        if self._arriving and self._is_unanswered():
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _is_unanswered(self) -> bool:
        """Whether the arriving request is the next to be answered, and no part of its response was sent."""
        if self._complete:
            return not self.pipeline and not self.cycle.response_started
        return self.cycle is None or self.cycle.response_complete


_TOO_LONG = f"The request line and headers have more than {MAX_HEAD_BYTES:,} bytes."
_SLOW_TEXT = b"The request took too long to arrive."
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_SLOW_TEXT), _SLOW_TEXT)
)
