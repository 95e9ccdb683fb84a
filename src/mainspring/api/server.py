"""The HTTP server of the API: listens on an address until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from litestar.types import ASGIApp, Receive, Scope, Send

from ..errors import BadSetting
from ..supervisor.signals import on_stop
from ..survived_errors import LOG_EVERY_SECONDS
from .event_stream import STOPPING
from .request_limits import LimitedProtocol

# Connections that wait to be accepted.
MAX_PENDING_CONNECTIONS = 1024
# A connection ends if the client acknowledges no data for this time.
TCP_USER_TIMEOUT_MS = 30_000
# After this time a stopping server aborts connections whose client does not read.
ABORT_AFTER_SECONDS = 3.0
# Different warnings whose time is recorded.
MAX_WARNINGS = 100


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 chooses a free port. Raises BadSetting if the address cannot be used."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise BadSetting(
            f"cannot listen on {host!r}: {error.strerror or error}; give an address of this machine"
        ) from None
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS)
        listener.bind(address)
    except OSError as error:
        listener.close()
        in_use = error.errno == errno.EADDRINUSE
        reason = "another program has it; choose one with --port" if in_use else error.strerror
        raise BadSetting(f"cannot listen on {host} port {port}: {reason}") from None
    listener.listen(MAX_PENDING_CONNECTIONS)
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server:
    """Serves an ASGI application. A stop waits up to `grace` seconds for requests under way; a second stop does not."""

    def __init__(self, app: ASGIApp, *, grace: float, ready: Callable[[], object] = lambda: None) -> None:
        async def with_stopping(scope: Scope, receive: Receive, send: Send) -> None:
            # uvicorn waits for event streams to end, so they have to know that it stops.
            scope[STOPPING] = lambda: self._server.should_exit  # type: ignore[literal-required]
            await app(scope, receive, send)

        config = uvicorn.Config(
            with_stopping,
            http=LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        logging.getLogger("uvicorn.error").addFilter(_rate_limited_warnings)
        self._server = _Uvicorn(config)
        self._server.ready = ready

    async def run(self, listener: socket.socket) -> None:
        """Serves until SIGTERM, SIGINT or stop()."""
        with on_stop(self.stop):
            await self._server.serve([listener])

    def stop(self) -> None:
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True


class _RateLimitedWarnings(logging.Filter):
    """A log filter that passes each warning of uvicorn once a minute: anyone can send invalid HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        if record.created - self._logged_at.get(str(record.msg), -LOG_EVERY_SECONDS) < LOG_EVERY_SECONDS:
            return False
        if len(self._logged_at) >= MAX_WARNINGS:
            self._logged_at.clear()
        self._logged_at[str(record.msg)] = record.created
        return True


_rate_limited_warnings = _RateLimitedWarnings()


class _Uvicorn(uvicorn.Server):
    ready: Callable[[], object]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: Server handles signals. uvicorn's handler would end the process by the signal, as if it had not
        stopped cleanly."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(ABORT_AFTER_SECONDS, self._abort_closing)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _abort_closing(self) -> None:
        """Aborts connections whose last response was sent but is not read."""
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and transport.is_closing():
                transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()
