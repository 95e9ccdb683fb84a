"""The Redis store keeps the contract."""

import pytest

from mainspring.store import Store
from mainspring.stores import open_store
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
    pass
