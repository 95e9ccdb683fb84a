"""Coroutine tests run by our own plugin; servers that a whole session shares; examples that are the same every time."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from clusters import RedisCluster, RedisWithSentinel
from mainspring.cli.event_loop import tune_garbage_collector
from mainspring.stores import open_store
from servers import PgBouncer, Postgres, Redis

# To search for new examples: MAINSPRING_TEST_EXAMPLES=new scripts/test -k twin
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("MAINSPRING_TEST_EXAMPLES", "same"))

# Ignored in a run that a shell has put into the background, or nohup has started, and in every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["mainspring.testing.plugin"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests stay in memory to the end: no garbage collection needs to examine them again."""
    tune_garbage_collector()


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables: to create them takes forty times as long as to copy the file."""
    path = tmp_path_factory.mktemp("empty") / "jobs.db"

    async def make() -> None:
        store = open_store(f"sqlite:///{path}")
        await store.open()
        await store.close()

    asyncio.run(make())
    return path


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


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    server = Redis()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """Three masters."""
    # No node of it is ever down; one that is busy for a second must not count as down.
    cluster = RedisCluster(cluster_node_timeout="15000")
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def redis_sentinel() -> Iterator[RedisWithSentinel]:
    """A master, its replica and three sentinels; the master changes with a failover."""
    sentinel = RedisWithSentinel()
    try:
        yield sentinel
    finally:
        sentinel.close()
