"""The server crashes, cuts us off or is full, and the way there is broken: nothing is lost, and all goes on by itself."""

import time
from collections.abc import Iterator

import pytest
from audit import until
from crew import Crew
from ground import on_a_server
from proxy import Mood, Proxy
from trouble import RECOVERY, Business

from servers import Postgres

pytestmark = on_a_server


@pytest.fixture
def server(postgres: Postgres) -> Postgres:
    return postgres


def test_a_server_that_crashes_again_and_again_loses_nothing(clockwork: Crew, server: Postgres) -> None:
    business = Business(clockwork, 60)
    for _ in range(3):
        server.crash()
        server.start()
        assert business.went_on() <= RECOVERY
    business.survived()


# All of our sessions but the one that says so.
CUT = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


def test_a_storm_of_cut_connections_loses_nothing(clockwork: Crew, server: Postgres) -> None:
    business = Business(clockwork, 50)
    cut = 0
    for _ in range(30):
        cut += server.run(CUT)[0][0]
        again_at = time.monotonic() + 0.1
        until(lambda: time.monotonic() >= again_at)  # noqa: B023
    assert business.went_on() <= RECOVERY
    business.survived()
    assert cut > 100
