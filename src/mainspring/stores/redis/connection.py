"""One connection to a Redis server: what is asked is answered in order, and nothing that was asked is taken back."""

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
# Seconds for a connection and for an answer: a beat that nobody answers has to be given up in time for the next one to
# save the lease.
CONNECT_SECONDS, REPLY_SECONDS = 5.0, 8.0
# Of which so many for TLS: a server that does not speak it waits for the rest of what it takes for a command.
HANDSHAKE_SECONDS = 3.0

# Its own stub says that a command has one word.
pack: Callable[[tuple[Arg, ...]], bytes] = pack_command  # type: ignore[assignment]


class Lost(Exception):
    """The connection is gone, and nobody knows what became of what was asked."""


class RedisConnection(asyncio.Protocol):
    """Commands may be asked while others wait for their answers. `heard` gets what comes without having been asked."""

    def __init__(self, on_message: Callable[[Reply], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._pending: deque[tuple[int, asyncio.Future[list[Reply]]]] = deque()
        self._replies: list[Reply] = []
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()

    # asking

    def send(self, packed: bytes, count: int) -> asyncio.Future[list[Reply]]:
        """The answers to so many commands, errors among them. To wait for it no longer cuts nothing in two."""
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        if self._transport is None or self.lost.done():
            future.set_exception(Lost(self.lost.result() if self.lost.done() else "not connected"))
            return future
        self._pending.append((count, future))
        if self._timer is None:
            self._timer = self._loop.call_later(REPLY_SECONDS, self._time_out)
        self._transport.write(packed)
        return future

    def write(self, *words: Arg) -> None:
        """What is answered to whoever listens."""
        if self._transport is not None:
            self._transport.write(pack(words))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _time_out(self) -> None:
        self._end(f"no answer within {REPLY_SECONDS:g} s")

    # hearing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._receive(reply)
        except HiredisError as error:
            self._end(f"it does not speak as Redis does: {error}")

    def _receive(self, reply: Reply) -> None:
        if self._on_message is not None:
            self._on_message(reply)
            return
        if not self._pending:
            self._end(f"it spoke without having been asked: {reply}")
            return
        self._replies.append(reply)
        count, future = self._pending[0]
        if len(self._replies) < count:
            return
        self._pending.popleft()
        replies, self._replies = self._replies, []
        if not future.done():
            future.set_result(replies)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(REPLY_SECONDS, self._time_out) if self._pending else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_reason(exc) if exc else "the server has hung up")

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
                future.set_exception(Lost(reason))
                future.exception()  # somebody may wait no longer, and need not be told


async def connect(target: ConnectTarget, on_message: Callable[[Reply], None] | None = None) -> RedisConnection:
    """A line whose server knows who asks, and for which database. Raises OSError, TimeoutError, Lost or ReplyError."""
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
        raise Lost(f"{reason} ({_CERTIFICATE_HINT if ' alert ' in reason else _NO_TLS_HINT})") from error


async def _authenticate(target: ConnectTarget, connection: RedisConnection) -> None:
    commands = _login_commands(target)
    try:
        replies = await connection.send(b"".join(map(pack, commands)), len(commands))
    except Lost as lost:
        # Some say why they hang up before anything was asked: that they are full, or answer to nobody from outside.
        replies = [reply for reply in connection._replies if isinstance(reply, ReplyError)]
        if not replies:
            raise Lost(f"{lost}{_tls_hint(target)}") from lost
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise reply


_NO_TLS_HINT = "if it does not speak TLS, use redis://"
_CERTIFICATE_HINT = "if it asks for a certificate, name one that it trusts with ?cert=file&key=file"


def _tls_hint(target: ConnectTarget) -> str:
    """Why a server may have gone before it has said a word: in TLS 1.3 it looks at our certificate last."""
    if target.socket:
        return ""
    return f" ({_CERTIFICATE_HINT if target.tls else 'if it speaks TLS, use rediss://'})"


def _reason(error: Exception) -> str:
    """In plain words, where OpenSSL has its own."""
    if isinstance(error, SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__


def _login_commands(target: ConnectTarget) -> Sequence[tuple[Arg, ...]]:
    commands: list[tuple[Arg, ...]] = [("CLIENT", "SETNAME", "mainspring")]
    if target.user:  # one without a password is not somebody else, either
        commands.insert(0, ("AUTH", target.user, target.password or ""))
    elif target.password is not None:
        commands.insert(0, ("AUTH", target.password))
    if target.db:
        commands.append(("SELECT", target.db))
    return commands
