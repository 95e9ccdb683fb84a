"""Memory is the executable specification of flows, too: after each verb of a random walk other stores have the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from flow_twin import FlowTwin

from clusters import RedisCluster
from mainspring.stores import open_store
from servers import Postgres, Redis

CALLS = 60


async def walk(url: str, seeds: range) -> Counter[str]:
    left, right = open_store("memory://"), open_store(url)
    await left.open()
    await right.open()
    seen = Counter[str]()
    for seed in seeds:
        one = FlowTwin(left, right, seed)
        await one.walk(CALLS)
        seen += one.seen
    await left.close()
    await right.close()
    return seen


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(1000, 1300), marks=pytest.mark.slow)])
async def test_sqlite_has_the_same_flows(tmp_path: Path, seeds: range) -> None:
    seen = await walk(f"sqlite:///{tmp_path}/jobs.db", seeds)
    assert set("wrcxno") < set(seen)
    assert min(seen["GiveSignal: done"], seen["TimeOut: done"], seen["CloseBatch: done"], seen["SkipStep: done"]) > 0
    assert min(seen["enqueue: collected"], seen["enqueue: refused"]) > 0


@pytest.mark.parametrize("seeds", [range(10, 11), pytest.param(range(2000, 2050), marks=pytest.mark.slow)])
async def test_postgres_has_the_same_flows(postgres: Postgres, seeds: range) -> None:
    await walk(postgres.fresh(), seeds)


@pytest.mark.parametrize("seeds", [range(12, 15), pytest.param(range(3000, 3200), marks=pytest.mark.slow)])
async def test_redis_has_the_same_flows(redis: Redis, seeds: range) -> None:
    await walk(redis.fresh(), seeds)


@pytest.mark.parametrize("seeds", [range(15, 18), pytest.param(range(4000, 4200), marks=pytest.mark.slow)])
async def test_a_redis_cluster_has_the_same_flows(redis_cluster: RedisCluster, seeds: range) -> None:
    await walk(f"{redis_cluster.fresh()}&homes=4", seeds)
