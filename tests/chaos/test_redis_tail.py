"""A Redis server, or its replica, comes back without its last writes: only those are lost, and work continues."""

import os
import random
import time
from collections.abc import Iterator

import pytest
from audit import until
from crew import Crew
from trouble import LAG, Business, Span, pause

from clusters import RedisWithSentinel
from servers import Redis

# Seconds of writes that a server with appendfsync everysec may lose when the power fails.
WINDOW = 1.0
REWRITING = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis(appendonly=True, appendfsync="everysec")
    try:
        yield server
    finally:
        server.close()


class Tail:
    """What the server appends to its file from now on; it can be cut off once the server is gone."""

    def __init__(self, server: Redis) -> None:
        self.since = time.monotonic()
        self._file = max(server.log.parent.rglob("*.aof"), key=lambda path: path.stat().st_mtime)
        self._size = self._file.stat().st_size

    def cut(self, more: int) -> None:
        """Somewhere in the middle of a command, as a rule."""
        os.truncate(self._file, self._size + more)


def rewrite(server: Redis) -> None:
    """Redis leaves the beginning of a transaction that was cut in its file, and takes what comes next for the rest of
    it at the next start (valkey#4342); a new file is without."""
    server.run("BGREWRITEAOF")
    until(lambda: not any(server.run("INFO", "persistence")[name] for name in REWRITING))


@pytest.mark.parametrize("ground", ["keys"], indirect=True)
@pytest.mark.parametrize("crashes", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_a_redis_crash_loses_only_the_writes_of_its_last_second(clockwork: Crew, redis: Redis, crashes: int) -> None:
    seeded, business = random.Random(20300101), Business(clockwork, 20 * crashes)
    lost: list[Span] = []
    for _ in range(crashes):
        tail = Tail(redis)
        pause(0.8 * WINDOW)
        redis.crash()
        pause(0.1)  # for a process that got a reply and has not logged it yet
        tail.cut(seeded.randrange(1000))
        lost.append((tail.since - LAG, time.monotonic()))
        redis.start()
        rewrite(redis)
        assert clockwork.ground.complaints() == []
        business.went_on()
    audit = business.survived(lost)
    assert business.told_within(lost) - audit.jobs.keys()
    assert any("was restored from an older copy" in worker.said() for worker in business.workers)


@pytest.mark.parametrize("ground", ["sentinel"], indirect=True)
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_sentinel_failover_to_a_lagging_replica_loses_only_unreplicated_writes(
    clockwork: Crew, redis_sentinel: RedisWithSentinel, times: int
) -> None:
    business = Business(clockwork, 50 * times)
    lost: list[Span] = []
    for _ in range(times):
        (old,), since = clockwork.ground.servers, time.monotonic()
        redis_sentinel.part()
        pause(0.5)
        old.crash()
        pause(0.1)
        lost.append((since - LAG, time.monotonic()))
        redis_sentinel.elected(old)
        assert clockwork.ground.complaints() == []
        business.went_on()
        redis_sentinel.rejoin(old)
    audit = business.survived(lost)
    assert business.told_within(lost) - audit.jobs.keys()
    assert any("was restored from an older copy" in worker.said() for worker in business.workers)
