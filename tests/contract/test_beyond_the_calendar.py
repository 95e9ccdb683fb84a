"""A job that is due beyond the last year of the calendar, as only other programs can write it, does not stop claims."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.redis.store import RedisStore
from mainspring.testing.contract.build import beat, claim, later, new_job, put
from servers import Postgres, Redis

FAR_MICROS = 9_223_372_036_854_775_000
Delay = Callable[[Store], Awaitable[None]]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Delay]:
    """The URL of a store, and a function that delays its only group of jobs."""
    sql = f"SET run_at = {FAR_MICROS}"
    match request.param:
        case "sqlite":
            path = tmp_path / "jobs.db"

            async def in_a_file(store: Store) -> None:
                with closing(sqlite3.connect(path, timeout=30)) as db, db:
                    db.execute(f"UPDATE mainspring_jobs {sql}")

            return f"sqlite:///{path}", in_a_file
        case "postgres":
            postgres: Postgres = request.getfixturevalue("postgres")

            async def in_a_table(store: Store) -> None:
                postgres.run(f"UPDATE fresh.mainspring_jobs {sql}")

            return postgres.fresh(), in_a_table
    redis: Redis = request.getfixturevalue("redis")

    async def in_keys(store: Store) -> None:
        shards = cast(RedisStore, store)._shards
        assert shards is not None
        shard, group = shards.first, "default\0task"
        (member,) = await shard.call("ZRANGE", f"{shard.base}:later:{group}", 0, -1)
        await shard.call("ZADD", f"{shard.base}:later:{group}", FAR_MICROS, member)
        await shard.call("ZADD", f"{shard.base}:next", FAR_MICROS, group)

    return redis.fresh(), in_keys


async def test_claim_skips_a_job_that_is_due_beyond_the_calendar(place: tuple[str, Delay]) -> None:
    url, delay = place
    store = open_store(url)
    await store.open()
    try:
        await put(store, new_job(run_at=later(60)))
        await delay(store)
        await beat(store)
        for _ in range(2):
            found = await claim(store)
            assert (found.jobs, found.next_at and found.next_at.year) == ([], 9999)
        other = await put(store, new_job())
        assert [job.id for job in (await claim(store)).jobs] == other
    finally:
        await store.close()
