"""The Redis store keeps the contract, and its sets say what its jobs are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from books import audit

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import Contract
from servers import Redis


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server, self.url = redis, redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestRedis(Served, StoreContract):
    """After every test the books are audited."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            yield store
            if (pool := cast(RedisStore, store)._pool) is not None:
                await audit(pool)
