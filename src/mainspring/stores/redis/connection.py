"""One pipelined connection to a Redis server: replies come in the order of the commands."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from ssl import SSLCertVerificationError, SSLError
from typing import Any, cast

from hiredis import HiredisError, Reader, ReplyError, pack_command

from .url import ConnectTarget

Arg = str | bytes | int
Reply = Any
# Timeout of connecting, TLS handshake and login included.
CONNECT_SECONDS = 5.0
# Timeout of a reply: short enough that a heartbeat after one without a reply still extends the leases.
REPLY_SECONDS = 8.0
# Timeout of the TLS handshake alone: a server without TLS waits for the rest of what it takes for a command.
HANDSHAKE_SECONDS = 3.0

# Typed here because hiredis' own stub allows commands without arguments only.
pack: Callable[[tuple[Arg, ...]], bytes] = pack_command  # type: ignore[assignment]


class ConnectionLost(Exception):
    """The connection is lost. Commands without a reply may or may not have been run."""


class RedisConnection(asyncio.Protocol):
    """Sends commands without waiting for earlier replies. With `on_message`, every reply is passed to it."""

    def __init__(self, on_message: Callable[[Reply], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._pending: deque[tuple[int, asyncio.Future[list[Reply]]]] = deque()
        self._replies: list[Reply] = []
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._silent_since = 0.0
        self.lost: asyncio.Future[str] = self._loop.create_future()

    # sending

    def send(self, packed: bytes, count: int) -> asyncio.Future[list[Reply]]:
        """Replies to `count` commands, including errors. Cancelling the wait does not desynchronise the connection."""
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        if self._transport is None or self.lost.done():
            future.set_exception(ConnectionLost(self.lost.result() if self.lost.done() else "not connected"))
            return future
        if not self._pending:
            self._silent_since = self._loop.time()
        self._pending.append((count, future))
        if self._timer is None:
            self._timer = self._loop.call_later(REPLY_SECONDS, self._check_silence)
        self._transport.write(packed)
        return future

    def write(self, *args: Arg) -> None:
        """Sends a command whose reply is passed to `on_message`."""
        if self._transport is not None:
            self._transport.write(pack(args))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _check_silence(self) -> None:
        """One timer serves many commands: when it fires, it is set again for what is left of the newest wait."""
        self._timer = None
        if not self._pending:
            return
        left = self._silent_since + REPLY_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        else:
            self._end(f"no answer within {REPLY_SECONDS:g} s")

    # receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._receive(reply)
        except HiredisError as error:
            self._end(f"it does not speak the Redis protocol: {error}")

    def _receive(self, reply: Reply) -> None:
        if self._on_message is not None:
            self._on_message(reply)
            return
        if not self._pending:
            self._end(f"it sent a reply to no command: {reply}")
            return
        self._replies.append(reply)
        count, future = self._pending[0]
        if len(self._replies) < count:
            return
        self._pending.popleft()
        replies, self._replies = self._replies, []
        if not future.done():
            future.set_result(replies)
        if self._pending:
            self._silent_since = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_reason(exc) if exc else "the server closed the connection")

    def _end(self, reason: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._pending:
            _, future = self._pending.popleft()
            if not future.done():
                future.set_exception(ConnectionLost(reason))
                future.exception()  # marks it as retrieved: the caller may have stopped waiting


async def connect(target: ConnectTarget, on_message: Callable[[Reply], None] | None = None) -> RedisConnection:
    """A connection that is logged in to its database. Raises OSError, TimeoutError, ConnectionLost or ReplyError."""
    connection = RedisConnection()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _open_transport(target, connection)
            await _authenticate(target, connection)
    except BaseException:
        connection.close()
        raise
    connection._on_message = on_message
    return connection


async def _open_transport(target: ConnectTarget, connection: RedisConnection) -> None:
    loop, (host, port) = asyncio.get_running_loop(), target.address
    if target.socket:
        await loop.create_unix_connection(lambda: connection, target.socket)
        return
    wait = HANDSHAKE_SECONDS if target.tls else None
    try:
        await loop.create_connection(lambda: connection, host, port, ssl=target.tls, ssl_handshake_timeout=wait)
    except (SSLError, ConnectionResetError, ConnectionAbortedError) as error:
        if target.tls is None or isinstance(error, SSLCertVerificationError):
            raise
        reason = _reason(error)
        raise ConnectionLost(f"{reason} ({_CERTIFICATE_HINT if ' alert ' in reason else _NO_TLS_HINT})") from error


async def _authenticate(target: ConnectTarget, connection: RedisConnection) -> None:
    commands = _login_commands(target)
    try:
        replies = await connection.send(b"".join(map(pack, commands)), len(commands))
    except ConnectionLost as lost:
        # Some servers send the reason before they close the connection: too many clients, or protected mode.
        replies = [reply for reply in connection._replies if isinstance(reply, ReplyError)]
        if not replies:
            raise ConnectionLost(f"{lost}{_tls_hint(target)}") from lost
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise reply


_NO_TLS_HINT = "if it does not speak TLS, use redis://"
_CERTIFICATE_HINT = "if it asks for a certificate, name one that it trusts with ?cert=file&key=file"


def _tls_hint(target: ConnectTarget) -> str:
    """A likely reason for a connection closed without a reply. With TLS 1.3 our certificate is checked last."""
    if target.socket:
        return ""
    return f" ({_CERTIFICATE_HINT if target.tls else 'if it speaks TLS, use rediss://'})"


def _reason(error: Exception) -> str:
    """The error as text; OpenSSL's reason codes as words."""
    if isinstance(error, SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__


def _login_commands(target: ConnectTarget) -> Sequence[tuple[Arg, ...]]:
    commands: list[tuple[Arg, ...]] = [("CLIENT", "SETNAME", "mainspring")]
    if target.user:  # also without a password: else the commands would run as another user
        commands.insert(0, ("AUTH", target.user, target.password or ""))
    elif target.password is not None:
        commands.insert(0, ("AUTH", target.password))
    if target.db:
        commands.append(("SELECT", target.db))
    return commands
