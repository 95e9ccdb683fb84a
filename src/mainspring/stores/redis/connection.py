"""One connection to a Redis server: what is asked is answered in order, and nothing that was asked is taken back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from ssl import SSLCertVerificationError, SSLError
from typing import Any, cast

from hiredis import HiredisError, Reader, ReplyError, pack_command

from .url import ConnectTarget

Word = str | bytes | int
Answer = Any
# Seconds for a connection and for an answer: a beat that nobody answers has to be given up in time for the next one to
# save the lease.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 8.0
# Of which so many for TLS: a server that does not speak it waits for the rest of what it takes for a command.
HANDSHAKE_SECONDS = 3.0

# Its own stub says that a command has one word.
pack: Callable[[tuple[Word, ...]], bytes] = pack_command  # type: ignore[assignment]


class Lost(Exception):
    """The connection is gone, and nobody knows what became of what was asked."""


class RedisConnection(asyncio.Protocol):
    """Commands may be asked while others wait for their answers. `heard` gets what comes without having been asked."""

    def __init__(self, heard: Callable[[Answer], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._waiting: deque[tuple[int, asyncio.Future[list[Answer]]]] = deque()
        self._answers: list[Answer] = []
        self._heard = heard
        self._transport: asyncio.Transport | None = None
        self._late: asyncio.TimerHandle | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()

    # asking

    def ask(self, packed: bytes, count: int) -> asyncio.Future[list[Answer]]:
        """The answers to so many commands, errors among them. To wait for it no longer cuts nothing in two."""
        asked: asyncio.Future[list[Answer]] = self._loop.create_future()
        if self._transport is None or self.lost.done():
            asked.set_exception(Lost(self.lost.result() if self.lost.done() else "not connected"))
            return asked
        self._waiting.append((count, asked))
        if self._late is None:
            self._late = self._loop.call_later(ANSWER_SECONDS, self._give_up)
        self._transport.write(packed)
        return asked

    def tell(self, *words: Word) -> None:
        """What is answered to whoever listens."""
        if self._transport is not None:
            self._transport.write(pack(words))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self) -> None:
        self._end(f"no answer within {ANSWER_SECONDS:g} s")

    # hearing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not False:
                self._take(answer)
        except HiredisError as error:
            self._end(f"it does not speak as Redis does: {error}")

    def _take(self, answer: Answer) -> None:
        if self._heard is not None:
            self._heard(answer)
            return
        if not self._waiting:
            self._end(f"it spoke without having been asked: {answer}")
            return
        self._answers.append(answer)
        count, asked = self._waiting[0]
        if len(self._answers) < count:
            return
        self._waiting.popleft()
        answers, self._answers = self._answers, []
        if not asked.done():
            asked.set_result(answers)
        if self._late is not None:
            self._late.cancel()
            self._late = self._loop.call_later(ANSWER_SECONDS, self._give_up) if self._waiting else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_why(exc) if exc else "the server has hung up")

    def _end(self, why: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(why)
        if self._late is not None:
            self._late.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            _, asked = self._waiting.popleft()
            if not asked.done():
                asked.set_exception(Lost(why))
                asked.exception()  # somebody may wait no longer, and need not be told


async def connect(target: ConnectTarget, heard: Callable[[Answer], None] | None = None) -> RedisConnection:
    """A line whose server knows who asks, and for which database. Raises OSError, TimeoutError, Lost or ReplyError."""
    line = RedisConnection()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _lay(target, line)
            await _greet(target, line)
    except BaseException:
        line.close()
        raise
    line._heard = heard
    return line


async def _lay(target: ConnectTarget, line: RedisConnection) -> None:
    loop, (host, port) = asyncio.get_running_loop(), target.address
    if target.socket:
        await loop.create_unix_connection(lambda: line, target.socket)
        return
    wait = HANDSHAKE_SECONDS if target.tls else None
    try:
        await loop.create_connection(lambda: line, host, port, ssl=target.tls, ssl_handshake_timeout=wait)
    except (SSLError, ConnectionResetError, ConnectionAbortedError) as error:
        if target.tls is None or isinstance(error, SSLCertVerificationError):
            raise
        why = _why(error)
        raise Lost(f"{why} ({_CERTIFICATE if ' alert ' in why else _PLAIN})") from error


async def _greet(target: ConnectTarget, line: RedisConnection) -> None:
    commands = _greeting(target)
    try:
        answers = await line.ask(b"".join(map(pack, commands)), len(commands))
    except Lost as lost:
        # Some say why they hang up before anything was asked: that they are full, or answer to nobody from outside.
        answers = [answer for answer in line._answers if isinstance(answer, ReplyError)]
        if not answers:
            raise Lost(f"{lost}{_guess(target)}") from lost
    for answer in answers:
        if isinstance(answer, ReplyError):
            raise answer


_PLAIN = "if it does not speak TLS, use redis://"
_CERTIFICATE = "if it asks for a certificate, name one that it trusts with ?cert=file&key=file"


def _guess(target: ConnectTarget) -> str:
    """Why a server may have gone before it has said a word: in TLS 1.3 it looks at our certificate last."""
    if target.socket:
        return ""
    return f" ({_CERTIFICATE if target.tls else 'if it speaks TLS, use rediss://'})"


def _why(error: Exception) -> str:
    """In plain words, where OpenSSL has its own."""
    if isinstance(error, SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__


def _greeting(target: ConnectTarget) -> Sequence[tuple[Word, ...]]:
    commands: list[tuple[Word, ...]] = [("CLIENT", "SETNAME", "mainspring")]
    if target.user:  # one without a password is not somebody else, either
        commands.insert(0, ("AUTH", target.user, target.password or ""))
    elif target.password is not None:
        commands.insert(0, ("AUTH", target.password))
    if target.db:
        commands.append(("SELECT", target.db))
    return commands
