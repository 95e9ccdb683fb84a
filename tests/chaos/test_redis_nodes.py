"""Nodes of a Redis Cluster crash or cut us off, and workers die in the middle of steps over several of them."""

from collections.abc import Iterator

import pytest
from crew import Crew
from trouble import Business, pause

from clusters import RedisCluster

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("ground", ["cluster"], indirect=True)]
# Seconds after which other processes end the transaction of a dead owner, and some more.
SWEPT = 5.0


@pytest.fixture(scope="module")
def redis_cluster() -> Iterator[RedisCluster]:
    """A server that has written to disk what it has acknowledged."""
    cluster = RedisCluster(appendonly=True, appendfsync="always")
    try:
        yield cluster
    finally:
        cluster.close()


def test_repeated_crashes_of_cluster_nodes_and_workers_lose_no_job_or_tick(
    clockwork: Crew, redis_cluster: RedisCluster
) -> None:
    business = Business(clockwork, 200)
    for number in range(9):
        node = redis_cluster.nodes[number % 3]
        node.crash()
        business.lose_a_worker()
        node.start()
        redis_cluster.wait()
        business.went_on()
    pause(SWEPT)
    business.survived()


def test_repeatedly_cut_connections_to_a_cluster_lose_no_job_or_tick(
    clockwork: Crew, redis_cluster: RedisCluster
) -> None:
    business = Business(clockwork, 200)
    cut = 0
    for _ in range(100):
        for node in redis_cluster.nodes:
            cut += sum(node.run("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes") for kind in ("normal", "pubsub"))
        pause(0.1)
    business.went_on()
    pause(SWEPT)
    business.survived()
    assert cut > 200
