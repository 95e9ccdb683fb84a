"""The OpenAPI document describes the routes, their parameters and their responses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from http_client import Client
from litestar.routes import HTTPRoute
from route_table import routes

from mainspring.api.openapi import openapi_document
from mainspring.api.problem_codes import CODES
from mainspring.api.service import litestar_app

APP = litestar_app()
DOCUMENT = openapi_document(APP)
OPERATIONS = [
    (path, method, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
HANDLERS = {
    (method, re.sub(r":[a-z]+\}", "}", route.path)): handler
    for route in APP.routes
    if isinstance(route, HTTPRoute)
    for method, (handler, _) in route.route_handler_map.items()
}


def refs(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(refs, part.values())) if part else own
    return set().union(*map(refs, part)) if isinstance(part, list) and part else set()


def test_every_api_route_is_in_the_openapi_document() -> None:
    # Routes outside of /api/ may be missing: the document itself, and routes that do not return JSON.
    there = {(route.method, re.sub(r":[a-z]+\}", "}", route.path)) for route in routes(APP)}
    told = {(method.upper(), path) for path, method, _ in OPERATIONS}
    assert told <= there
    assert {path for _, path in there - told if path.startswith("/api/")} == set()


def test_every_openapi_reference_resolves() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {ref for ref in refs(DOCUMENT) if ref.rpartition("/")[2] not in schemas} == set()


def refusal_offences(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    """Statuses that an operation must document but does not, and error responses that are not problems."""
    refusals = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
    needed = {"400", "503"}
    if method != "get":
        needed |= {"409", "413", "415", "422"}
    if "{" in path:
        needed.add("404")
    yield from (f"{method} {path} lacks {status}" for status in sorted(needed - set(refusals)))
    if path.startswith("/health/"):
        del refusals["503"]  # the response of a health check, with reasons
    for status, answer in refusals.items():
        if list(answer["content"]) != ["application/problem+json"]:
            yield f"{method} {path} {status}: {list(answer['content'])}"


def test_every_error_response_is_documented_as_a_problem() -> None:
    assert [offence for one in OPERATIONS for offence in refusal_offences(*one)] == []


def test_no_parameter_may_be_null() -> None:
    assert [
        f"{method} {path} {parameter['name']}"
        for path, method, operation in OPERATIONS
        for parameter in operation.get("parameters", ())
        if "null" in str(parameter["schema"])
    ] == []


def test_an_optional_body_is_not_required() -> None:
    optional = set[str]()
    for path, method, operation in OPERATIONS:
        if "requestBody" in operation:
            field = HANDLERS[(method.upper(), path)].parsed_data_field
            assert field
            assert operation["requestBody"]["required"] is not field.has_default
            optional |= {path} if field.has_default else set()
    assert "/api/v1/triggers/{name}/rotate" in optional


def test_authenticated_operations_have_security() -> None:
    for path, method, operation in OPERATIONS:
        anyone = HANDLERS[(method.upper(), path)].opt.get("role") == "anyone"
        assert ("security" in operation) is not anyone
        assert "401" in operation["responses"] or anyone


def test_posts_take_an_idempotency_key() -> None:
    told = {path: str(operation.get("parameters")) for path, method, operation in OPERATIONS if method == "post"}
    assert "Idempotency-Key" in told["/api/v1/jobs"]
    assert "Idempotency-Key" in told["/api/v1/schedules/{name}/trigger"]
    assert "Idempotency-Key" not in told["/api/v1/keys"]


def test_schemas_match_the_encoded_records() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["EnqueueRequest"]["additionalProperties"] is False
    assert schemas["EnqueueRequest"]["properties"]["priority"] == {
        "type": "integer",
        "minimum": -32768,
        "maximum": 32767,
    }
    assert schemas["JobView"]["properties"]["run_at"] == {"type": "string", "format": "date-time"}
    assert "timeout" not in schemas["JobView"]["required"]
    assert {"200", "201"} <= set(DOCUMENT["paths"]["/api/v1/jobs"]["post"]["responses"])
    assert schemas["JobFilter"]["additionalProperties"] is False


async def test_the_openapi_document_is_served(client: Client) -> None:
    async with client("viewer") as http:
        answer = await http.get("/openapi.json")
    assert (answer.status_code, answer.json()["openapi"]) == (200, "3.1.0")
    assert answer.json()["paths"].keys() == DOCUMENT["paths"].keys()


def test_the_api_docs_name_every_error_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)`", page.partition("## Errors")[2]))
    assert sorted(CODES.keys() - told) == []
