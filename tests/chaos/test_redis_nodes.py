"""Nodes of a Redis Cluster crash or cut us off, and workers die in the middle of steps over several of them."""

from collections.abc import Iterator

import pytest
from crew import Crew
from trouble import Business, pause

from clusters import RedisCluster

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("ground", ["cluster"], indirect=True)]
# A step whose owner died is ended by others when it is so old, in seconds, and then some.
SWEPT = 5.0


@pytest.fixture(scope="module")
def redis_cluster() -> Iterator[RedisCluster]:
    """One that has written down what it says that it has done."""
    cluster = RedisCluster(appendonly=True, appendfsync="always")
    try:
        yield cluster
    finally:
        cluster.close()


def test_nodes_and_workers_that_crash_again_and_again_lose_nothing(
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


def test_a_storm_of_cut_connections_loses_nothing_in_a_cluster(clockwork: Crew, redis_cluster: RedisCluster) -> None:
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
