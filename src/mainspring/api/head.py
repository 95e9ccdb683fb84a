"""The head of a request, its first line and headers: no longer than it may be."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes. The parser has a limit for the first line alone, and would take headers for ever.
LONGEST = 64 << 10


class Bounded(HttpToolsProtocol):
    """A connection on which a head that is too long is answered with 400, complete or not, and no more is read."""

    _complete = False
    _unfinished = 0
    """Bytes that came since, and did not complete it."""
    _length = 0
    """Of the headers so far."""

    def data_received(self, data: bytes) -> None:
        self._unfinished += len(data)
        super().data_received(data)
        if self._complete:
            self._unfinished = 0
        elif self._unfinished > LONGEST and not self.transport.is_closing():
            self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        self._length, self._unfinished, self._complete = 0, 0, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._length += len(name) + len(value)
        if self._length > LONGEST:
            raise ValueError(_TOO_LONG)  # as if it were no HTTP
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._complete = True
        super().on_headers_complete()


_TOO_LONG = f"The request line and headers have more than {LONGEST:,} bytes."
