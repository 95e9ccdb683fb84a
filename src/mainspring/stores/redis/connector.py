"""Which server is to be asked: the only one, the one that sentinels name, or in a cluster the master of a slot."""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from typing import Any

from ...errors import StoreError, StoreUnavailable
from .server import RedisServer
from .url import Address, RedisUrl

# Seconds after which sentinels are asked anew, and for their answer: a master that they have replaced goes on to answer
# for ten seconds, and what it is told then is lost.
FRESH, BRIEFLY = 0.5, 0.2


class RedisConnector:
    """Of one event loop. Once a server was not what it should be, the next call looks for it first."""

    def __init__(self, place: RedisUrl) -> None:
        self.place, self.loop, self.pid = place, asyncio.get_running_loop(), os.getpid()
        self._servers: dict[Address | None, RedisServer] = {}
        self._starts, self._masters = [0], list[Address | None]([None])
        self._doubtful = place.kind in ("cluster", "sentinel")
        self._looking: asyncio.Lock = asyncio.Lock()
        self._looked, self._asked = 0.0, list(place.addresses)

    @property
    def usable(self) -> bool:
        return self.pid == os.getpid() and not self.loop.is_closed()

    async def to(self, slot: int) -> RedisServer:
        if self._doubtful or self._stale():
            async with self._looking:
                if self._doubtful:
                    await self._look()
                    self._doubtful = False
                elif self._stale():
                    await self._look_again()
        return self._server(self._masters[bisect_right(self._starts, slot) - 1])

    def doubt(self) -> None:
        self._doubtful = self.place.kind in ("cluster", "sentinel")

    async def servers(self) -> list[RedisServer]:
        """All that hold a part of the data."""
        await self.to(0)
        return [self._server(address) for address in dict.fromkeys(self._masters)]

    def _server(self, address: Address | None) -> RedisServer:
        if address not in self._servers:
            self._servers[address] = RedisServer(self.place.server(address), self.place.shown)
        return self._servers[address]

    def _stale(self) -> bool:
        return self.place.kind == "sentinel" and self.loop.time() - self._looked > FRESH

    async def _look_again(self) -> None:
        """A sentinel that does not answer leaves all as it was, and is the last to be asked next time."""
        try:
            async with asyncio.timeout(BRIEFLY):
                await self._look()
        except (StoreError, TimeoutError):
            self._asked.append(self._asked.pop(0))

    async def _look(self) -> None:
        troubles, self._looked = [], self.loop.time()
        ask = self._slots if self.place.kind == "cluster" else self._master
        known = [one for one in self._masters if one is not None and self.place.kind == "cluster"]
        for address in dict.fromkeys([*self._asked, *known]):
            try:
                await ask(address)
            except StoreUnavailable as trouble:
                troubles.append(trouble)
            else:
                return
        raise troubles[-1]

    async def _slots(self, address: Address) -> None:
        try:
            ranges: list[Any] = await self._server(address).call("CLUSTER", "SLOTS")
        except StoreUnavailable:
            raise
        except StoreError as error:
            if "cluster support disabled" not in str(error):
                raise
            raise StoreError(f"{self.place.shown} is no cluster: use redis:// for a server by itself") from None
        if sum(end - start + 1 for start, end, *_ in ranges) < 16384:
            raise StoreUnavailable(f"{self.place.shown} has slots that no master serves; try again")
        ranges.sort(key=lambda one: one[0])
        self._starts = [start for start, *_ in ranges]
        self._masters = [((master[0] or b"").decode() or address[0], master[1]) for _, _, master, *_ in ranges]

    async def _master(self, address: Address) -> None:
        sentinel = RedisServer(self.place.sentinel(address), self.place.shown)
        try:
            found = await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.place.service)
        finally:
            await sentinel.close()
        if found is None:
            raise StoreError(f"the sentinels of {self.place.shown} watch nothing named {self.place.service!r}")
        self._masters = [(found[0].decode(), int(found[1]))]

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    def forget(self) -> None:
        for server in self._servers.values():
            server.forget()
