"""POST /jobs: the trace context of the request is stored with its jobs."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import Client
from opentelemetry.sdk.trace import TracerProvider

from mainspring import Mainspring
from mainspring.middleware.tracing import Tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SEND = {"task": "send", "arguments": {"to": "a@b.c"}}


async def metadata(client: Client, spring: Mainspring, body: Any, **headers: str) -> dict[str, Any]:
    async with client("operator") as http:
        answer = (await http.post("/jobs", json=body, headers=headers)).json()
    made = answer["jobs"][0] if "jobs" in answer else answer
    return dict((await spring.jobs.get(made["id"])).metadata)


@pytest.mark.parametrize("body", [SEND, {"jobs": [SEND]}], ids=["one", "many"])
async def test_the_trace_context_of_a_request_is_stored_with_its_jobs(
    client: Client, spring: Mainspring, body: Any
) -> None:
    found = await metadata(client, spring, body, traceparent=PARENT, tracestate="vendor=1")
    assert found == {"traceparent": PARENT, "tracestate": "vendor=1"}


async def test_traceparent_in_metadata_takes_precedence(client: Client, spring: Mainspring) -> None:
    found = await metadata(client, spring, SEND | {"metadata": {"traceparent": "mine", "x": 1}}, traceparent=PARENT)
    assert found == {"traceparent": "mine", "x": 1}


@pytest.mark.parametrize("text", ["", "nonsense", PARENT.upper(), PARENT + "-x", "x" * 5000])
async def test_an_invalid_traceparent_is_ignored(client: Client, spring: Mainspring, text: str) -> None:
    assert await metadata(client, spring, SEND, traceparent=text) == {}


async def test_jobs_of_a_traced_server_have_the_trace_id_of_its_own_span(client: Client, spring: Mainspring) -> None:
    provider = TracerProvider()
    spring.middleware.append(Tracing(provider))
    with provider.get_tracer("tests").start_as_current_span("POST /jobs") as span:
        found = await metadata(client, spring, SEND)
    assert f"{span.get_span_context().trace_id:032x}" in found["traceparent"]
