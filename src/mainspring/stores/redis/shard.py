"""Shards: groups of keys on one server. A store has one shard on a single server, and several in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

from ...errors import StoreUnavailable
from ..graph_cache import GraphCache
from .connection import Arg, RedisConnection, Reply
from .connector import RedisConnector
from .server import Moved, RedisServer
from .url import RedisUrl, slot

T = TypeVar("T")
# Tries of a request that a cluster redirects. More redirects than that mean that the cluster is being rebuilt.
MAX_REDIRECTS = 4


class Shard:
    """All keys that begin with one base. Requests go to the server that has them at the moment."""

    def __init__(self, connector: RedisConnector, base: str) -> None:
        self._connector, self.base, self._slot, self.shown = connector, base, slot(base), connector.url.shown

    async def call(self, *args: Arg) -> Any:
        return await self._request(lambda server: server.call(*args))

    async def multi(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """The replies to several commands, run as one transaction (MULTI) in one round trip."""
        return await self._request(lambda server: server.multi(commands))

    async def check_allowed(self, commands: Sequence[Sequence[Arg]]) -> None:
        """Raises StoreError if our user may not run one of these commands. None of them is run."""
        await self._request(lambda server: server.check_allowed(commands))

    def script(self, name: str, args: Sequence[Arg]) -> Coroutine[Any, Any, Any]:
        """The reply of one of our scripts."""
        if (server := self._connector.only_server) is not None:
            return server.script(name, self.base, args)
        return self._request(lambda server: server.script(name, self.base, args))

    async def scripts(self, name: str, lists: Sequence[Sequence[Arg]]) -> list[Any]:
        """The replies of one of our scripts, called with each of these argument lists in one transaction."""
        return await self._request(lambda server: server.scripts(name, self.base, lists))

    async def listen(self, on_message: Callable[[Reply], None]) -> RedisConnection:
        """A new connection for SUBSCRIBE; every reply on it is passed to `on_message`."""
        return await (await self._connector.server_of(self._slot)).listen(on_message)

    async def _request(self, send: Callable[[RedisServer], Awaitable[T]]) -> T:
        for tries_left in reversed(range(MAX_REDIRECTS)):
            server = await self._connector.server_of(self._slot)
            try:
                return await send(server)
            except StoreUnavailable as error:
                self._connector.invalidate()
                if not tries_left or not isinstance(error, Moved):
                    raise
        raise AssertionError


class Shards:
    """All shards of a store. Schedules, workers, leader terms, documents and the feed are in the first."""

    def __init__(self, connector: RedisConnector) -> None:
        self.connector, self.all = connector, [Shard(connector, base) for base in connector.url.bases]
        self.first = self.all[0]
        self.anchor = Shard(connector, f"{{{connector.url.prefix}}}")
        """Holds the number of shards."""
        self.graphs = GraphCache()
        self.has_flows = False
        """Whether releases without flows are known to be shut out."""
        self.has_limits = False
        """Whether releases without limits are."""
        self._by_base = {shard.base: shard for shard in self.all}

    @property
    def url(self) -> RedisUrl:
        return self.connector.url

    def of(self, queue: str) -> Shard:
        """The shard that holds the jobs of a queue."""
        if len(self.all) == 1:
            return self.first
        return self.all[crc32(queue.encode()) % len(self.all)]

    def of_key(self, key: str) -> Shard:
        """The shard that records which job holds a unique or idempotency key."""
        return self.of(key)

    def by_base(self, base: str) -> Shard:
        return self._by_base[base]

    async def each(self, send: Callable[[Shard], Awaitable[T]], which: Iterable[Shard] | None = None) -> list[T]:
        """The results of `send` for all shards, or for those in `which`, run concurrently."""
        shards = self.all if which is None else list(which)
        if len(shards) == 1:
            return [await send(shards[0])]
        return await asyncio.gather(*map(send, shards))
