"""Migrations beyond the newest real one, and PostgreSQL tables to try them on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from mainspring.store import Store
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import schema
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.postgres.url import PostgresUrl
from servers import Postgres

# After the newest real migration, N: a compatible one, and an incompatible one.
MILD = """
-- up {next}, for {newest}
ALTER TABLE mainspring_jobs ADD COLUMN mood text;
CREATE TABLE mainspring_moods (mood text);
-- down {next}
DROP TABLE mainspring_moods;
ALTER TABLE mainspring_jobs DROP COLUMN mood;
"""
HARSH = """
-- up {next}
ALTER TABLE mainspring_queues RENAME TO mainspring_lanes;
-- down {next}
ALTER TABLE mainspring_lanes RENAME TO mainspring_queues;
"""
# A migration that is only marked as incompatible with N.
STERN = """
-- up {next}
CREATE TABLE mainspring_moods (mood text);
-- down {next}
DROP TABLE mainspring_moods;
"""


def after(migrations: Migrations, text: str) -> Migrations:
    return Migrations(migrations.text + text.format(next=migrations.newest + 1, newest=migrations.newest))


REAL = schema.MIGRATIONS
NEXT = after(REAL, MILD)
LAST = after(NEXT, HARSH)


class Placed:
    """A PostgreSQL store in its own schema, which does not exist yet."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.own("own")

    def store(self, url: str | None = None, migrations: Migrations = REAL) -> Store:
        return PostgresStore(PostgresUrl(url or self.url, "the database"), migrations=migrations)

    @asynccontextmanager
    async def opened(self, url: str | None = None, migrations: Migrations = REAL) -> AsyncIterator[Store]:
        store = self.store(url, migrations)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def step(self, migrations: Migrations) -> None:
        async with self.opened(migrations=migrations):
            pass

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.dsn, server_settings={"application_name": "a report"})
        try:
            yield connection
        finally:
            await connection.close()

    def tables(self, schema: str = "own", prefix: str = "") -> list[str]:
        sql = f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND starts_with(tablename, '{prefix}')"
        return sorted(name for (name,) in self.server.run(sql))

    def shape(self) -> list[Any]:
        """Every table, column and index, as the server describes them, without the daily partitions."""
        sql = """SELECT relname, relkind::text, attname::text, format_type(atttypid, atttypmod), attnotnull,
                pg_get_expr(adbin, adrelid), CASE WHEN relkind = 'i' THEN pg_get_indexdef(pg_class.oid) END, reloptions
            FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE relnamespace = 'own'::regnamespace AND relname !~ 'finished_[0-9]' ORDER BY 1, 2, 3"""
        return [tuple(row) for row in self.server.run(sql)]
