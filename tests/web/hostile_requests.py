"""Requests that are large, deeply nested, numerous or expensive, for every route."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from route_table import Route

from mainspring.api.service import MAX_BODY_BYTES

SECONDS = [f"{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}" for n in range(86_400)]
BOMB = "eyJ-" * 60_000
EVIL = "password=" + "a" * 30_000 + "://:" * 10_000 + " -p" * 10_000
Asked = dict[str, Any]
"""The keywords of an httpx request."""


def json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def filled(limit: int, begin: bytes, unit: bytes, end: bytes) -> bytes:
    return begin + unit * ((limit - len(begin) - len(end) - 8) // len(unit)) + end


# Bodies that are sent to every route that takes a body.
ANYWHERE = {
    "lists": filled(MAX_BODY_BYTES, b'{"x":[', b"[],", b"1]}"),
    "fewer lists": filled(600_000, b'{"x":[', b"[],", b"1]}"),
    "nested": b'{"x":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "members": b"{" + b",".join(b'"%d":1' % n for n in range(700_000)) + b"}",
    "fewer members": b"{" + b",".join(b'"%d":1' % n for n in range(190_000)) + b"}",
    "texts": filled(MAX_BODY_BYTES, b'{"x":[', b'"a",', b"1]}"),
    "numbers": filled(MAX_BODY_BYTES, b'{"x":[', b"1,", b"1]}"),
    "one text": filled(MAX_BODY_BYTES, b'{"x":"', b"a", b'"}'),
    "escapes": filled(MAX_BODY_BYTES, b'{"x":"', rb"\u0000", b'"}'),
    "digits": filled(1_000_000, b'{"x":', b"1", b"}"),
    "no JSON": b"{" * 8_000_000,
    "quotes": filled(MAX_BODY_BYTES, b'{"x":', b'"', b"}"),
    "nothing": b"",
}
EVERYWHERE = {"fewer lists", "fewer members", "nested", "nothing"}
# Bodies for single routes, made for what the route does with them.
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
# The requests that cost a store most: enough to see that another store does not block the event loop either.
OF_STORE = {
    "POST /jobs": ("a bomb", "a megabyte", "many", "many large"),
    "PATCH /jobs/{id:str}": ("a bomb", "rows"),
    "POST /jobs/bulk": ("a thousand ids", "names", "an edit", "a dry run"),
    "POST /dead/redrive": ("errors", "masked"),
    "POST /schedules": ("a bomb", "a window that is never met"),
}
# Values for a name or an id in a path.
NAMES = [
    "a" * 30_000, "%00", "%2F..%2F..%2Fetc%2Fpasswd", "%0A" * 1000, "%F0%9F%92%A3" * 1000, "a%2F" * 1000, "'%22<b>",
]  # fmt: skip
# Query parameters for every GET that has the first of them; the others refuse an unknown one in one place.
QUERIES = [
    "limit=200", "limit=200&full=true", "limit=200&arguments=true", "q=" + "a" * 60_000, "count=1000", "days=7",
    "&".join(f"task=t{n}" for n in range(100)), "error=***", "after=" + "A" * 60_000, "wait=0.01",
    "key_prefix=" + "k" * 60_000, "limit=1000", "target=" + "%7B" * 20_000,
]  # fmt: skip
# No parameters and unknown ones, for every GET.
ANY_QUERIES = ["", "a=1&" * 15_000]
READS_OF_STORE = ("/jobs", "/executions", "/dead", "/schedules", "/audit", "/overview", "/stats")
QUERIES_OF_STORE = ["limit=200&full=true", "&".join(f"task=t{n}" for n in range(100)), "error=***"]
# Query parameters of the live stream.
FILTERS = [
    "last_event_id=0",
    "last_event_id=0&" + "&".join(f"job=j{n}" for n in range(100)),
    "last_event_id=0&" + "&".join(["type=job.failed"] * 99 + ["type=leader"]),
]
HEADERS = {
    "a bearer": {"Authorization": "Bearer " + "eyJ-" * 15_000},
    "a token": {"Authorization": "Bearer eyJ" + "a." * 30_000},
    "cookies": {"Cookie": "a=b;" * 15_000}, "etags": {"If-Match": '"a",' * 15_000},
    "a trace": {"traceparent": "00-" + "0" * 60_000},
}  # fmt: skip


def path_of(route: Route, names: Mapping[str, str]) -> str:
    kind = "schedule" if "/schedules/" in route.path else "job"
    kind = f"doomed_{kind}" if route.method == "DELETE" else kind
    return re.sub(r"\{[^}]*\}", names[kind], route.path)


def requests(route: Route, names: Mapping[str, str]) -> Iterator[tuple[str, Asked]]:
    """All hostile requests to a route, each with a name."""
    place, own = path_of(route, names), own_path(route)
    if route.method in ("GET", "DELETE"):
        for query in queries(route):
            yield query[:40], {"url": f"{place}?{query}" if query else place}
        yield from hostile_names(route)
        return
    # All routes count and decode bodies in one place: some routes get all bodies, the others only some of them.
    for name, body in ANYWHERE.items():
        if own in ("/jobs", "/jobs/bulk", "/schedules", "/hooks/{name:str}") or name in EVERYWHERE:
            yield name, {"url": place, "content": body}
    for name, value in OF_ROUTE.get(f"{route.method} {own}", {}).items():
        yield name, {"url": place, "content": json(value)}


def queries(route: Route) -> list[str]:
    if route.method != "GET":
        return [""]
    return [*ANY_QUERIES, *(query for query in QUERIES if query.partition("=")[0] in route.parameters)]


def requests_of_store(route: Route, names: Mapping[str, str]) -> Iterator[tuple[str, Asked]]:
    """The requests whose cost depends on the store."""
    place, key = path_of(route, names), f"{route.method} {own_path(route)}"
    if route.method == "GET" and own_path(route).startswith(READS_OF_STORE):
        for query in ("", *(one for one in QUERIES_OF_STORE if one.partition("=")[0] in route.parameters)):
            yield query[:40], {"url": f"{place}?{query}" if query else place}
    for name in OF_STORE.get(key, ()):
        yield name, {"url": place, "content": json(OF_ROUTE[key][name])}


def hostile_names(route: Route, names: Sequence[str] = NAMES) -> Iterator[tuple[str, Asked]]:
    if "{" in route.path:
        for name in names:
            yield name[:40], {"url": re.sub(r"\{[^}]*\}", lambda _: name, route.path)}  # noqa: B023


def own_path(route: Route) -> str:
    return route.path.removeprefix("/api/v1")
