"""The server crashes, cuts connections or is full, or the network fails: no job is lost, and work continues."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from audit import until
from crew import Crew
from ground import on_a_server
from proxy import Mood, Proxy
from trouble import Business, pause

from servers import Postgres

pytestmark = on_a_server


# More of the same with `pytest -m slow`.
@pytest.mark.parametrize(("crashes", "away"), [(2, 0.0), pytest.param(6, 5.0, marks=pytest.mark.slow)])
def test_repeated_crashes_of_postgres_lose_no_job_or_tick(
    clockwork: Crew, postgres: Postgres, crashes: int, away: float
) -> None:
    business = Business(clockwork, 15 * crashes)
    for _ in range(crashes):
        postgres.crash()
        pause(away)
        postgres.start()
        business.went_on()
        pause(0.5)
    business.survived()


OURS = "backend_type = 'client backend' AND application_name LIKE 'mainspring%'"
CUT = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {OURS}"


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_repeatedly_cut_connections_lose_no_job_or_tick(clockwork: Crew, postgres: Postgres, times: int) -> None:
    business = Business(clockwork, 2 * times)
    cut = 0
    for _ in range(times):
        cut += postgres.run(CUT)[0][0]
        pause(0.1)
    business.went_on()
    business.survived()
    assert cut > 2 * times


@pytest.fixture
def cramped(postgres: Postgres) -> Iterator[Postgres]:
    """A server with enough connections for five processes, and few for others to take."""
    postgres.end()
    postgres.start("max_connections=50")
    try:
        yield postgres
    finally:
        postgres.end()
        postgres.start()


class Strangers:
    """Other clients, which take every connection of a server."""

    def __init__(self, server: Postgres) -> None:
        self._server, self._runner, self._held = server, asyncio.Runner(), list[asyncpg.Connection]()

    def crowd_out(self) -> bool:
        """Whether none of our processes has a connection, or can get one."""
        ours = self._server.run(CUT)[0][0]
        self._runner.run(self._come())
        return ours == 0

    async def _come(self) -> None:
        try:
            while True:
                self._held.append(await asyncpg.connect(self._server.dsn, timeout=5))
        except asyncpg.TooManyConnectionsError:
            return

    def leave(self) -> None:
        for connection in self._held:
            self._runner.run(connection.close(timeout=5))
        self._runner.close()


def test_workers_wait_for_a_server_without_a_free_connection(cramped: Postgres, clockwork: Crew) -> None:
    business = Business(clockwork, 20)
    strangers = Strangers(cramped)
    until(strangers.crowd_out)
    until(lambda: all("TooManyConnectionsError" in worker.said() for worker in business.workers))
    strangers.leave()
    business.went_on()
    business.survived()


@pytest.fixture
def proxy(postgres: Postgres, clockwork: Crew) -> Iterator[Proxy]:
    """A proxy between the server and all processes but the test itself."""
    proxy = Proxy(postgres.port)
    clockwork.url = proxy.between(clockwork.url, postgres.port)
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


@pytest.mark.parametrize("mood", ["deaf", pytest.param("dumb", marks=pytest.mark.slow)])
def test_a_hanging_connection_is_replaced_by_a_new_one(clockwork: Crew, proxy: Proxy, mood: Mood) -> None:
    business = Business(clockwork, 40)
    proxy.mood = mood
    until(lambda: not clockwork.client.sync.workers.list())
    proxy.mood = "fair"
    business.went_on()
    business.survived()
