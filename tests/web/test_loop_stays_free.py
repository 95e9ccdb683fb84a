"""No request of any role holds the event loop of a server: hostile ones through every route, on large records."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from route_table import Route, routes

from mainspring.api.service import BODY_LIMIT, litestar

HERE = Path(__file__).parent
# Seconds. A request is allowed three times: a machine that is busy with something else may slow one.
MAX_HELD, TRIES = 0.1, 3
STEP = b'"a",'
SECONDS = [f"{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}" for n in range(86_400)]
BOMB = "eyJ-" * 60_000
EVIL = "password=" + "a" * 30_000 + "://:" * 10_000 + " -p" * 10_000


class Server(NamedTuple):
    http: httpx.Client
    keys: dict[str, str]
    names: dict[str, str]

    def held(self) -> float:
        return float(self.http.get("/held").text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path_factory.mktemp('watched')}/jobs.db"
    program = subprocess.Popen([sys.executable, str(HERE / "watched.py"), url], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        said = program.stdout.readline().split()
        assert said, "it did not start"
        place, viewer, operator, admin, job, dead, schedule = said
        with httpx.Client(base_url=place, timeout=60) as http:
            keys = {"viewer": viewer, "operator": operator, "admin": admin}
            yield Server(http, keys, {"job": job, "dead": dead, "schedule": schedule})
    finally:
        program.terminate()
        program.wait(20)


def json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def filled(limit: int, begin: bytes, unit: bytes, end: bytes) -> bytes:
    return begin + unit * ((limit - len(begin) - len(end) - 8) // len(unit)) + end


# Whatever is sent to whatever takes a body.
ANYWHERE = {
    "lists": filled(BODY_LIMIT, b'{"x":[', b"[],", b"1]}"),
    "fewer lists": filled(600_000, b'{"x":[', b"[],", b"1]}"),
    "nested": b'{"x":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "members": b"{" + b",".join(b'"%d":1' % n for n in range(700_000)) + b"}",
    "fewer members": b"{" + b",".join(b'"%d":1' % n for n in range(190_000)) + b"}",
    "texts": filled(BODY_LIMIT, b'{"x":[', b'"a",', b"1]}"),
    "numbers": filled(BODY_LIMIT, b'{"x":[', b"1,", b"1]}"),
    "one text": filled(BODY_LIMIT, b'{"x":"', b"a", b'"}'),
    "escapes": filled(BODY_LIMIT, b'{"x":"', rb"\u0000", b'"}'),
    "digits": filled(1_000_000, b'{"x":', b"1", b"}"),
    "no JSON": b"{" * 8_000_000,
    "quotes": filled(BODY_LIMIT, b'{"x":', b'"', b"}"),
    "nothing": b"",
}
EVERYWHERE = {"fewer lists", "fewer members", "nested", "nothing"}
# For routes that do something with what they take.
OF_ROUTE: dict[str, dict[str, Any]] = {
    "POST /cron/preview": {
        "10,000 times": {"trigger": {"kind": "calendar", "days": 1, "times": SECONDS[:10_000]}, "count": 1000},
        "86,400 times": {"trigger": {"kind": "calendar", "days": 1, "times": SECONDS}, "count": 1000},
        "1,440 times": {
            "trigger": {"kind": "calendar", "days": 1, "times": SECONDS[::60], "tz": "Europe/Berlin"},
            "count": 1000, "after": "2026-03-28T12:00:00Z",
        },
        "each second": {"trigger": "* * * * * *", "tz": "Europe/Berlin", "count": 1000},
        "a leap day": {"trigger": {"kind": "cron", "expr": "0 0 29 2 mon", "day_match": "and"}, "count": 1000},
        "a long expression": {"trigger": "0," * 4_000_000 + "0 * * * *"},
        "a long zone": {"trigger": "0 9 * * *", "tz": "Europe/" + "x" * 8_000_000},
        "a near zone": {"trigger": "0 9 * * *", "tz": "Europe/Lundon"},
        "a long name": {"trigger": "H * * * *", "name": "x" * 8_000_000},
        "weekdays": {"trigger": {"kind": "calendar", "weeks": 1, "weekdays": [1] * 2_000_000, "times": ["09:00"]}},
        "a long time": {"trigger": {"kind": "calendar", "days": 1, "times": ["9" * 8_000_000]}},
        "the last year": {"trigger": "* * * * *", "after": "9999-12-31T23:59:00Z", "count": 1000},
    },
    "POST /schedules": {
        "a window that is never met": {
            "name": "never", "task": "send", "trigger": {"kind": "calendar", "days": 1, "times": ["03:00"]},
            "window": {"opens": "08:00", "closes": "18:00"},
        },
        "weekdays of a window": {
            "name": "days", "task": "send", "trigger": "* * * * *",
            "window": {"opens": "08:00", "closes": "18:00", "days": "mon," * 1_000_000},
        },
        "a weekday that is none": {
            "name": "day", "task": "send", "trigger": "* * * * *",
            "window": {"opens": "08:00", "closes": "18:00", "days": "x" * 8_000_000},
        },
        "dates": {
            "name": "dates", "task": "send", "trigger": "* * * * *",
            "exclude": [f"{2000 + n // 336}-{1 + n // 28 % 12:02}-{1 + n % 28:02}" for n in range(200_000)],
        },
        "dependencies": {
            "name": "waits", "task": "send", "trigger": "* * * * *", "depends_on": [f"s{n}" for n in range(200_000)],
        },
        "a bomb": {"name": "bomb", "task": "send", "trigger": "0 0 1 1 *", "kwargs": {"to": BOMB}},
        "a start in 9999": {"name": "late", "task": "send", "trigger": "* * * * *", "start_at": "9999-12-31T23:59:59Z"},
    },
    "PATCH /schedules/{name:str}": {
        "masked": {"kwargs": {"to": "***", "rows": ["***"] * 190_000}},
        "a bomb": {"kwargs": {"to": BOMB}},
    },
    "POST /schedules/{name:str}/trigger": {"a bomb": {"kwargs": {"to": BOMB}}},
    "POST /schedules/{name:str}/backfill": {
        "ten years": {"start": "2016-01-01T00:00:00Z", "dry_run": True, "limit": 10_000},
    },
    "POST /jobs": {
        "a bomb": {"task": "send", "arguments": {"to": EVIL}, "metadata": {"a": BOMB[:50_000]}},
        "a megabyte": {"task": "send", "arguments": {"rows": [None] * 200_000}},
        "masked": {"task": "send", "arguments": {"rows": ["***"] * 190_000}},
        "many": {"jobs": [{"task": "send", "arguments": {"to": "a" * 8000}}] * 900},
        "many large": {"jobs": [{"task": "send", "arguments": {"rows": [None] * 150_000}}] * 8},
        "tags": {"task": "send", "tags": ["a"] * 1_000_000},
        "an unknown task": {"task": "s" * 200},
        "a long task": {"task": "s" * 8_000_000},
    },
    "PATCH /jobs/{id:str}": {
        "a bomb": {"arguments": {"to": BOMB}}, "masked": {"metadata": {"text": ["***"] * 8, "rows": ["***"] * 9_000}},
        "rows": {"arguments": {"rows": [None] * 200_000}},
    },
    "POST /jobs/bulk": {
        "ids": {"action": "cancel", "ids": [str(n) for n in range(500_000)]},
        "a thousand ids": {"action": "pause", "ids": [f"{n:036}" for n in range(1000)]},
        "names": {"action": "pause", "filter": {"tasks": [str(n) for n in range(500_000)]}, "dry_run": True},
        "an edit": {"action": "update", "all": True, "update": {"arguments": {"to": BOMB}}},
        "a dry run": {"action": "cancel", "all": True, "dry_run": True},
    },
    "POST /dead/redrive": {
        "errors": {"filter": {"errors": ["x" * 100] * 50_000}},
        "masked": {"all": True, "arguments": {"why": "password=***"}},
        "a bomb": {"all": True, "arguments": {"why": BOMB}},
    },
    "POST /session": {"a long key": {"key": "msk_" + "a" * 8_000_000}},
    "POST /webhooks": {
        "a long address": {"name": "long", "url": "https://example.com/" + "a" * 8_000_000, "events": ["job.dead"]},
        "tags": {"name": "t", "url": "https://example.com/", "events": ["job.dead"], "tags": ["a"] * 1_000_000},
        "a long note": {"name": "n", "url": "https://example.com/", "events": ["job.dead"], "note": BOMB},
    },
    "POST /triggers": {
        "a bomb": {"name": "bomb", "task": "send", "kwargs": {"to": BOMB}},
        "paths": {"name": "paths", "task": "send", "arguments": {"to": "body" + ".a" * 3_000_000}},
    },
    "POST /keys": {"scopes": {"name": "k", "role": "viewer", "scopes": ["jobs:read"] * 500_000}},
}  # fmt: skip
# What may stand behind any GET that takes it; the others answer that they do not.
QUERIES = [
    "", "limit=200", "limit=200&full=true", "limit=200&arguments=true", "q=" + "a" * 60_000, "count=1000", "days=7",
    "&".join(f"task=t{n}" for n in range(100)), "error=***", "after=" + "A" * 60_000, "wait=0.01",
    "key_prefix=" + "k" * 60_000, "limit=1000", "target=" + "%7B" * 20_000, "a=1&" * 15_000,
]  # fmt: skip
HEADERS = {
    "a bearer": {"Authorization": "Bearer " + "eyJ-" * 15_000},
    "a token": {"Authorization": "Bearer eyJ" + "a." * 30_000},
    "cookies": {"Cookie": "a=b;" * 15_000}, "etags": {"If-Match": '"a",' * 15_000},
    "a trace": {"traceparent": "00-" + "0" * 60_000},
}  # fmt: skip


def all_routes() -> list[Route]:
    return [route for route in routes(litestar()) if not route.is_page and not route.path.endswith("/events")]


def path_of(route: Route, names: dict[str, str]) -> str:
    kind = "schedule" if "/schedules/" in route.path else "job"
    return re.sub(r"\{[^}]*\}", names[kind], route.path)


def requests(route: Route, server: Server) -> Iterator[tuple[str, dict[str, Any]]]:
    place = path_of(route, server.names)
    own = route.path.removeprefix("/api/v1")
    if route.method in ("GET", "DELETE"):
        for query in QUERIES if route.method == "GET" else [""]:
            yield query[:40], {"url": f"{place}?{query}" if query else place}
        return
    # A body is counted and decoded in one place for all routes: the whole of it goes to some, a part to each.
    for name, body in ANYWHERE.items():
        if own in ("/jobs", "/jobs/bulk", "/schedules", "/hooks/{name:str}") or name in EVERYWHERE:
            yield name, {"url": place, "content": body}
    for name, value in OF_ROUTE.get(f"{route.method} {own}", {}).items():
        yield name, {"url": place, "content": json(value)}


def held(server: Server, method: str, role: str, asked: dict[str, Any]) -> tuple[float, int]:
    """The least of some tries, and the answer's status."""
    best, status = 1e9, 0
    for _ in range(TRIES):
        server.held()
        signed = {"Authorization": f"Bearer {server.keys[role]}", "Content-Type": "application/json"}
        status = server.http.request(method, **{**asked, "headers": signed | asked.get("headers", {})}).status_code
        best = min(best, server.held())
        if best < MAX_HELD:
            break
    return best, status


