"""Connections to Redis: a few, shared, each call bounded; the server's trouble as ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from hiredis import pack_command
from redis import asyncio as client
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ...errors import ShuttingDown, StoreError, StoreUnavailable
from .place import Place

Word = str | bytes | int

SIZE = 20
# Seconds for a connection, for one that is free, and for an answer: a beat that nobody answers has to be given up in
# time for the next one to save the lease.
CONNECT_SECONDS, FREE_SECONDS, ANSWER_SECONDS = 5.0, 20.0, 8.0
# A connection that was not in use for so long is looked at first.
IDLE_SECONDS = 1.0
# What the server says when it cannot now: it is full, loads, is a copy of another, runs a script, looks for its master.
PASSING = ("LOADING", "OOM", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS")
_NOT_NOW = (
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)

# Its own stub says that a command has one word.
_pack: Callable[[tuple[Word, ...]], bytes] = pack_command  # type: ignore[assignment]

_here = files("mainspring.stores.redis")


def _text(name: str) -> str:
    return _here.joinpath(f"{name}.lua").read_text(encoding="utf-8")


SCRIPTS = {name: _text(name) for name in ("enqueue", "claim", "finish", "tidy")}
SCRIPTS |= {name: _text("share") + _text(name) for name in ("commit", "promise", "settle")}


class Moved(StoreUnavailable):
    """The keys are at another server by now."""


class Pool:
    """Connections to one server, of one event loop."""

    def __init__(self, place: Place, url: str) -> None:
        self.place = place
        settings: dict[str, Any] = {
            "max_connections": SIZE, "socket_connect_timeout": CONNECT_SECONDS, "client_name": "mainspring",
            "protocol": 2, "retry": Retry(NoBackoff(), 0),  # whoever calls knows whether and when it makes sense
            **place.files,
        }  # fmt: skip
        self._maker = client.ConnectionPool.from_url(url, **settings)
        self._listeners = client.Redis.from_url(url, socket_timeout=ANSWER_SECONDS, **settings)
        self._idle: list[tuple[client.Connection, float]] = []
        self._free = asyncio.Semaphore(SIZE)
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, str] = {}
        self._closed = False

    async def call(self, *words: Word) -> Any:
        """The answer to one command."""
        (answer,) = await self._asked(_pack(words), 1)
        return answer

    async def many(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers to several, as they are at one moment; one way to the server."""
        packed = [_pack(tuple(command)) for command in (("MULTI",), *commands, ("EXEC",))]
        *_, answers = await self._asked(b"".join(packed), len(packed))
        for answer in answers:
            if isinstance(answer, exceptions.ResponseError):
                raise translated(answer, self.place.shown) from answer
        return list(answers)

    async def script(self, name: str, base: str, words: Sequence[Word]) -> Any:
        """The answer of one of our scripts."""
        if name not in self._known:
            self._known[name] = (await self.call("SCRIPT", "LOAD", SCRIPTS[name])).decode()
        try:
            return await self.call("EVALSHA", self._known[name], 1, base, *words)
        except StoreError as error:
            if not isinstance(error.__cause__, exceptions.NoScriptError):
                raise
        return await self.call("EVAL", SCRIPTS[name], 1, base, *words)

    async def _asked(self, packed: bytes, count: int) -> list[Any]:
        """A caller who is cancelled does not cut a command in two."""
        if self._closed:
            raise ShuttingDown(f"the store {self.place.shown} is closed")
        asked = self._loop.create_task(self._exchange(packed, count))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(_let_be)
            raise
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            raise translated(error, self.place.shown) from error

    async def _exchange(self, packed: bytes, count: int) -> list[Any]:
        async with asyncio.timeout(FREE_SECONDS):
            await self._free.acquire()
        connection = None
        try:
            connection = await self._connection()
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.send_packed_command(packed, check_health=False)
                answers = [await _answer(connection) for _ in range(count)]
            if self._closed:
                await connection.disconnect(nowait=True)
            else:
                self._idle.append((connection, self._loop.time()))
        except BaseException:  # what one has met, those that lie idle have met, too
            for one in (connection, *(idle for idle, _ in self._idle)):
                if one is not None:
                    await one.disconnect(nowait=True)
            self._idle.clear()
            raise
        finally:
            self._free.release()
        for answer in answers:
            if isinstance(answer, exceptions.ResponseError):
                raise answer
        return answers

    async def _connection(self) -> client.Connection:
        """The one used last, unless its server has hung up meanwhile."""
        while self._idle:
            idle, since = self._idle.pop()
            if self._loop.time() - since < IDLE_SECONDS or not await _hung_up(idle):
                return idle
            await idle.disconnect(nowait=True)
        connection: client.Connection = self._maker.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    def listener(self) -> Any:
        """To hear what is said to all who share this store; a connection of its own."""
        return self._listeners.pubsub(ignore_subscribe_messages=True)

    async def close(self) -> None:
        self._closed = True
        for connection, _ in self._idle:
            await connection.disconnect(nowait=True)
        self._idle.clear()
        await self._listeners.aclose()

    def forget(self) -> None:
        """Its event loop is gone, or this is a child of its process: the sockets go with their objects."""
        self._closed = True


# The driver has given it another name in release 8.
_hung_up: Any = getattr(client.Connection, "can_read", None) or client.Connection.can_read_destructive


async def _answer(connection: client.Connection) -> Any:
    """An error is an answer, too: those that follow have to be read as well."""
    try:
        return await connection.read_response()
    except exceptions.ResponseError as error:
        return error


def _let_be(asked: asyncio.Future[Any]) -> None:
    """Nobody waits for it any longer, so nobody is to be told how it failed."""
    if not asked.cancelled():
        asked.exception()


def translated(error: Exception, shown: str) -> StoreError:
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        return StoreError(f"{shown} refused us: {error}")
    if isinstance(error, _LOST):
        return StoreUnavailable(f"cannot reach {shown}: {error or type(error).__name__}; try again")
    if isinstance(error, exceptions.MovedError | exceptions.AskError):
        return Moved(f"{shown} moves its keys: {error}; try again")
    # Redis before 7 tells what a script has met in the middle of its own words.
    within = any(f": -{word} " in str(error) for word in PASSING)
    if isinstance(error, _NOT_NOW) or str(error).startswith(PASSING) or within:
        return StoreUnavailable(f"{shown} cannot do that now: {error}; try again")
    return StoreError(f"{shown}: {error} ({type(error).__name__})")
