"""Serves the API at an address of its own until it is told to stop."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from litestar.types import ASGIApp

from ..errors import BadSetting
from ..signals import on_stop

# How many connections may wait to be taken.
BACKLOG = 1024


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
        config = uvicorn.Config(
            app, lifespan="on", log_config=None, access_log=False, server_header=False, proxy_headers=False,
            ws="none", timeout_graceful_shutdown=max(1, round(grace)),
        )  # fmt: skip
        self._server = _Uvicorn(config)
        self._server.ready = ready

    async def run(self, listener: socket.socket) -> None:
        """Until SIGTERM, SIGINT or stop()."""
        with on_stop(self.stop):
            await self._server.serve([listener])

    def stop(self) -> None:
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    ready: Callable[[], object]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: its own way ends the process by the signal, as if it had not stopped well."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()
