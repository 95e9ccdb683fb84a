"""The SQLite store keeps the contract, and its promise to outlive the process."""

from pathlib import Path

import pytest

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.tmp = tmp_path

    def make_store(self) -> Store:
        return open_store(f"sqlite:///{self.tmp}/jobs.db")
