"""Opens connections to a PostgreSQL server, directly or through a pooler in transaction mode, which it detects."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import asyncpg

Pooler = Literal["auto", "none", "transaction"]

# Timeout of opening a connection.
CONNECT_SECONDS = 5
# Timeout of one statement.
CALL_SECONDS = 35
# Settings that a pooler keeps for its client; all others are set in each transaction.
_POOLER_SETTINGS = ("application_name", "timezone")
# Settings without a meaning behind a pooler: there no plan outlives its statement.
_UNPOOLED_SETTINGS = ("plan_cache_mode",)
# TCP options that detect a peer that vanished. Data not acknowledged after this time ends the connection.
UNACKNOWLEDGED_MILLISECONDS = 15_000
# Idle time before the first keepalive probe.
KEEPALIVE_IDLE_SECONDS = 30
# Time between two probes.
KEEPALIVE_INTERVAL_SECONDS = 5
# Unanswered probes that end the connection.
KEEPALIVE_PROBES = 3


class PostgresConnector:
    """Opens connections; its first one detects a pooler, unless the URL says whether there is one."""

    def __init__(self, dsn: str, settings: Mapping[str, str], pooler: Pooler = "auto", *, bounded: bool = True) -> None:
        """With `bounded`, a statement without an answer fails after CALL_SECONDS."""
        self.dsn = dsn
        self.pooled: bool | None = None if pooler == "auto" else pooler == "transaction"
        """Whether there is a pooler; None before the first connection."""
        self._is_configured = pooler != "auto"
        self._settings = settings
        self._bounded = bounded

    @property
    def begin(self) -> str:
        """SQL that begins a transaction with our settings, in one message."""
        if not self.pooled:
            return "BEGIN"
        local = {
            name: value
            for name, value in self._settings.items()
            if name not in (*_POOLER_SETTINGS, *_UNPOOLED_SETTINGS)
        }
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in local.items())])

    async def connect(self) -> Any:
        """A new connection for the caller. Raises the driver's errors."""
        if not self.pooled:
            if connection := await self._connect_directly():
                return connection
            self.pooled = True
        settings = {name: value for name, value in self._settings.items() if name in _POOLER_SETTINGS}
        # No prepared statements: the next statement may run on another connection of the server.
        return await self._connect(settings, statement_cache_size=0)

    async def _connect_directly(self) -> Any:
        """A direct connection; None if there is a pooler, which refuses our settings or hides the server's process."""
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
    """Whether the server process that runs our statements is the one that accepted the connection. Without a prepared
    statement, since these do not work through a pooler."""
    answer: str = await connection.execute(f"SELECT WHERE pg_backend_pid() = {connection.get_server_pid()}")
    return answer == "SELECT 1"


def _socket_of(connection: Any) -> Any:
    found = getattr(connection, "_transport", None)
    return None if found is None else found.get_extra_info("socket")


def shut_socket(connection: Any) -> None:
    """Closes a connection whose event loop is gone, so that the server does not keep it until the object is freed."""
    with suppress(Exception):  # event loops differ in what they return as a socket
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
    """The TCP options that this system supports, with their values."""
    wanted = {
        "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MILLISECONDS,
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
    }
    return [(getattr(socket, name), value) for name, value in wanted.items() if hasattr(socket, name)]
