"""The PostgreSQL store keeps the contract through a pooler that lends its connections for a transaction at a time."""

import pytest

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import Contract
from servers import PgBouncer, Postgres


class Pooled(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres, pgbouncer: PgBouncer) -> None:
        self.server, self.pooler = postgres, pgbouncer
        self.url = pgbouncer.through(postgres.fresh())

    def make_store(self) -> Store:
        return open_store(self.url)


class TestPooled(Pooled, StoreContract):
    pass
