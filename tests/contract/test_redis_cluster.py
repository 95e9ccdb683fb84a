"""The Redis store in a cluster keeps the contract: what crosses queues crosses servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from sharing import Sharing

from books import audit
from clusters import RedisCluster
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import Contract


class Spread(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster) -> None:
        self.cluster, self.url = redis_cluster, redis_cluster.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestCluster(Spread, StoreContract):
    """After every test the books are audited."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with super().opened() as store:
            yield store
            if (homes := cast(RedisStore, store)._homes) is not None:
                await audit(homes)


class TestSharing(Spread, Sharing):
    pass
