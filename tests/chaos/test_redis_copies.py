"""A replica of a Redis Cluster node takes over without its last writes: only those are lost, and nothing is stuck."""

import time
from collections.abc import Iterator

import pytest
from crew import Crew
from trouble import LAG, NAME, Business, pause

from clusters import RedisCluster, eventually, role

# Seconds after which other processes end the transaction of a dead owner, and some more.
SWEPT = 5.0


@pytest.fixture
def redis_cluster() -> Iterator[RedisCluster]:
    cluster = RedisCluster(replicas=1)
    try:
        yield cluster
    finally:
        cluster.close()


# What crosses nodes was done whole, and half of it is gone: a key and its job, a schedule and its job. Within the last
# words a tick may have lost its job, or have got another.
@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("ground", ["cluster"], indirect=True)
def test_a_cluster_failover_to_a_lagging_replica_loses_only_unreplicated_writes(
    clockwork: Crew, redis_cluster: RedisCluster, number: int
) -> None:
    business = Business(clockwork, 120)
    node, since = redis_cluster.nodes[number], time.monotonic()
    copy = redis_cluster.part(node)
    pause(0.5)
    node.crash()
    pause(0.1)
    lost = [(since - LAG, time.monotonic())]
    eventually(lambda: role(copy) == "master", "the copy is a master")
    business.went_on()
    pause(SWEPT)
    audit = business.over()
    promised = {line.id for line in business.client.lines("acknowledged")}
    assert not promised - business.told_within(lost) - audit.jobs.keys(), "I1"
    assert {job.state for job in audit.jobs.values()} == {"completed"}
    assert {tick for job in audit.jobs.values() if (tick := job.scheduled_at)} | {
        tick.at for tick in audit.ticks[NAME]
    } >= set(business.ticks), "I6"
    assert any("was restored from an older copy" in worker.said() for worker in business.workers)
