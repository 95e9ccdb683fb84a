"""Who may call which route: the whole table, for everybody, and what no answer leaves out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from http_client import Client, browser
from litestar import get
from litestar.handlers import HTTPRouteHandler
from route_table import Route, call, routes

from mainspring import Mainspring
from mainspring.api import service as services
from mainspring.api.access.authenticate import ANYONE
from mainspring.api.service import asgi, litestar
from mainspring.records.api_key import NOUNS, ROLES, Role
from mainspring.testing import VirtualClock

TABLE = list(routes(litestar()))
# Those that ask nobody who he is: health for whoever watches, /session to sign in, /hooks as its bodies are signed.
EXEMPT = {"GET /health/live", "GET /health/ready", "POST /api/v1/session", "POST /hooks/{name:str}"}
# What the dashboard's pages and files, the same for anybody, say for themselves: see test_pages.py.
OWN = {"cache-control", "content-security-policy"}
GUARDED = [route for route in TABLE if route.role != ANYONE]
# What a browser must be told with every answer, so that it does nothing with it.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.fixture(scope="module")
def app() -> Mainspring:
    return Mainspring("memory://", clock=VirtualClock())


@pytest.fixture(scope="module")
def whole(app: Mainspring) -> Any:
    """One service for the whole table."""
    return asgi(app)


async def key_of(app: Mainspring, name: str, role: Role, scopes: list[str] | None = None) -> dict[str, str]:
    """As headers; what a call has revoked is made again."""
    for key in await app.keys.list():
        if key.name == name:
            await app.keys.revoke(name)
    return {"Authorization": f"Bearer {await app.keys.create(name, role, scopes)}"}


def test_the_table_is_really_read() -> None:
    named = {str(route) for route in TABLE}
    assert {"GET /api/v1/queues", "POST /api/v1/keys", "DELETE /api/v1/session", "GET /openapi.json"} <= named


def test_only_what_is_named_here_asks_nobody_who_he_is() -> None:
    assert {str(route) for route in TABLE if route.role == ANYONE and not route.is_page} <= EXEMPT


def test_every_route_declares_the_role_that_may_call_it() -> None:
    assert [str(route) for route in TABLE if route.role not in (*ROLES, ANYONE)] == []


def test_every_route_has_a_noun_that_a_key_can_be_limited_to() -> None:
    assert [str(route) for route in GUARDED if not route.opt.get("unscoped") and route.noun not in NOUNS] == []


def test_viewers_may_call_only_routes_that_read() -> None:
    writes = [route for route in GUARDED if route.method != "GET" and route.role == "viewer"]
    assert [str(route) for route in writes if not route.opt.get("reads") and not route.opt.get("unscoped")] == []


@pytest.mark.parametrize("route", GUARDED, ids=str)
async def test_nobody_gets_in_without_saying_who_he_is(whole: Any, route: Route) -> None:
    answer = await call(whole, route)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="mainspring"'


@pytest.mark.parametrize("said", ["Basic YTpi", "Bearer", "Bearer ", "bearer msk_0_a", "msk_0_a", "Bearer\tmsk_0_a"])
async def test_what_is_no_key_is_nobody(client: Client, said: str) -> None:
    async with client(None) as http:
        assert (await http.get("/queues", headers={"Authorization": said})).status_code == 401


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", GUARDED, ids=str)
async def test_a_role_opens_what_is_for_it_and_nothing_above(
    app: Mainspring, whole: Any, route: Route, role: Role
) -> None:
    answer = await call(whole, route, await key_of(app, role, role))
    if route.role is not None and ROLES.index(role) >= ROLES.index(route.role):  # type: ignore[arg-type]
        assert answer.status not in (401, 403)
    else:
        assert answer.status == 403


@pytest.mark.parametrize("route", [route for route in GUARDED if route.scope], ids=str)
async def test_a_scope_opens_what_it_names_and_nothing_else(app: Mainspring, whole: Any, route: Route) -> None:
    scope = route.scope or ""
    noun, verb = scope.split(":")
    other = "audit" if noun != "audit" else "jobs"
    allowed = await call(whole, route, await key_of(app, "scoped", "admin", [scope]))
    assert allowed.status not in (401, 403)
    refused = [f"{other}:write", *([f"{noun}:read"] if verb == "write" else [])]
    answer = await call(whole, route, await key_of(app, "scoped", "admin", refused))
    assert answer.status == 403
    if verb == "read":
        writes = await call(whole, route, await key_of(app, "scoped", "admin", [f"{noun}:write"]))
        assert writes.status not in (401, 403)


async def test_a_scope_does_not_raise_a_role(client: Client) -> None:
    async with client("viewer", ["queues:write"]) as http:
        assert (await http.get("/queues")).status_code == 200
        refused = await http.post("/queues/mail/pause")
        assert refused.status_code == 403
        assert "key:viewer-0 is viewer, and this is for role operator or above" in refused.json()["detail"]


async def test_who_lacks_a_scope_is_told_which(client: Client) -> None:
    async with client("admin", ["jobs:write"]) as http:
        refused = await http.get("/queues")
        assert refused.json()["detail"] == "key:admin-0 lacks the scope queues:read"


@get("/forgotten")
async def forgotten() -> str:
    return "everything"


def with_route(monkeypatch: pytest.MonkeyPatch, route: HTTPRouteHandler) -> None:
    monkeypatch.setattr(services, "ROUTES", [*services.ROUTES, route])
    monkeypatch.setattr(services, "litestar", litestar.__wrapped__)


async def test_a_route_that_does_not_say_who_may_is_for_nobody(
    spring: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_route(monkeypatch, forgotten)
    admin = {"Authorization": f"Bearer {await spring.keys.create('root', 'admin')}"}
    async with browser(spring.asgi()) as http:
        assert (await http.get("/forgotten")).status_code == 401
        refused = await http.get("/forgotten", headers=admin)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_the_page_about_roles_is_the_table() -> None:
    """Nouns on the page that have no route yet may wait for it."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    told = {noun: (read, write) for noun, read, write in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w*) ?\|$", page, re.M)}
    real: dict[str, tuple[str, str]] = {}
    for route in GUARDED:
        if route.scope:
            read, write = real.get(route.noun, ("", ""))
            assert route.role
            real[route.noun] = (route.role, write) if route.scope.endswith(":read") else (read, route.role)
    assert {noun: roles for noun, roles in told.items() if noun in real} == real