@pytest.mark.parametrize("route", [route for route in all_routes() if route.method != "DELETE"], ids=str)
def test_no_hostile_request_holds_the_loop(server: Server, route: Route) -> None:
    role = "viewer" if route.role in ("viewer", "anyone") else str(route.role)
    slow = {}
    for name, asked in requests(route, server):
        seconds, status = held(server, route.method, role, asked)
        assert status < 500 or status == 503, (name, status)
        if seconds >= MAX_HELD:
            slow[name] = round(seconds, 3)
    assert slow == {}


def test_no_header_holds_the_loop(server: Server) -> None:
    for name, headers in HEADERS.items():
        seconds, status = held(server, "GET", "viewer", {"url": "/api/v1/queues", "headers": headers})
        assert status in (200, 400, 401, 431), (name, status)
        assert seconds < MAX_HELD, name


def test_each_large_record_is_shown_without_holding_the_loop(server: Server) -> None:
    for path in (
        "jobs/{job}",
        "jobs/{dead}",
        "schedules/{schedule}",
        "jobs/{dead}/executions",
        "jobs/{job}/why",
        "audit",
    ):
        asked = {"url": f"/api/v1/{path.format(**server.names)}"}
        seconds, status = held(server, "GET", "viewer", asked)
        assert (status, seconds < MAX_HELD) == (200, True), (path, seconds)


def test_every_route_that_takes_a_body_of_its_own_is_there() -> None:
    known = {f"{route.method} {route.path.removeprefix('/api/v1')}" for route in all_routes()}
    assert set(OF_ROUTE) <= known
