"""The clusters and sentinels that the tests start: real, can fail over, and leave nothing behind."""

import os
from collections.abc import Iterator

import pytest
import redis.cluster

from clusters import BUS, RedisCluster, RedisWithSentinel, eventually, free_pair, role


@pytest.fixture(scope="module", params=[None, pytest.param("valkey-9", marks=pytest.mark.slow)])
def cluster(request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    if request.param is None:
        shared: RedisCluster = request.getfixturevalue("redis_cluster")
        shared.fresh("")  # other tests leave their keys
        yield shared
        return
    cluster = RedisCluster(chosen=request.param)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module", params=[None, pytest.param("valkey-9", marks=pytest.mark.slow)])
def sentinel(request: pytest.FixtureRequest) -> Iterator[RedisWithSentinel]:
    if request.param is None:
        yield request.getfixturevalue("redis_sentinel")
        return
    sentinel = RedisWithSentinel(request.param)
    try:
        yield sentinel
    finally:
        sentinel.close()


def test_every_node_serves_a_third_of_the_slots(cluster: RedisCluster) -> None:
    ports = [node.port for node in cluster.nodes]
    for node in cluster.nodes:
        ranges = {(low, high): master[1] for low, high, master in node.run("CLUSTER", "SLOTS")}
        assert ranges == dict(zip([(0, 5460), (5461, 10921), (10922, 16383)], ports, strict=True))


def test_a_client_finds_the_node_of_each_key(cluster: RedisCluster) -> None:
    first, *_ = cluster.nodes
    client = redis.cluster.RedisCluster(host="127.0.0.1", port=first.port)
    try:
        for n in range(30):
            client.set(f"{{left:{n}}}:job", n)
        client.set("{right}:job", 1)
        assert all(node.run("KEYS", "{left:*") for node in cluster.nodes)
        ports = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        assert cluster.fresh("left") == cluster.url("left") == f"redis+cluster://{ports}/?prefix=left"
        assert not any(node.run("KEYS", "{left*") for node in cluster.nodes)
        assert client.get("{right}:job") == b"1"
    finally:
        client.close()
        cluster.fresh("right")


@pytest.mark.slow
def test_a_replica_takes_over_the_slots_of_a_crashed_node() -> None:
    cluster = RedisCluster(replicas=1)
    try:
        crashed, copy = cluster.nodes[0], cluster.nodes[3]
        assert cluster.masters == cluster.nodes[:3]
        crashed.crash()
        eventually(lambda: role(copy) == "master", "the copy is a master")
        cluster.wait()
        assert cluster.masters == [*cluster.nodes[1:3], copy]
    finally:
        cluster.close()


def test_sentinels_name_the_master_and_its_replica(sentinel: RedisWithSentinel) -> None:
    master = eventually(sentinel.master, "the sentinels agree")
    assert {master, sentinel.copy()} == {*sentinel.servers}
    ports = ",".join(f"127.0.0.1:{one.port}" for one in sentinel.sentinels)
    assert sentinel.url("left") == f"redis+sentinel://{ports}/main/0?prefix=left"
    master.run("SET", "{left}:job", 1)
    assert sentinel.fresh("left") == sentinel.url("left")
    assert master.run("EXISTS", "{left}:job") == 0


def test_sentinels_name_another_master_after_a_manual_failover(sentinel: RedisWithSentinel) -> None:
    old = sentinel.master()
    assert old is not None
    old.run("SET", "key", "value")
    assert old.run("WAIT", 1, 5000) == 1
    new = sentinel.fail_over()
    assert (sentinel.master(), sentinel.copy(), role(old)) == (new, old, "slave")
    assert new.run("GETDEL", "key") == b"value"


def test_sentinels_name_another_master_after_a_crash(sentinel: RedisWithSentinel) -> None:
    old = sentinel.master()
    new = sentinel.fail_over(crash=True)
    assert old is not None
    assert (sentinel.master(), role(old)) == (new, "")
    sentinel.rejoin(old)
    assert (sentinel.master(), role(old)) == (new, "slave")


def test_closing_a_cluster_and_sentinels_removes_their_processes_and_folders() -> None:
    cluster, sentinel = RedisCluster(1), RedisWithSentinel()
    servers = [*cluster.nodes, *sentinel.servers, *sentinel.sentinels]
    cluster.close()
    sentinel.close()
    for server in servers:
        assert not server.log.parent.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(server.process.pid, 0)


def test_a_free_port_has_a_free_bus_port(redis_cluster: RedisCluster) -> None:
    taken = {port for node in redis_cluster.nodes for port in (node.port, node.port + BUS)}
    assert not [port for port in (free_pair() for _ in range(50)) if {port, port + BUS} & taken]
