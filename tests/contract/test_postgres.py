"""The PostgreSQL store keeps the contract."""

import pytest
from servers import Postgres

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)
