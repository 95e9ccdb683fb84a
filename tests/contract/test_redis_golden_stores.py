"""Stores that earlier releases wrote are decoded, run, edited and read as they were: Redis, alone and in a cluster."""

from pathlib import Path

import pytest

from clusters import SLOTS, RedisCluster
from golden import form
from golden.trial import GoldenStores
from mainspring.stores.redis.url import RedisUrl, slot
from servers import Redis


class TestGoldenRedis(GoldenStores):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.server = redis

    async def load(self, folder: Path) -> str:
        url = self.server.fresh(form.PREFIX)
        form.load_redis(folder / form.REDIS, lambda key: self.server)
        return url


class TestGoldenCluster(GoldenStores):
    @pytest.fixture(autouse=True)
    def _cluster(self, redis_cluster: RedisCluster) -> None:
        self.cluster = redis_cluster

    def node(self, key: str) -> Redis:
        return self.cluster.nodes[slot(key) * len(self.cluster.nodes) // SLOTS]

    async def load(self, folder: Path) -> str:
        url = self.cluster.fresh(form.PREFIX)
        form.load_redis(folder / form.CLUSTER, self.node)
        return url

    async def test_two_phase_commits_of_a_dead_process_are_ended(self, folder: Path) -> None:
        """A decided transaction is written in all shards, an undecided one in none."""
        async with self.opened(folder) as (app, _, _):
            await app.drain(queues=["nothing"])
        bases = RedisUrl(url := self.cluster.url(form.PREFIX), url).bases
        for base in bases[:2]:
            run = self.node(base).run
            assert run("HGET", f"{base}:meta", form.DECIDED) == b"1"
            assert run("HGET", f"{base}:meta", form.UNDECIDED) is None
            assert run("EXISTS", *(f"{base}:{name}" for name in ("promise", "promised", "decided", "lock"))) == 0
