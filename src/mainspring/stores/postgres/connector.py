"""The way to a PostgreSQL server: straight, or through a pooler that lends another connection to each transaction."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import asyncpg

Pooler = Literal["auto", "none", "transaction"]

CONNECT_SECONDS, CALL_SECONDS = 5, 35
# A pooler keeps these for its client; the rest is said anew in each transaction.
_POOLER_SETTINGS = ("application_name", "timezone")
# No plan outlives its statement there.
_UNPOOLED_SETTINGS = ("plan_cache_mode",)
# A peer that is gone without a word is found out: what was sent and not acknowledged after so long, in ms, ends the
# connection, and one that rests is asked after IDLE seconds, then every INTERVAL, COUNT times.
UNACKNOWLEDGED_MILLISECONDS, KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_PROBES = 15_000, 30, 5, 3


class PostgresConnector:
    """Finds out by its first connection whether there is a pooler, unless it was told."""

    def __init__(self, dsn: str, settings: Mapping[str, str], pooler: Pooler = "auto", *, bounded: bool = True) -> None:
        """`bounded`: a statement without an answer is given up."""
        self.dsn = dsn
        self.pooled: bool | None = None if pooler == "auto" else pooler == "transaction"
        """None: nobody has connected yet."""
        self._is_configured = pooler != "auto"
        self._settings = settings
        self._bounded = bounded

    @property
    def begin(self) -> str:
        """Begins a transaction with our settings, in one message."""
        if not self.pooled:
            return "BEGIN"
        local = {
            name: value
            for name, value in self._settings.items()
            if name not in (*_POOLER_SETTINGS, *_UNPOOLED_SETTINGS)
        }
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in local.items())])

    async def connect(self) -> Any:
        """A connection of the caller's own; raises what the driver does."""
        if not self.pooled:
            if connection := await self._connect_directly():
                return connection
            self.pooled = True
        kept = {name: value for name, value in self._settings.items() if name in _POOLER_SETTINGS}
        # Statements have no names then: the server's connection of the next one is another.
        return await self._connect(kept, statement_cache_size=0)

    async def _connect_directly(self) -> Any:
        """None: there is a pooler, which refuses our settings or hides the server's process."""
        try:
            connection = await self._connect(self._settings)
        except asyncpg.ProtocolViolationError as error:
            if not self._is_configured and "startup parameter" in str(error):
                return None
            raise
        if self.pooled is None:
            self.pooled = not await _reaches_own_backend(connection)
            if self.pooled:
                connection.terminate()
                return None
        return connection

    async def _connect(self, settings: Mapping[str, str], **options: Any) -> Any:
        bound = CALL_SECONDS if self._bounded else None
        connection = await asyncpg.connect(
            self.dsn, timeout=CONNECT_SECONDS, command_timeout=bound, server_settings=dict(settings), **options
        )
        _enable_keepalive(connection)
        return connection


async def _reaches_own_backend(connection: Any) -> bool:
    """Whether the process at the other end is the one that answered us. Asked without a prepared statement, of which a
    pooler would make a mess."""
    answer: str = await connection.execute(f"SELECT WHERE pg_backend_pid() = {connection.get_server_pid()}")
    return answer == "SELECT 1"


def _socket_of(connection: Any) -> Any:
    found = getattr(connection, "_transport", None)
    return None if found is None else found.get_extra_info("socket")


def shut_socket(connection: Any) -> None:
    """Without its event loop, which is gone: the server need not wait until the object is."""
    with suppress(Exception):  # what stands for a socket differs from loop to loop
        _socket_of(connection).shutdown(socket.SHUT_RDWR)


def _enable_keepalive(connection: Any) -> None:
    peer = _socket_of(connection)
    if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _keepalive_options():
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


def _keepalive_options() -> list[tuple[int, int]]:
    """Those of this system."""
    wanted = {
        "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MILLISECONDS,
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
    }
    return [(getattr(socket, name), value) for name, value in wanted.items() if hasattr(socket, name)]
