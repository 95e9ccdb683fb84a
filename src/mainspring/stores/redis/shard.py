"""Keys that lie together: a store on one server has one home, in a cluster each queue has one of several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

from ...errors import StoreUnavailable
from .connection import Answer, RedisConnection, Word
from .connector import RedisConnector
from .server import Moved, RedisServer
from .url import RedisUrl, slot

T = TypeVar("T")
# So often a call goes where it is sent on to; a cluster in which that does not end is being rebuilt.
REDIRECTS = 4


class Shard:
    """What begins with one base, on whichever server that is now."""

    def __init__(self, route: RedisConnector, base: str) -> None:
        self._route, self.base, self._slot, self.shown = route, base, slot(base), route.place.shown

    async def call(self, *words: Word) -> Any:
        return await self._asked(lambda server: server.call(*words))

    async def many(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers to several, as they are at one moment; one way to the server."""
        return await self._asked(lambda server: server.many(commands))

    async def rehearse(self, commands: Sequence[Sequence[Word]]) -> None:
        """Raises StoreError if our user may not say one of them; none is done."""
        await self._asked(lambda server: server.rehearse(commands))

    async def script(self, name: str, words: Sequence[Word]) -> Any:
        """The answer of one of our scripts."""
        return await self._asked(lambda server: server.script(name, self.base, words))

    async def scripts(self, name: str, lists: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers of one of our scripts, called with each of these in one transaction."""
        return await self._asked(lambda server: server.scripts(name, self.base, lists))

    async def listen(self, heard: Callable[[Answer], None]) -> RedisConnection:
        """A connection of its own, for what is said to all who share this store."""
        return await (await self._route.to(self._slot)).listen(heard)

    async def _asked(self, ask: Callable[[RedisServer], Awaitable[T]]) -> T:
        for again in reversed(range(REDIRECTS)):
            server = await self._route.to(self._slot)
            try:
                return await ask(server)
            except StoreUnavailable as trouble:
                self._route.doubt()
                if not again or not isinstance(trouble, Moved):
                    raise
        raise AssertionError


class Shards:
    """All homes of a store. Schedules, workers and whoever leads are in the first."""

    def __init__(self, route: RedisConnector) -> None:
        self.route, self.all = route, [Shard(route, base) for base in route.place.bases]
        self.first = self.all[0]
        self.anchor = Shard(route, f"{{{route.place.prefix}}}")
        """Where it is written how many there are."""
        self.gave: dict[Shard, int] = {}
        """How many jobs each gave to the last claim: about as many will be asked for next time."""
        self._named = {home.base: home for home in self.all}

    @property
    def place(self) -> RedisUrl:
        return self.route.place

    def of(self, queue: str) -> Shard:
        """Where the jobs of a queue are, and all that is known of them."""
        return self.all[crc32(queue.encode()) % len(self.all)]

    def keeping(self, key: str) -> Shard:
        """Where it is written who holds a key."""
        return self.of(key)

    def named(self, base: str) -> Shard:
        return self._named[base]

    async def each(self, ask: Callable[[Shard], Awaitable[T]], which: Iterable[Shard] | None = None) -> list[T]:
        """The answers of all of them, or of these."""
        homes = self.all if which is None else list(which)
        if len(homes) == 1:
            return [await ask(homes[0])]
        return await asyncio.gather(*map(ask, homes))
