"""The OpenAPI document is complete: all routes, codes and references, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_client import Client
from route_table import routes

import mainspring.api
from mainspring.api import problem
from mainspring.api.openapi import openapi_document
from mainspring.api.problem_codes import CODES
from mainspring.api.service import litestar_app

API = Path(mainspring.api.__file__).parent
# The required routes under /api/v1; flows come with issue 8.
WANTED = """
GET POST                jobs
GET PATCH DELETE        jobs/{id}
POST                    jobs/{id}/pause jobs/{id}/resume jobs/{id}/cancel jobs/{id}/retry
GET                     jobs/{id}/executions jobs/{id}/stats jobs/{id}/why jobs/{id}/logs jobs/{id}/output
GET                     jobs/{id}/checkpoints
POST                    jobs/bulk
GET                     jobs/counts
GET                     executions/{id}
GET POST                schedules
GET PATCH DELETE        schedules/{name}
POST                    schedules/{name}/pause schedules/{name}/resume schedules/{name}/trigger
POST                    schedules/{name}/reschedule schedules/{name}/backfill
GET                     schedules/{name}/preview schedules/{name}/executions schedules/{name}/stats
GET                     schedules/{name}/ticks
GET                     queues
PATCH                   queues/{name}
POST                    queues/{name}/pause queues/{name}/resume
GET                     workers
GET                     dead
POST                    dead/redrive
GET                     scheduler/metrics scheduler/distribution
POST                    scheduler/rebalance scheduler/bulk
POST                    cron/preview
GET                     events
GET                     audit
"""
# Routes whose tag is not the first part of their path.
ELSEWHERE = {("/depth", "queues"), ("/scheduler/bulk", "schedules")}
BESIDE = "/health/live", "/health/ready", "/hooks/{name}", "/metrics", "/openapi.json"


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return openapi_document(litestar_app())


def operations(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_openapi_document_has_every_route_and_no_other(spec: dict[str, Any]) -> None:
    served = {
        f"{route.method} {re.sub(':[a-z]+}', '}', route.path)}" for route in routes(litestar_app()) if not route.is_page
    }
    assert {name for name, _ in operations(spec)} == served


def test_the_required_routes_exist(spec: dict[str, Any]) -> None:
    lines = [line.split() for line in WANTED.strip().splitlines()]
    asked = {
        f"{method} /api/v1/{path}"
        for words in lines for method in words if method.isupper() for path in words if not path.isupper()
    }  # fmt: skip
    there = {name for name, _ in operations(spec)}
    assert asked <= there
    assert {path for path in spec["paths"] if not path.startswith("/api/v1/")} == set(BESIDE)


def test_openapi_operations_have_a_unique_id_a_tag_and_a_summary(spec: dict[str, Any]) -> None:
    found = dict(operations(spec))
    names = [operation["operationId"] for operation in found.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+){0,2}", name) for name in names), names
    for name, operation in found.items():
        assert operation["summary"], name
        (tag,) = operation["tags"]
        path = name.split(" ")[1].removeprefix("/api/v1")
        assert path.startswith(f"/{tag}") or (path, tag) in ELSEWHERE, name


def test_every_error_response_is_a_problem_and_no_other_response_is(spec: dict[str, Any]) -> None:
    for name, operation in operations(spec):
        for status, answer in operation["responses"].items():
            kinds = set(answer.get("content", {}))
            if "/health/" in name and status == "503":  # has the same body as a 200 response
                continue
            assert (kinds == {problem.MEDIA_TYPE}) is (int(status) >= 400), f"{name} {status}: {kinds}"


def test_openapi_security_of_authenticated_routes(spec: dict[str, Any]) -> None:
    open_to_all = {name for name, operation in operations(spec) if not operation.get("security")}
    assert {name for name in open_to_all if "health" not in name} == {"POST /api/v1/session", "POST /hooks/{name}"}
    assert set(spec["components"]["securitySchemes"]) == {"bearer", "cookie"}


def test_if_match_goes_with_an_etag_and_idempotency_key_with_a_replay_header(spec: dict[str, Any]) -> None:
    for name, operation in operations(spec):
        headers = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "header"}
        good = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
        assert "If-Match" not in headers or "ETag" in good["headers"], name
        assert ("Idempotency-Key" in headers) is ("Idempotent-Replayed" in good["headers"]), name


def test_openapi_references_resolve(spec: dict[str, Any]) -> None:
    def refs(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(ref := part.get("$ref"), str):
                yield ref
            part = list(part.values())
        for one in part if isinstance(part, list) else ():
            yield from refs(one)

    schemas = spec["components"]["schemas"]
    assert {ref.rpartition("/")[2] for ref in refs(spec)} <= set(schemas)
    assert schemas["Problem"]["properties"]["code"]["enum"] == sorted(CODES)


def test_the_error_codes_of_the_source_are_the_known_codes() -> None:
    said = {code for _, code in problem._STATUS.values()} | set(problem._CODES.values())
    for file in API.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                said |= {one.value for one in ast.walk(node.args[1]) if isinstance(one, ast.Constant)}
    assert {one for one in said if isinstance(one, str)} == set(CODES)


async def test_the_openapi_document_needs_authentication(client: Client) -> None:
    async with client(None) as http:
        assert (await http.get("/openapi.json")).status_code == 401
    async with client("viewer") as http:
        found = (await http.get("/openapi.json")).json()
    assert found["openapi"].startswith("3.1")
    assert found["servers"] == [{"url": "/"}]
