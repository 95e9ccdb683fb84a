"""Names with a slash, sent as %2F in a path."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from http_client import Client, browser
from test_mounting import EVERYWHERE, Inside, admin

from mainspring import Mainspring, every

NAMES = ["reports/daily", "/", "a//b/", "50%2F50", "a/ü?#", "\N{REPLACEMENT CHARACTER}/x"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_schedule_is_found_by_a_name_with_slashes(client: Client, spring: Mainspring, name: str) -> None:
    await spring.schedules.create(name, every(5).minutes, "send", kwargs={"to": "all"})
    path = f"/schedules/{quote(name, safe='')}"
    async with client("operator") as http:
        assert (await http.get(path)).json()["name"] == name
        assert (await http.post(f"{path}/pause", json={"note": "no"})).json()["name"] == name
        assert (await http.get(f"{path}/preview")).status_code == 200
        assert (await http.delete(path)).status_code == 204
    assert await spring.schedules.list() == []


async def test_a_queue_is_paused_by_a_name_with_slashes(client: Client, spring: Mainspring) -> None:
    async with client("operator") as http:
        assert (await http.post("/queues/mail%2fbulk/pause")).status_code == 200
    assert [queue.name for queue in await spring.queues.list() if queue.paused] == ["mail/bulk"]


async def test_an_unencoded_slash_separates_path_parts(client: Client, spring: Mainspring) -> None:
    await spring.schedules.create("a/pause", every(5).minutes, "send", kwargs={"to": "all"})
    await spring.schedules.create("a", every(5).minutes, "send", kwargs={"to": "all"})
    async with client("operator") as http:
        assert (await http.post("/schedules/a/pause")).json()["name"] == "a"
        assert (await http.post("/schedules/a%2Fpause/pause")).json()["name"] == "a/pause"
        assert (await http.get("/schedules/a/pause/now")).status_code == 404


async def test_a_404_problem_has_the_requested_path_as_its_instance(client: Client) -> None:
    async with client("viewer") as http:
        unknown, nowhere = await http.get("/schedules/a%2Fb"), await http.get("/nothing/a%2Fb")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "schedule_not_found")
    assert unknown.json()["instance"] == "/api/v1/schedules/a/b"
    assert (nowhere.status_code, nowhere.json()["instance"]) == (404, "/api/v1/nothing/a/b")


async def test_names_with_slashes_are_not_mixed_up_between_requests(client: Client, spring: Mainspring) -> None:
    for name in ("a/b", "a\udc2fb".encode("utf-8", "surrogatepass").decode("utf-8", "replace")):
        await spring.schedules.create(name, every(5).minutes, "send", kwargs={"to": "all"})
    async with client("viewer") as http:
        for _ in range(2):
            assert (await http.get("/schedules/a%2Fb")).json()["name"] == "a/b"
            assert (await http.get("/schedules/a%ED%B0%AFb")).json()["name"] == "a\ufffd\ufffd\ufffdb"


async def test_an_encoded_slash_does_not_bypass_authorization(client: Client, spring: Mainspring) -> None:
    async with client(None) as nobody, client("viewer") as viewer:
        assert (await nobody.get("/health%2Flive/../api/v1/keys")).status_code in (401, 404)
        assert (await nobody.get("/schedules/a%2Fb")).status_code == 401
        assert (await viewer.post("/schedules/a%2Fb/pause")).status_code == 403


@EVERYWHERE
async def test_names_with_slashes_are_found_under_a_prefix(spring: Mainspring, inside: Inside) -> None:
    async with admin(inside(spring), spring) as http:
        await spring.schedules.create("a/b", every(5).minutes, "send", kwargs={"to": "all"})
        assert (await http.get("/schedules/a%2Fb")).json()["name"] == "a/b"


async def test_a_schedule_is_found_by_name_without_a_raw_path(spring: Mainspring, service: Any) -> None:
    async def untold(scope: Any, receive: Any, send: Any) -> None:
        scope.pop("raw_path", None)
        await service(scope, receive, send)

    await spring.schedules.create("a", every(5).minutes, "send", kwargs={"to": "all"})
    headers = {"Authorization": f"Bearer {await spring.keys.create('one', 'viewer')}"}
    async with browser(untold, headers=headers) as http:
        assert (await http.get("/schedules/a")).json()["name"] == "a"
