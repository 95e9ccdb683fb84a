"""The connector finds the server of a slot: the only one, the master named by sentinels, or a master of a cluster."""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from typing import Any

from ...errors import StoreError, StoreUnavailable
from .server import RedisServer
from .url import SLOTS, Address, RedisUrl

# Interval of asking a sentinel for the master. A replaced master accepts writes for ten more seconds, and loses them.
SENTINEL_REFRESH_SECONDS = 0.5
# Timeout of that question when the master is known already.
SENTINEL_TIMEOUT_SECONDS = 0.2


class RedisConnector:
    """Servers of one store, for one event loop. After invalidate() the next request discovers the masters first."""

    def __init__(self, url: RedisUrl) -> None:
        self.url, self.loop, self.pid = url, asyncio.get_running_loop(), os.getpid()
        self._servers: dict[Address | None, RedisServer] = {}
        self._starts, self._masters = [0], list[Address | None]([None])
        self._is_alone = url.kind not in ("cluster", "sentinel")
        self._invalid = not self._is_alone
        self._discovering: asyncio.Lock = asyncio.Lock()
        self._discovered_at, self._seeds = 0.0, list(url.addresses)

    @property
    def usable(self) -> bool:
        """Whether its event loop is open, and this is the process that made it."""
        return self.pid == os.getpid() and not self.loop.is_closed()

    @property
    def only_server(self) -> RedisServer | None:
        """The server if it has all slots for ever; None in a cluster, with sentinels, and before the first request."""
        return self._servers.get(None) if self._is_alone else None

    async def server_of(self, slot: int) -> RedisServer:
        if self._invalid or self._stale():
            async with self._discovering:
                if self._invalid:
                    await self._discover()
                    self._invalid = False
                elif self._stale():
                    await self._refresh()
        return self._server(self._masters[bisect_right(self._starts, slot) - 1])

    def invalidate(self) -> None:
        """Makes the next request discover the masters again."""
        self._invalid = not self._is_alone

    async def servers(self) -> list[RedisServer]:
        """All masters."""
        await self.server_of(0)
        return [self._server(address) for address in dict.fromkeys(self._masters)]

    def _server(self, address: Address | None) -> RedisServer:
        if address not in self._servers:
            self._servers[address] = RedisServer(self.url.server(address), self.url.shown)
        return self._servers[address]

    def _stale(self) -> bool:
        return self.url.kind == "sentinel" and self.loop.time() - self._discovered_at > SENTINEL_REFRESH_SECONDS

    async def _refresh(self) -> None:
        """Asks for the master again. Without an answer the known master stays; another sentinel is next."""
        try:
            async with asyncio.timeout(SENTINEL_TIMEOUT_SECONDS):
                await self._discover()
        except (StoreError, TimeoutError):
            self._seeds.append(self._seeds.pop(0))

    async def _discover(self) -> None:
        errors, self._discovered_at = [], self.loop.time()
        read = self._read_slots if self.url.kind == "cluster" else self._read_master
        known = [one for one in self._masters if one is not None and self.url.kind == "cluster"]
        for address in dict.fromkeys([*self._seeds, *known]):
            try:
                await read(address)
            except StoreUnavailable as error:
                errors.append(error)
            else:
                return
        raise errors[-1]

    async def _read_slots(self, address: Address) -> None:
        try:
            ranges: list[Any] = await self._server(address).call("CLUSTER", "SLOTS")
        except StoreUnavailable:
            raise
        except StoreError as error:
            if "cluster support disabled" not in str(error):
                raise
            raise StoreError(f"{self.url.shown} is not a cluster: use redis:// for a single server") from None
        if sum(end - start + 1 for start, end, *_ in ranges) < SLOTS:
            raise StoreUnavailable(f"{self.url.shown} has slots that no master serves; try again")
        ranges.sort(key=lambda one: one[0])
        self._starts = [start for start, *_ in ranges]
        self._masters = [((master[0] or b"").decode() or address[0], master[1]) for _, _, master, *_ in ranges]

    async def _read_master(self, address: Address) -> None:
        sentinel = RedisServer(self.url.sentinel(address), self.url.shown)
        try:
            found = await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.url.service)
        finally:
            await sentinel.close()
        if found is None:
            raise StoreError(f"the sentinels of {self.url.shown} watch nothing named {self.url.service!r}")
        self._masters = [(found[0].decode(), int(found[1]))]

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    def forget(self) -> None:
        for server in self._servers.values():
            server.forget()
