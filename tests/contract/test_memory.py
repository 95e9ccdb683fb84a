"""The memory store keeps the contract."""

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract


class TestMemory(StoreContract, FlowContract, FlowActionsContract):
    def make_store(self) -> Store:
        return open_store("memory://")
