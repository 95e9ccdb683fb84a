"""No request of any role blocks the event loop of a server: hostile requests to every route, on large records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from hostile_requests import FILTERS, HEADERS, OF_ROUTE, OF_STORE, Asked, own_path, requests, requests_of_store
from route_table import Route, routes

from mainspring.api.service import litestar_app
from servers import Postgres, Redis

HERE = Path(__file__).parent
# Seconds. A slow request is tried again, since other load on the machine makes the same work take longer.
MAX_HELD, TRIES = 0.1, 10
# Characters of a live stream that are read: all that is sent at once.
STREAM_CHARACTERS = 2_000_000
# Seconds without data after which a stream has sent all it had.
SILENT = 1.0


class Server(NamedTuple):
    http: httpx.Client
    keys: dict[str, str]
    names: dict[str, str]

    def held(self) -> float:
        return float(self.http.get("/held").text)


def serving(url: str) -> Iterator[Server]:
    program = subprocess.Popen([sys.executable, str(HERE / "watched.py"), url], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        said = program.stdout.readline().split()
        assert said, "it did not start"
        place, viewer, operator, admin, *names = said
        with httpx.Client(base_url=place, timeout=60) as http:
            keys = {"viewer": viewer, "operator": operator, "admin": admin}
            yield Server(http, keys, dict(name.split("=", 1) for name in names))
    finally:
        program.terminate()
        program.wait(20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving(f"sqlite:///{tmp_path_factory.mktemp('watched')}/jobs.db")


@pytest.fixture(scope="module", params=["postgres", "redis"])
def other_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    store: Postgres | Redis = request.getfixturevalue(request.param)
    yield from serving(store.fresh("watched"))


def all_routes() -> list[Route]:
    """Deletes come last, since other requests need what they delete; the live stream has its own test."""
    found = [route for route in routes(litestar_app()) if not route.path.endswith("/events")]
    return sorted(found, key=lambda route: route.method == "DELETE")


def held(server: Server, method: str, role: str, asked: Asked) -> tuple[float, int]:
    """The shortest blocking time of some tries, and the status of the response."""
    best, status = 1e9, 0
    for _ in range(TRIES):
        signed = {"Authorization": f"Bearer {server.keys[role]}", "Content-Type": "application/json"}
        status = server.http.request(method, **{**asked, "headers": signed | asked.get("headers", {})}).status_code
        best = min(best, server.held())
        if best < MAX_HELD:
            break
    return best, status


def check(server: Server, route: Route, corpus: Iterator[tuple[str, Asked]]) -> None:
    role = "viewer" if route.role in ("viewer", "anyone") else str(route.role)
    slow = {}
    server.held()
    for name, asked in corpus:
        seconds, status = held(server, route.method, role, asked)
        assert status < 500 or status == 503, (name, status)
        if seconds >= MAX_HELD:
            slow[name] = round(seconds, 3)
    assert slow == {}


@pytest.mark.parametrize("route", all_routes(), ids=str)
def test_no_hostile_request_blocks_the_event_loop(server: Server, route: Route) -> None:
    check(server, route, requests(route, server.names))


def test_no_hostile_request_blocks_the_event_loop_on_another_store(other_server: Server) -> None:
    for route in all_routes():
        if not route.is_page:
            check(other_server, route, requests_of_store(route, other_server.names))


def test_no_header_blocks_the_event_loop(server: Server) -> None:
    for name, headers in HEADERS.items():
        seconds, status = held(server, "GET", "viewer", {"url": "/api/v1/queues", "headers": headers})
        assert status in (200, 400, 401, 431), (name, status)
        assert seconds < MAX_HELD, name


LARGE_RECORDS = (
    "jobs/{job}", "jobs/{dead}", "schedules/{schedule}", "jobs/{dead}/executions", "jobs/{job}/why", "audit",
    "jobs/{lists}", "jobs/{lists}/why", "jobs/{arguments}",
)  # fmt: skip


def check_large_records(server: Server) -> None:
    for path in LARGE_RECORDS:
        seconds, status = held(server, "GET", "viewer", {"url": f"/api/v1/{path.format(**server.names)}"})
        assert (status, seconds < MAX_HELD) == (200, True), (path, seconds)


def test_each_large_record_is_shown_without_blocking_the_event_loop(server: Server) -> None:
    check_large_records(server)


def test_each_large_record_is_shown_without_blocking_the_event_loop_on_another_store(other_server: Server) -> None:
    check_large_records(other_server)


def followed(server: Server, query: str) -> tuple[float, int]:
    """For how long the event loop was blocked while a reader received the start of a stream."""
    server.held()
    signed, seen = {"Authorization": f"Bearer {server.keys['viewer']}"}, 0
    with httpx.stream("GET", f"{server.http.base_url}/api/v1/events?{query}", headers=signed, timeout=SILENT) as stream:
        try:
            for text in stream.iter_text():
                seen += len(text)
                if seen > STREAM_CHARACTERS:
                    break
        except httpx.ReadTimeout:  # it has sent all it had
            pass
        return server.held(), stream.status_code


def check_stream(server: Server) -> None:
    for query in FILTERS:
        seconds, status = followed(server, query)
        if seconds >= MAX_HELD:
            seconds, status = followed(server, query)
        assert (status, seconds < MAX_HELD) == (200, True), (query[:60], seconds)


def test_a_live_stream_does_not_block_the_event_loop(server: Server) -> None:
    check_stream(server)


def test_a_live_stream_does_not_block_the_event_loop_on_another_store(other_server: Server) -> None:
    check_stream(other_server)


def test_hostile_requests_are_made_for_existing_routes() -> None:
    known = {f"{route.method} {own_path(route)}" for route in all_routes()}
    assert set(OF_ROUTE) <= known
    assert set(OF_STORE) <= set(OF_ROUTE)
