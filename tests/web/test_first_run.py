"""The token of a first run: printed while there is no key, and valid once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from http_client import Http, browser

from mainspring import Mainspring
from mainspring.api.access.first_run import create_token, sign_in_url
from mainspring.testing import VirtualClock


@pytest.fixture
def http(service: Any) -> Http:
    return browser(service)


async def token_of(spring: Mainspring) -> str:
    token = await create_token(spring)
    assert token is not None
    return token


async def test_the_first_run_token_opens_a_session_once(http: Http, spring: Mainspring) -> None:
    token = await token_of(spring)
    first = await http.post("/session", json={"key": token})
    assert (first.status_code, first.json()["name"], first.json()["role"]) == (200, "first-start", "admin")
    assert (await http.get("/keys")).status_code == 200
    again = await http.post("/session", json={"key": token})
    assert again.status_code == 401


async def test_the_first_run_token_creates_a_key_once(http: Http, spring: Mainspring) -> None:
    mine = {"Authorization": f"Bearer {await token_of(spring)}"}
    made = await http.post("/keys", json={"name": "root", "role": "admin"}, headers=mine)
    assert made.status_code == 201
    assert made.json()["key"]["created_by"] == "first-start"
    assert (await http.post("/keys", json={"name": "other", "role": "admin"}, headers=mine)).status_code == 401
    assert [key.name for key in await spring.keys.list()] == ["root"]


async def test_an_invalid_request_does_not_use_up_the_first_run_token(http: Http, spring: Mainspring) -> None:
    mine = {"Authorization": f"Bearer {await token_of(spring)}"}
    assert (await http.post("/keys", json={"name": "a b"}, headers=mine)).status_code == 422
    assert (await http.post("/keys", json={"name": "root"}, headers=mine)).status_code == 201


async def test_the_first_run_token_is_accepted_for_only_one_of_concurrent_requests(
    service: Any, spring: Mainspring
) -> None:
    token = await token_of(spring)

    async def use(n: int) -> int:
        async with browser(service, f"127.0.0.{n + 1}") as http:
            return (await http.post("/session", json={"key": token})).status_code

    statuses = await asyncio.gather(*(use(n) for n in range(20)))
    assert sorted(statuses) == [200] + [401] * 19


@pytest.mark.parametrize("path", ["/keys", "/queues", "/session"])
async def test_the_first_run_token_is_refused_by_other_routes(http: Http, spring: Mainspring, path: str) -> None:
    mine = {"Authorization": f"Bearer {await token_of(spring)}"}
    answer = await http.get(path, headers=mine)
    assert answer.status_code == 401
    assert "this token works once: for POST /session or POST /keys" in answer.json()["detail"]


async def test_the_first_run_token_expires_after_an_hour(http: Http, spring: Mainspring, clock: VirtualClock) -> None:
    token = await token_of(spring)
    clock.advance(hours=1)
    assert (await http.post("/session", json={"key": token})).status_code == 401


async def test_the_first_run_token_is_void_when_there_is_a_key(http: Http, spring: Mainspring) -> None:
    token = await token_of(spring)
    await spring.keys.create("root", "admin")
    assert (await http.post("/session", json={"key": token})).status_code == 401


async def test_the_next_start_replaces_the_first_run_token(http: Http, spring: Mainspring) -> None:
    first, second = await token_of(spring), await token_of(spring)
    assert (await http.post("/session", json={"key": first})).status_code == 401
    assert (await http.post("/session", json={"key": second})).status_code == 200


async def test_the_first_run_token_is_stored_as_a_hash(spring: Mainspring) -> None:
    token = await token_of(spring)
    assert token.startswith("mst_")
    assert token not in str(await (await spring.connect()).documents("welcome", now=spring.clock.now(), limit=9))


async def test_there_is_no_first_run_token_if_there_is_another_way_to_sign_in(
    spring: Mainspring, clock: VirtualClock
) -> None:
    await spring.keys.create("root", "admin")
    assert await create_token(spring) is None
    tokens = {"jwt_algorithm": "HS256", "jwt_secret": "s" * 32, "jwt_issuer": "a", "jwt_audience": "b"}
    assert await create_token(Mainspring("memory://", clock=clock, **tokens)) is None


def test_the_first_run_token_is_in_the_url_fragment() -> None:
    assert sign_in_url("http://127.0.0.1:8765", "mst_start_abc") == "http://127.0.0.1:8765/#token=mst_start_abc"
