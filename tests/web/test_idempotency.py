"""Idempotency-Key: a repeated request gets the stored response, and is not executed again."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from http_client import Client, browser
from route_table import routes

from mainspring import Mainspring, StoreUnavailable
from mainspring.api import asgi
from mainspring.api.access.authenticate import Principal
from mainspring.api.idempotency import KIND
from mainspring.api.openapi import openapi_document
from mainspring.api.service import litestar_app
from mainspring.testing import VirtualClock

SEND = {"task": "send", "arguments": {"to": "a@example.com"}}
KEY = {"Idempotency-Key": "order-1"}


async def jobs(spring: Mainspring) -> int:
    return len(await spring.jobs.list())


async def test_a_repeated_request_is_replayed_and_creates_no_second_job(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        first = await http.post("/jobs", json=SEND, headers=KEY)
        again = await http.post("/jobs", json=SEND, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.headers["Location"] == again.headers["Location"]
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert await jobs(spring) == 1


async def test_requests_without_idempotency_key_are_not_replayed(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        for _ in range(2):
            await http.post("/jobs", json=SEND)
    assert await jobs(spring) == 2
    assert await (await spring.connect()).documents("answer", now=spring.clock.now(), limit=10) == []


async def test_a_repeated_batch_creates_no_second_jobs(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        first = await http.post("/jobs", json={"jobs": [SEND] * 3}, headers=KEY)
        again = await http.post("/jobs", json={"jobs": [SEND] * 3}, headers=KEY)
    assert first.json() == again.json()
    assert len({job["id"] for job in first.json()["jobs"]}) == 3
    assert await jobs(spring) == 3


async def test_another_request_under_the_same_key_is_refused(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        await http.post("/jobs", json=SEND, headers=KEY)
        other = await http.post("/jobs", json={**SEND, "priority": 5}, headers=KEY)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert await jobs(spring) == 1


async def test_an_idempotency_key_is_scoped_to_route_and_caller(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http, client("operator") as other:
        first = (await http.post("/jobs", json=SEND, headers=KEY)).json()
        assert (await other.post("/jobs", json=SEND, headers=KEY)).json() != first
        paused = await http.post(f"/jobs/{first['id']}/pause", headers=KEY)
        assert (paused.status_code, paused.json()["state"]) == (200, "paused")
    assert await jobs(spring) == 2


async def test_an_error_response_is_replayed(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        first = await http.post("/jobs/nope/cancel", headers=KEY)
        again = await http.post("/jobs/nope/cancel", headers=KEY)
    assert (first.status_code, again.status_code) == (404, 404)
    assert first.content == again.content
    assert again.headers["Content-Type"] == "application/problem+json"
    assert again.headers["Idempotent-Replayed"] == "true"


async def test_a_response_is_replayed_for_a_day(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    async with client("operator") as http:
        await http.post("/jobs", json=SEND, headers=KEY)
        clock.advance(hours=23, minutes=59)
        assert (await http.post("/jobs", json=SEND, headers=KEY)).headers["Idempotent-Replayed"] == "true"
        clock.advance(minutes=1)
        assert "Idempotent-Replayed" not in (await http.post("/jobs", json=SEND, headers=KEY)).headers
    assert await jobs(spring) == 2


async def test_a_forbidden_request_stores_no_response(spring: Mainspring, client: Client) -> None:
    async with client("viewer") as viewer, client(None) as nobody:
        assert (await viewer.post("/jobs", json=SEND, headers=KEY)).status_code == 403
        assert (await nobody.post("/jobs", json=SEND, headers=KEY)).status_code == 401
    assert await (await spring.connect()).documents("answer", now=spring.clock.now(), limit=10) == []


async def test_a_read_only_request_stores_no_response(spring: Mainspring, client: Client) -> None:
    async with client("viewer") as http:
        for n in range(3):
            named = {"Idempotency-Key": f"k{n}"}
            asked = await http.post("/cron/preview", json={"trigger": "0 9 * * *"}, headers=named)
            assert (asked.status_code, len(asked.json()["next"])) == (200, 10)
    assert await (await spring.connect()).documents("answer", now=spring.clock.now(), limit=10) == []


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9", "a\tb"])
async def test_an_invalid_idempotency_key_is_refused(client: Client, key: str) -> None:
    async with client("operator") as http:
        answer = await http.post("/jobs", json=SEND, headers={"Idempotency-Key": key.encode("latin-1")})  # type: ignore[dict-item]
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


async def kept(spring: Mainspring) -> list[str]:
    """All stored responses, as text."""
    return [one.text for one in await (await spring.connect()).documents(KIND, now=spring.clock.now(), limit=100)]


SECRETS = [
    ("/keys", {"name": "deploy", "role": "viewer"}),
    ("/webhooks", {"name": "new", "url": "https://hooks.example.com/", "events": ["job.dead"]}),
    ("/webhooks/ops/rotate", None),
    ("/triggers", {"name": "new", "task": "send"}),
    ("/triggers/orders/rotate", None),
]


@pytest.mark.parametrize(("path", "body"), SECRETS)
async def test_a_response_with_a_secret_is_not_stored(spring: Mainspring, client: Client, path: str, body: Any) -> None:
    await spring.webhooks.create("ops", "https://hooks.example.com/", ["job.dead"])
    await spring.triggers.create("orders", task="send")
    async with client("admin") as http:
        under_a_key = [await http.post(path, json=body, headers=KEY) for _ in range(2)]
        assert {(answer.status_code, answer.json()["code"]) for answer in under_a_key} == {(400, "bad_parameter")}
        without = await http.post(path, json=body)
        again = await http.post(path, json=body, headers=KEY)
    assert without.json()["secret"]
    assert again.status_code == 400
    assert not any(
        "secret" in answer.json() or "Idempotent-Replayed" in answer.headers for answer in [*under_a_key, again]
    )
    assert await kept(spring) == []


async def test_responses_of_routes_that_return_a_secret_are_not_stored(spring: Mainspring) -> None:
    """A new route that returns a secret must not store its responses."""
    app = litestar_app()
    told = {f"/api/v1{path}".replace("/ops/", "/{name}/").replace("/orders/", "/{name}/") for path, _ in SECRETS}
    found = {
        path
        for path, item in openapi_document(app)["paths"].items()
        if "post" in item and tells(openapi_document(app), item["post"])
    }
    unkept = {re.sub(r":\w+}", "}", route.path) for route in routes(app) if route.opt.get("unkept")}
    assert found == unkept == told


def tells(whole: Any, operation: Any) -> bool:
    """Whether a successful response has a secret in it."""
    good = [one for status, one in operation["responses"].items() if status.startswith("2")]
    schemas = [one["schema"] for answer in good for one in answer.get("content", {}).values()]
    named = [
        whole["components"]["schemas"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in schemas
    ]
    return any("secret" in one.get("properties", {}) for one in named)


async def test_a_body_over_the_limit_is_refused(client: Client) -> None:
    async with client("operator") as http:
        answer = await http.post("/jobs", content=b" " * (9 << 20), headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


# concurrent requests, and failures


class Stuck:
    """A store call that waits until it is released."""

    def __init__(self, act: Any) -> None:
        self._act = act
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, *args: Any, **options: Any) -> Any:
        self.reached.set()
        await self.let_go.wait()
        return await self._act(*args, **options)


async def test_a_repeated_request_during_the_first_is_409(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await spring.connect()
    stuck = Stuck(store.enqueue)
    async with client("operator") as http:
        monkeypatch.setattr(store, "enqueue", stuck)
        first = asyncio.create_task(http.post("/jobs", json=SEND, headers=KEY))
        await stuck.reached.wait()
        second = await http.post("/jobs", json=SEND, headers=KEY)
        assert (second.status_code, second.json()["code"]) == (409, "idempotency_in_progress")
        assert second.headers["Retry-After"] == "1"
        stuck.let_go.set()
        assert (await first).status_code == 201
    assert await jobs(spring) == 1


def elsewhere(spring: Mainspring) -> Any:
    """A client of the same principal on another server of the same store."""

    async def way(_: Any) -> Principal:
        return Principal(name="key:one", role="operator")

    return browser(asgi(spring, authenticators=[way]))


async def test_a_repeat_after_a_crash_before_the_response_creates_no_second_job(
    spring: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await spring.connect()
    put = store.put_documents

    async def crash(documents: Any, **options: Any) -> Any:
        if documents[0].kind == "answer" and documents[0].revision > 1:
            raise asyncio.CancelledError  # as if the process had crashed
        return await put(documents, **options)

    async with elsewhere(spring) as dying, elsewhere(spring) as other:
        monkeypatch.setattr(store, "put_documents", crash)
        with pytest.raises(asyncio.CancelledError):
            await dying.post("/jobs", json=SEND, headers=KEY)
        monkeypatch.undo()
        (made,) = await spring.jobs.list()
        early = await other.post("/jobs", json=SEND, headers=KEY)
        assert early.json()["code"] == "idempotency_in_progress"
        clock.advance(timedelta(seconds=60))
        again = await other.post("/jobs", json=SEND, headers=KEY)
        assert (again.status_code, again.json()["id"]) == (201, made.id)
        assert (await dying.post("/jobs", json=SEND, headers=KEY)).headers["Idempotent-Replayed"] == "true"
    assert await jobs(spring) == 1


async def test_a_repeat_after_a_lost_response_has_the_same_job(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await spring.connect()
    enqueue = store.enqueue

    async def unheard(*args: Any, **options: Any) -> Any:
        await enqueue(*args, **options)
        raise StoreUnavailable("the connection is gone")

    async with client("operator") as http:
        monkeypatch.setattr(store, "enqueue", unheard)
        lost = await http.post("/jobs", json=SEND, headers=KEY)
        assert (lost.status_code, lost.headers["Retry-After"]) == (503, "1")
        monkeypatch.undo()
        again = await http.post("/jobs", json=SEND, headers=KEY)
    assert [job.id for job in await spring.jobs.list()] == [again.json()["id"]]


async def test_a_response_is_sent_if_it_cannot_be_stored(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await spring.connect()
    put = store.put_documents

    async def away(documents: Any, **options: Any) -> Any:
        if documents[0].kind == "answer" and documents[0].revision > 1:
            raise StoreUnavailable("restarting")
        return await put(documents, **options)

    async with client("operator") as http:
        monkeypatch.setattr(store, "put_documents", away)
        first = await http.post("/jobs", json=SEND, headers=KEY)
        assert first.status_code == 201
        monkeypatch.undo()
        again = await http.post("/jobs", json=SEND, headers=KEY)
    assert again.json() == first.json()
    assert await jobs(spring) == 1
