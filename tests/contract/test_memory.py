"""The memory store keeps the contract."""

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.flow import FlowContract


class TestMemory(StoreContract, FlowContract):
    def make_store(self) -> Store:
        return open_store("memory://")
