"""Redis crashes, cuts connections or pauses, or the network fails: no job is lost, and work continues by itself."""

from collections.abc import Iterator

import pytest
from audit import until
from crew import Crew
from proxy import Mood, Proxy
from trouble import RECOVERY, Business, pause
from victim import LEASE

from mainspring.stores.redis.connection import REPLY_SECONDS
from servers import Redis

pytestmark = pytest.mark.parametrize("ground", ["keys"], indirect=True)


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A server that has written to disk what it has acknowledged."""
    server = Redis(appendonly=True, appendfsync="always")
    try:
        yield server
    finally:
        server.close()


# More of the same with `pytest -m slow`.
@pytest.mark.parametrize(("crashes", "away"), [(2, 0.0), pytest.param(6, 5.0, marks=pytest.mark.slow)])
def test_repeated_crashes_of_redis_and_workers_lose_no_job_or_tick(
    clockwork: Crew, redis: Redis, crashes: int, away: float
) -> None:
    business = Business(clockwork, 10 * crashes)
    for _ in range(crashes):
        redis.crash()
        business.lose_a_worker()
        pause(away)
        redis.start()
        assert clockwork.ground.complaints() == []
        business.went_on()
    business.survived()


@pytest.mark.parametrize("times", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_repeatedly_cut_connections_lose_no_job_or_tick(clockwork: Crew, redis: Redis, times: int) -> None:
    business = Business(clockwork, 2 * times)
    cut = 0
    for _ in range(times):
        cut += sum(redis.run("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes") for kind in ("normal", "pubsub"))
        pause(0.1)
    business.went_on()
    business.survived()
    assert cut > 2 * times


@pytest.mark.slow
@pytest.mark.parametrize("what", ["WRITE", "ALL"])
def test_a_redis_pause_longer_than_a_lease_loses_no_job_or_tick(clockwork: Crew, redis: Redis, what: str) -> None:
    business = Business(clockwork, 20)
    naps = clockwork.enqueue("nap", LEASE, times=10)
    until(lambda: {line.id for worker in business.workers for line in worker.lines()} >= {*naps})
    redis.run("CLIENT", "PAUSE", int(1.5 * LEASE * 1000), what)
    business.went_on()
    business.survived()
    assert any(worker.lines("lost") for worker in business.workers)


@pytest.fixture
def proxy(redis: Redis, clockwork: Crew) -> Iterator[Proxy]:
    """A proxy between the server and all processes but the test itself."""
    proxy = Proxy(redis.port)
    clockwork.url = proxy.between(clockwork.url, redis.port)
    try:
        yield proxy
    finally:
        clockwork.close()
        proxy.close()


@pytest.mark.parametrize("times", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_lost_and_truncated_replies_lose_no_job_or_tick(clockwork: Crew, proxy: Proxy, times: int) -> None:
    business = Business(clockwork, 20)
    proxy.mood = "swallow"
    until(lambda: proxy.struck >= times, 5 * times)
    proxy.mood = "torn"
    until(lambda: proxy.struck >= 2 * times, 5 * times)
    proxy.mood = "fair"
    business.went_on()
    business.survived()


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["deaf", "dumb"])
def test_a_hanging_connection_is_replaced_by_a_new_one(clockwork: Crew, proxy: Proxy, mood: Mood) -> None:
    business = Business(clockwork, 40)
    proxy.mood = mood
    until(lambda: not clockwork.client.sync.workers.list())
    proxy.mood = "fair"
    business.went_on(REPLY_SECONDS + RECOVERY)
    business.survived()
