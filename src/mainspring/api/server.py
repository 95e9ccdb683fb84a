"""Serves the API at an address of its own until it is told to stop."""

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
from .request_limits import Bounded
from .stream import STOPPING

# How many connections may wait to be taken.
BACKLOG = 1024
# Milliseconds after which a connection ends whose other side takes nothing of what it was sent.
STALLED = 30_000
# Seconds after which a server that stops waits no more for those who do so.
HANG_UP = 3.0
# Kinds of warnings that are remembered.
MAX_WARNINGS = 100


def listen(host: str, port: int) -> socket.socket:
    """Bound and listening; port 0 is any that is free."""
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
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED)
        listener.bind(address)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        way_out = "another program has it; choose one with --port" if taken else error.strerror
        raise BadSetting(f"cannot listen on {host} port {port}: {way_out}") from None
    listener.listen(BACKLOG)
    return listener


def address(listener: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server:
    """Stops gracefully: what has begun is answered, within `grace` seconds; a second stop does not wait."""

    def __init__(self, app: ASGIApp, *, grace: float, ready: Callable[[], object] = lambda: None) -> None:
        async def told(scope: Scope, receive: Receive, send: Send) -> None:
            # It waits for streams to end, so they must know.
            scope[STOPPING] = lambda: self._server.should_exit  # type: ignore[literal-required]
            await app(scope, receive, send)

        config = uvicorn.Config(
            told, http=Bounded, ws="none", lifespan="on", log_config=None, log_level="warning", access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=max(1, round(grace)),
        )  # fmt: skip
        logging.getLogger("uvicorn.error").addFilter(_seldom)
        self._server = _Uvicorn(config)
        self._server.ready = ready

    async def run(self, listener: socket.socket) -> None:
        """Until SIGTERM, SIGINT or stop()."""
        with on_stop(self.stop):
            await self._server.serve([listener])

    def stop(self) -> None:
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True


class _Seldom(logging.Filter):
    """A warning of the server is logged once a minute: anyone may send what is no HTTP, as often as they like."""

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


_seldom = _Seldom()


class _Uvicorn(uvicorn.Server):
    ready: Callable[[], object]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: its own way ends the process by the signal, as if it had not stopped well."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(HANG_UP, self._hang_up)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        """On those who were told everything, and do not take it."""
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and transport.is_closing():
                transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()
