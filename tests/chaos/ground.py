"""The store of a chaos test: a file, or a schema or keys on a server; and checks of it that need no store call."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from books import CommitUnderWay, audit
from clusters import RedisCluster, RedisWithSentinel, eventually
from mainspring.stores.redis.connector import RedisConnector
from mainspring.stores.redis.shard import Shards
from mainspring.stores.redis.url import RedisUrl
from servers import Postgres, Redis

# Seconds in which a commit over several shards ends, also if its writer was killed: others end it.
COMMIT_SECONDS = 20.0


class File:
    """A SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store" / "jobs.db"
        self.path.parent.mkdir()
        self.url = f"sqlite:///{self.path}"

    def free(self) -> bool:
        """Whether no process holds a lock that others wait for."""
        return writable(self.path)

    def complaints(self) -> list[str]:
        """Errors of the store itself, apart from its jobs."""
        with sqlite3.connect(self.path) as db:
            said = [text for (text,) in db.execute("PRAGMA integrity_check")]
        db.close()
        return [] if said == ["ok"] else said


class Database:
    """A schema of its own on a PostgreSQL server."""

    SCHEMA = "chaos"

    def __init__(self, server: Postgres) -> None:
        self.server, self.url = server, server.own(self.SCHEMA)

    def free(self) -> bool:
        return not self.server.run("SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")

    def complaints(self) -> list[str]:
        twice = f"""SELECT id || ' is unfinished and finished' FROM {self.SCHEMA}.mainspring_jobs
            JOIN {self.SCHEMA}.mainspring_finished USING (id)"""
        return [text for (text,) in self.server.run(twice)]


class Keys:
    """Keys of their own on a Redis server, on the one that sentinels name, or in a cluster."""

    def __init__(self, server: Redis | RedisWithSentinel | RedisCluster) -> None:
        self._server, self.url = server, server.fresh("chaos")

    @property
    def servers(self) -> list[Redis]:
        """The servers that the store talks to."""
        match self._server:
            case RedisCluster():
                return self._server.masters
            case RedisWithSentinel():
                return [eventually(self._server.master, "the sentinels agree")]
            case _:
                return [self._server]

    def free(self) -> bool:
        """A script runs to its end, even if its caller dies."""
        return True

    def complaints(self) -> list[str]:
        """Reads it at a moment without a commit under way: some processes may still write."""
        end = time.monotonic() + COMMIT_SECONDS
        while True:
            for server in self.servers:
                server.run("CLIENT", "PAUSE", 10_000, "WRITE")
            try:
                asyncio.run(self._audited())
            except AssertionError as error:
                if not isinstance(error, CommitUnderWay) or time.monotonic() > end:
                    return [str(error) or traceback.format_exc()]
            else:
                return []
            finally:
                for server in self.servers:
                    server.run("CLIENT", "UNPAUSE")

    async def _audited(self) -> None:
        shards = Shards(RedisConnector(RedisUrl(self.url, self.url)))
        try:
            await audit(shards)
        finally:
            await shards.connector.close()


Ground = File | Database | Keys


def writable(path: Path) -> bool:
    """Whether no process holds the write lock of this SQLite file."""
    db = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        db.close()
    return True


# A test runs on all stores as far as the time of the suite allows; the other cases run with `pytest -m slow`.
everywhere = pytest.mark.parametrize("ground", ["file", "server", "keys"], indirect=True)
on_a_file = pytest.mark.parametrize("ground", ["file"], indirect=True)
on_a_server = pytest.mark.parametrize("ground", ["server"], indirect=True)
slow_on_keys = pytest.mark.parametrize(
    "ground", ["file", "server", pytest.param("keys", marks=pytest.mark.slow)], indirect=True
)
slow_on_a_server = pytest.mark.parametrize(
    "ground", ["file", *(pytest.param(ground, marks=pytest.mark.slow) for ground in ("server", "keys"))], indirect=True
)


def each(name: str, cases: Sequence[object], short: Collection[object] = ()) -> pytest.MarkDecorator:
    """All cases everywhere; only those on a file, and the short ones on a server, are not slow."""
    played = [("file", case) for case in cases] + [("server", case) for case in cases if case in short]
    rest = [(ground, case) for ground in ("server", "keys") for case in cases if (ground, case) not in played]
    slow = [pytest.param(*one, marks=pytest.mark.slow) for one in rest]
    return pytest.mark.parametrize(("ground", name), [*played, *slow], indirect=["ground"])