# what every answer says


@pytest.mark.parametrize("route", TABLE, ids=str)
async def test_every_answer_has_the_headers_that_browsers_heed(app: Mainspring, whole: Any, route: Route) -> None:
    for who in ({}, await key_of(app, "root", "admin")):
        answer = await call(whole, route, who)
        expected = {name: value for name, value in HEADERS.items() if not route.is_page or name not in OWN}
        assert expected.items() <= answer.headers.items()


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("PUT", "/queues"), ("OPTIONS", "/queues")])
async def test_an_answer_about_no_route_has_them_too(client: Client, method: str, path: str) -> None:
    async with client("admin") as http:
        answer = await http.request(method, path)
        assert answer.status_code in (404, 405)
        assert HEADERS.items() <= dict(answer.headers).items()


@get("/broken", opt={"role": "viewer"})
async def broken() -> str:
    raise RuntimeError("canary")


async def test_an_answer_of_what_went_wrong_has_them_too_and_tells_nothing(
    spring: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_route(monkeypatch, broken)
    viewer = {"Authorization": f"Bearer {await spring.keys.create('ada', scopes=['queues:read'])}"}
    admin = {"Authorization": f"Bearer {await spring.keys.create('root', 'admin')}"}
    async with browser(spring.asgi()) as http:
        assert (await http.get("/broken", headers=viewer)).status_code == 403
        answer = await http.get("/broken", headers=admin)
    assert answer.status_code == 500
    assert "canary" not in answer.text
    assert HEADERS.items() <= dict(answer.headers).items()
