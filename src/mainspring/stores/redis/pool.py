"""Connections to Redis: a few, shared, each call bounded; the server's trouble as ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from redis import asyncio as client
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ...errors import ShuttingDown, StoreError, StoreUnavailable
from .place import Place

T = TypeVar("T")
Word = str | bytes | int

SIZE = 20
# Seconds for a connection, for one that is free, and for an answer: a beat that nobody answers has to be given up in
# time for the next one to save the lease.
CONNECT_SECONDS, FREE_SECONDS, ANSWER_SECONDS = 5.0, 20.0, 8.0
# What the server says when it cannot now: it is full, loads, is a copy of another, runs a script, looks for its master.
PASSING = ("LOADING", "OOM", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS")
_NOT_NOW = (
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)

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
        self._pool = client.BlockingConnectionPool.from_url(
            url, max_connections=SIZE, timeout=FREE_SECONDS, socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS, health_check_interval=30, client_name="mainspring", protocol=2,
            retry=Retry(NoBackoff(), 0),  # whoever calls knows whether and when it makes sense
            **place.files,
        )  # fmt: skip
        self._client = client.Redis(connection_pool=self._pool)
        self._client.response_callbacks.clear()  # answers are as the server gives them, whatever the driver's release
        self._known: dict[str, str] = {}
        self._closed = False

    async def call(self, *words: Word) -> Any:
        """The answer to one command."""
        call: Awaitable[Any] = self._client.execute_command(*words)  # type: ignore[no-untyped-call]
        return await self._asked(call)

    async def many(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers to several, as they are at one moment; one way to the server."""
        pipe = self._client.pipeline(transaction=True)
        for command in commands:
            pipe.execute_command(*command)
        return await self._asked(pipe.execute())

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

    async def _asked(self, call: Awaitable[T]) -> T:
        """A caller who is cancelled does not cut a command in two."""
        if self._closed:
            if asyncio.iscoroutine(call):
                call.close()
            raise ShuttingDown(f"the store {self.place.shown} is closed")
        asked = asyncio.ensure_future(call)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(_let_be)
            raise
        except (exceptions.RedisError, OSError, TimeoutError) as error:
            raise translated(error, self.place.shown) from error

    def listener(self) -> Any:
        """To hear what is said to all who share this store; a connection of its own."""
        return self._client.pubsub(ignore_subscribe_messages=True)

    async def close(self) -> None:
        self._closed = True
        await self._client.aclose()
        await self._pool.disconnect()

    def forget(self) -> None:
        """Its event loop is gone, or this is a child of its process: the sockets go with their objects."""
        self._closed = True


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
