"""Keys that lie together: a store on one server has one home, in a cluster each queue has one of several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

from ...errors import StoreUnavailable
from .connection import Arg, RedisConnection, Reply
from .connector import RedisConnector
from .server import Moved, RedisServer
from .url import RedisUrl, slot

T = TypeVar("T")
# So often a call goes where it is sent on to; a cluster in which that does not end is being rebuilt.
REDIRECTS = 4


class Shard:
    """What begins with one base, on whichever server that is now."""

    def __init__(self, connector: RedisConnector, base: str) -> None:
        self._connector, self.base, self._slot, self.shown = connector, base, slot(base), connector.url.shown

    async def call(self, *words: Arg) -> Any:
        return await self._request(lambda server: server.call(*words))

    async def multi(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """The answers to several, as they are at one moment; one way to the server."""
        return await self._request(lambda server: server.multi(commands))

    async def check_allowed(self, commands: Sequence[Sequence[Arg]]) -> None:
        """Raises StoreError if our user may not say one of them; none is done."""
        await self._request(lambda server: server.check_allowed(commands))

    async def script(self, name: str, words: Sequence[Arg]) -> Any:
        """The answer of one of our scripts."""
        return await self._request(lambda server: server.script(name, self.base, words))

    async def scripts(self, name: str, lists: Sequence[Sequence[Arg]]) -> list[Any]:
        """The answers of one of our scripts, called with each of these in one transaction."""
        return await self._request(lambda server: server.scripts(name, self.base, lists))

    async def listen(self, on_message: Callable[[Reply], None]) -> RedisConnection:
        """A connection of its own, for what is said to all who share this store."""
        return await (await self._connector.server_of(self._slot)).listen(on_message)

    async def _request(self, send: Callable[[RedisServer], Awaitable[T]]) -> T:
        for again in reversed(range(REDIRECTS)):
            server = await self._connector.server_of(self._slot)
            try:
                return await send(server)
            except StoreUnavailable as trouble:
                self._connector.invalidate()
                if not again or not isinstance(trouble, Moved):
                    raise
        raise AssertionError


class Shards:
    """All homes of a store. Schedules, workers and whoever leads are in the first."""

    def __init__(self, connector: RedisConnector) -> None:
        self.connector, self.all = connector, [Shard(connector, base) for base in connector.url.bases]
        self.first = self.all[0]
        self.anchor = Shard(connector, f"{{{connector.url.prefix}}}")
        """Where it is written how many there are."""
        self.last_claimed: dict[Shard, int] = {}
        """How many jobs each gave to the last claim: about as many will be asked for next time."""
        self._named = {shard.base: shard for shard in self.all}

    @property
    def url(self) -> RedisUrl:
        return self.connector.url

    def of(self, queue: str) -> Shard:
        """Where the jobs of a queue are, and all that is known of them."""
        return self.all[crc32(queue.encode()) % len(self.all)]

    def of_key(self, key: str) -> Shard:
        """Where it is written who holds a key."""
        return self.of(key)

    def named(self, base: str) -> Shard:
        return self._named[base]

    async def each(self, send: Callable[[Shard], Awaitable[T]], which: Iterable[Shard] | None = None) -> list[T]:
        """The answers of all of them, or of these."""
        shards = self.all if which is None else list(which)
        if len(shards) == 1:
            return [await send(shards[0])]
        return await asyncio.gather(*map(send, shards))
