"""Stores that earlier releases wrote are decoded, run, edited and read as they were: SQLite and PostgreSQL."""

from pathlib import Path

import pytest

from golden.form import load_postgres, load_sqlite
from golden.trial import GoldenStores
from servers import Postgres


class TestGoldenSqlite(GoldenStores):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "golden.db"

    async def load(self, folder: Path) -> str:
        return load_sqlite(folder, self.path)


class TestGoldenPostgres(GoldenStores):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres

    async def load(self, folder: Path) -> str:
        return await load_postgres(folder, self.server)
