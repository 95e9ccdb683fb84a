"""The memory store keeps the contract."""

from sharing import end_last_items_at_once

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.carry_on import CarryOnContract
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.limit import LimitContract
from mainspring.testing.contract.limit_rows import LimitRowsContract
from mainspring.testing.contract.signal import SignalContract


class TestMemory(
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
    CarryOnContract,
    LimitContract,
    LimitRowsContract,
):
    def make_store(self) -> Store:
        return open_store("memory://")

    async def test_concurrent_ends_of_the_last_items_of_a_map_release_what_follows_once(self) -> None:
        async with self.opened() as store:
            await end_last_items_at_once(store, store)
