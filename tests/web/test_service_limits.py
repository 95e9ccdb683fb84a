"""Limits of bodies, parameters and the time of a read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from http_client import Client, browser
from litestar import Litestar, get
from litestar.middleware import DefineMiddleware

from mainspring.api.deadline import Deadline
from mainspring.api.parameters import MAX_PARAMETERS
from mainspring.api.problem import HANDLERS
from mainspring.api.routes import ROOT_ROUTES, ROUTES
from mainspring.api.service import MAX_BODY_BYTES

JSON = {"Content-Type": "application/json"}
DEEP = 100_000


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("key", [None, "once"])
async def test_a_body_that_is_too_large_is_refused(client: Client, key: str | None) -> None:
    headers = JSON | ({"Idempotency-Key": key} if key else {})
    async with client("operator") as http:
        answer = await http.post("/jobs", content=b" " * (MAX_BODY_BYTES + 1), headers=headers)
        assert code(answer) == (413, "too_large")


@pytest.mark.parametrize("key", [None, "once"])
async def test_a_chunked_body_is_limited_while_it_arrives(client: Client, key: str | None) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**16 + 1):
            yield b" " * 2**16

    headers = JSON | ({"Idempotency-Key": key} if key else {})
    async with client("operator") as http:
        assert code(await http.post("/jobs", content=parts(), headers=headers)) == (413, "too_large")


async def test_a_deeply_nested_body_is_refused(client: Client) -> None:
    opening = b'{"task": "send", "arguments": {"to": '
    async with client("operator") as http:
        answer = await http.post("/jobs", content=opening + b"[" * DEEP + b"]" * DEEP, headers=JSON)
        assert code(answer) == (400, "malformed")
        assert (await http.get("/jobs")).status_code == 200


TOO_MUCH = [
    "/jobs?limit=201", "/jobs?limit=0", "/schedules?limit=1000", "/audit?limit=201", "/jobs/x/logs?limit=1001",
    "/jobs/x?wait=31", "/schedules/x/preview?count=1001", "/dead?limit=1001", f"/jobs?{'task=x&' * 101}",
    f"/jobs?{'tag=x&' * (MAX_PARAMETERS + 1)}", "/jobs?stat=dead", "/jobs?limit=1&limit=2", "/queues?paused=null",
    "/jobs?created_after=2026-01-01T00:00:00", "/jobs?created_after=1767225600", "/stats?window=0",
]  # fmt: skip


@pytest.mark.parametrize("path", TOO_MUCH, ids=lambda path: path[:40])
async def test_a_parameter_out_of_its_range_is_refused(client: Client, path: str) -> None:
    async with client("viewer") as http:
        assert code(await http.get(path)) == (400, "bad_parameter")


LONG: list[tuple[str, dict[str, Any]]] = [
    ("/jobs", {"jobs": [{"task": "send"}] * 1001}),
    ("/jobs/bulk", {"action": "cancel", "ids": ["x"] * 1001}),
    ("/jobs/bulk", {"action": "cancel", "all": True, "limit": 1001}),
    ("/cron/preview", {"trigger": "* * * * *", "count": 1001}),
    ("/cron/preview", {"trigger": "0," * 100_000 + "0 * * * *"}),
    ("/jobs", {"task": "send", "run_at": "2026-01-01T00:00:00"}),
    ("/jobs", {"task": "x" * 201}),
]


@pytest.mark.parametrize(("path", "body"), LONG, ids=lambda one: json.dumps(one)[:40])
async def test_a_body_value_out_of_its_range_is_refused(client: Client, path: str, body: dict[str, Any]) -> None:
    async with client("operator") as http:
        assert (await http.post(path, json=body)).status_code == 422


async def test_a_read_beyond_its_deadline_is_503() -> None:
    stopped = asyncio.Event()

    @get("/slow")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    app = Litestar([slow], middleware=[DefineMiddleware(Deadline, seconds=0.01)], exception_handlers=HANDLERS)
    async with browser(app) as http:
        answer = await http.get("http://127.0.0.1:8000/slow")
    assert code(answer) == (503, "too_slow")
    assert "Retry-After" in answer.headers
    assert stopped.is_set()


def test_only_routes_that_wait_have_no_deadline() -> None:
    waiting = {handler.handler_name for handler in (*ROUTES, *ROOT_ROUTES) if handler.opt.get("waits")}
    assert waiting == {"get_job", "follow_events", "job_output"}
