"""Coroutine tests run by our own plugin; servers that a whole session shares."""

from collections.abc import Iterator

import pytest

from servers import PgBouncer, Postgres

pytest_plugins = ["mainspring.testing.plugin"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres)
    try:
        yield pooler
    finally:
        pooler.close()
