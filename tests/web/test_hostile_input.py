"""Strings and bodies that hurt: a refusal with a reason or an honest answer, on every store, never a 500."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from http_client import browser

from mainspring import Mainspring
from mainspring.api import asgi
from mainspring.api.access.door import Principal

STRINGS = [
    "'", '"; drop table jobs; --', "\\", "%", "_", "\x00", "a\x00b", "\x1b[2J", "\u202e", "💥", "\ufffd", "x" * 5000,
    "{}", "$.x", "../../etc/passwd", "<script>", "NaN", str(2**63), "-1", "null", " ", "\n", "*", "?", "#",
]  # fmt: skip
BODIES = [
    b"", b"nul", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"NaN", b"1e999",
    b"\xff\xfe", b'"\\ud800"', b'{"task":"\\ud800x"}', b'{"task":"\xed\xa0\x80"}', b"null", b"[]", b"0", b"9" * 5000,
    b'{"task":"t","arguments":{"n":1e999}}', b'{"task":"t","arguments":{"n":' + b"9" * 5000 + b"}}",
    b'{"task":"t","arguments":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b'{"task":"t","arguments":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"task":"t","metadata":{"n":9223372036854775808}}', b'{"task":"t","priority":1.5}',
    b'{"action":"cancel","ids":["\\u0000"]}', b'{"action":"cancel","filter":{"queues":["\\u0000"]}}',
    b'{"action":"cancel","filter":{"key_prefix":"\\u0000"}}', b'{"delay":1e308}', b'{"at":"9999-12-31T23:59:59+00:00"}',
    b'{"action":"cancel","filter":{"created_before":"0001-01-01T00:00:00+23:59"}}', b'{"reason":"\\u0000"}',
    b'{"run_at":"9999-12-31T23:59:59-23:59"}', b'{"task":"t","expires":1e9,"run_at":"9999-12-31T23:59:59Z"}',
    b'{"metadata":{"\\u0000":1}}', b'{"tags":["\\u0000"]}', b'{"arguments":{"\\u0000":1}}', b'{"queue":"\\u0000"}',
    b'{"arguments":{"a":"\\u0000"}}', b'{"priority":null}', b'{"timeout":1e-320}', b'{"concurrency":1e3}',
]  # fmt: skip
LISTS = (
    "queue",
    "task",
    "tag",
    "schedule",
    "worker",
    "error",
    "key_prefix",
    "after",
    "state",
    "limit",
    "created_after",
)


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres", "redis"])
def loop_and_http(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service without tasks, which checks least by itself, and the loop that it lives in."""
    match request.param:
        case "memory":
            url = "memory://"
        case "sqlite":
            url = f"sqlite:///{Path(tmp_path_factory.mktemp('hostile'))}/jobs.db"
        case server:
            url = request.getfixturevalue(server).fresh("hostile")
    app = Mainspring(url, durability="relaxed") if request.param == "sqlite" else Mainspring(url)

    async def way(_: Any) -> Principal:
        return Principal(name="key:one", role="admin")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.enqueue("t"))
    yield loop, browser(asgi(app, ways=[way]))
    loop.run_until_complete(app.close())
    loop.close()


def ask(loop_and_http: Any, method: str, path: str, **more: Any) -> Any:
    loop, http = loop_and_http
    return loop.run_until_complete(http.request(method, path, **more))


def honest(answer: Any) -> bool:
    problem = answer.status_code >= 400 and answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code < 300 or (answer.status_code < 500 and problem)


@pytest.mark.parametrize("parameter", LISTS)
def test_no_string_in_a_list_hurts(loop_and_http: Any, parameter: str) -> None:
    for text in STRINGS:
        answer = ask(loop_and_http, "GET", f"/jobs?{parameter}={quote(text)}")
        assert honest(answer), (text, answer.text)
        assert answer.status_code == 400 or parameter == "after" or answer.json()["items"] == []


@pytest.mark.parametrize("query", ["queue=%ff", "queue=%ED%A0%80", "%00=1", "=", "&&&", "queue[]=1", "limit=1&limit=2"])
def test_no_odd_query_hurts(loop_and_http: Any, query: str) -> None:
    assert honest(ask(loop_and_http, "GET", f"/jobs?{query}"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs/{}"), ("DELETE", "/jobs/{}"), ("GET", "/jobs/{}/executions"), ("GET", "/jobs/{}/logs"),
        ("GET", "/jobs/{}/why"), ("GET", "/jobs/{}/stats"), ("POST", "/jobs/{}/cancel"), ("POST", "/jobs/{}/retry"),
        ("GET", "/executions/{}"), ("GET", "/executions/{}.1"), ("GET", "/workers/{}"), ("POST", "/workers/{}/drain"),
        ("GET", "/queues/{}"), ("POST", "/queues/{}/resume"),
    ],
)  # fmt: skip
def test_no_name_in_an_address_hurts(loop_and_http: Any, method: str, path: str) -> None:
    for text in STRINGS:
        answer = ask(loop_and_http, method, path.format(quote(text, safe="")))
        assert honest(answer), (text, answer.text)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/jobs"), ("POST", "/jobs/bulk"), ("POST", "/dead/redrive"), ("PATCH", "/jobs/{}"),
        ("POST", "/jobs/{}/cancel"), ("POST", "/jobs/{}/reschedule"), ("PATCH", "/queues/q"),
        ("POST", "/workers/w/resize"),
    ],
)  # fmt: skip
def test_no_body_hurts(loop_and_http: Any, method: str, path: str) -> None:
    (job, *_) = ask(loop_and_http, "GET", "/jobs?state=pending&state=scheduled&limit=1").json()["items"] or [
        {"id": "x"}
    ]
    for body in BODIES:
        answer = ask(loop_and_http, method, path.format(job["id"]), content=body)
        assert honest(answer), (body[:200], answer.text)


def test_a_body_that_is_nested_too_deeply_is_malformed(loop_and_http: Any) -> None:
    answer = ask(loop_and_http, "POST", "/jobs", content=b'{"arguments":{"a":' + b"[" * 100_000)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_a_body_over_the_limit_is_413(loop_and_http: Any) -> None:
    answer = ask(loop_and_http, "POST", "/jobs", content=b" " * (8 << 20) + b"x")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", ";;"])
def test_what_is_no_json_is_415(loop_and_http: Any, kind: str) -> None:
    answer = ask(loop_and_http, "POST", "/jobs", content=b'{"task":"t"}', headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_json_may_name_its_charset(loop_and_http: Any) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert ask(loop_and_http, "POST", "/jobs", content=b'{"task":"t"}', headers=headers).status_code == 201
