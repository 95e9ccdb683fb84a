"""The PostgreSQL store keeps the contract through a pooler that lends its connections for a transaction at a time."""

import pytest

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.beat import BeatContract
from mainspring.testing.contract.build import Contract
from mainspring.testing.contract.claim import ClaimContract
from mainspring.testing.contract.enqueue import EnqueueContract
from mainspring.testing.contract.finish import FinishContract
from mainspring.testing.contract.fire import FireContract
from mainspring.testing.contract.keys import KeysContract
from mainspring.testing.contract.leader import LeaderContract
from mainspring.testing.contract.life import LifeContract
from servers import PgBouncer, Postgres


class Pooled(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres, pgbouncer: PgBouncer) -> None:
        self.server, self.pooler = postgres, pgbouncer
        self.url = f"{pgbouncer.through(postgres.fresh())}&pooler=transaction"

    def make_store(self) -> Store:
        return open_store(self.url)


class TestPooled(
    Pooled, LifeContract, EnqueueContract, KeysContract, ClaimContract, BeatContract, FinishContract, FireContract,
    LeaderContract,
):  # fmt: skip
    """Transactions, locks, batches; the rest is the same again, and slow."""


@pytest.mark.slow
class TestAllPooled(Pooled, StoreContract):
    pass
