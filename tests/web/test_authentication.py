"""Authentication and authorization of every route, and the security headers of every response."""

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
from mainspring.api.service import asgi, litestar_app
from mainspring.records.api_key import NOUNS, ROLES, Role
from mainspring.testing import VirtualClock

TABLE = list(routes(litestar_app()))
# Routes without authentication: health checks, /session to sign in, and /hooks, whose bodies are signed.
EXEMPT = {"GET /health/live", "GET /health/ready", "POST /api/v1/session", "POST /hooks/{name:str}"}
# Headers that the pages and files of the dashboard set themselves: see test_pages.py.
OWN = {"cache-control", "content-security-policy"}
GUARDED = [route for route in TABLE if route.role != ANYONE]
# The security headers of every response.
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
    """One service for all routes of the table."""
    return asgi(app)


async def key_of(app: Mainspring, name: str, role: Role, scopes: list[str] | None = None) -> dict[str, str]:
    """The headers of a new key; a key of the same name is revoked first."""
    for key in await app.keys.list():
        if key.name == name:
            await app.keys.revoke(name)
    return {"Authorization": f"Bearer {await app.keys.create(name, role, scopes)}"}


def test_the_route_table_contains_known_routes() -> None:
    named = {str(route) for route in TABLE}
    assert {"GET /api/v1/queues", "POST /api/v1/keys", "DELETE /api/v1/session", "GET /openapi.json"} <= named


def test_only_exempt_routes_need_no_authentication() -> None:
    assert {str(route) for route in TABLE if route.role == ANYONE and not route.is_page} <= EXEMPT


@pytest.mark.parametrize("route", TABLE, ids=str)
def test_every_route_declares_a_role(route: Route) -> None:
    assert route.role in (*ROLES, ANYONE)


@pytest.mark.parametrize("route", GUARDED, ids=str)
def test_every_route_has_a_scope_noun(route: Route) -> None:
    assert route.opt.get("unscoped") or route.noun in NOUNS


@pytest.mark.parametrize("route", GUARDED, ids=str)
def test_viewer_routes_change_nothing(route: Route) -> None:
    assert route.method == "GET" or route.role != "viewer" or route.opt.get("reads") or route.opt.get("unscoped")


@pytest.mark.parametrize("route", GUARDED, ids=str)
async def test_every_route_refuses_a_request_without_credentials(whole: Any, route: Route) -> None:
    answer = await call(whole, route)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="mainspring"'


@pytest.mark.parametrize("said", ["Basic YTpi", "Bearer", "Bearer ", "bearer msk_0_a", "msk_0_a", "Bearer\tmsk_0_a"])
async def test_an_invalid_authorization_header_is_401(client: Client, said: str) -> None:
    async with client(None) as http:
        assert (await http.get("/queues", headers={"Authorization": said})).status_code == 401


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", GUARDED, ids=str)
async def test_a_role_allows_its_routes_and_no_others(app: Mainspring, whole: Any, route: Route, role: Role) -> None:
    answer = await call(whole, route, await key_of(app, role, role))
    if route.role is not None and ROLES.index(role) >= ROLES.index(route.role):  # type: ignore[arg-type]
        assert answer.status not in (401, 403)
    else:
        assert answer.status == 403


@pytest.mark.parametrize("route", [route for route in GUARDED if route.scope], ids=str)
async def test_a_scope_allows_its_routes_and_no_others(app: Mainspring, whole: Any, route: Route) -> None:
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
        assert "key:viewer-0 has role viewer; this needs role operator or above" in refused.json()["detail"]


async def test_a_missing_scope_is_named(client: Client) -> None:
    async with client("admin", ["jobs:write"]) as http:
        refused = await http.get("/queues")
        assert refused.json()["detail"] == "key:admin-0 lacks the scope queues:read"


@get("/forgotten")
async def forgotten() -> str:
    return "everything"


def with_route(monkeypatch: pytest.MonkeyPatch, route: HTTPRouteHandler) -> None:
    monkeypatch.setattr(services, "ROUTES", [*services.ROUTES, route])
    monkeypatch.setattr(services, "litestar_app", litestar_app.__wrapped__)


async def test_a_route_without_a_declared_role_is_forbidden(
    spring: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_route(monkeypatch, forgotten)
    admin = {"Authorization": f"Bearer {await spring.keys.create('root', 'admin')}"}
    async with browser(spring.asgi()) as http:
        assert (await http.get("/forgotten")).status_code == 401
        refused = await http.get("/forgotten", headers=admin)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_the_security_docs_have_the_role_of_every_scope() -> None:
    """The page may have nouns without a route."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    told = {noun: (read, write) for noun, read, write in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w*) ?\|$", page, re.M)}
    real: dict[str, tuple[str, str]] = {}
    for route in GUARDED:
        if route.scope:
            read, write = real.get(route.noun, ("", ""))
            assert route.role
            real[route.noun] = (route.role, write) if route.scope.endswith(":read") else (read, route.role)
    assert {noun: roles for noun, roles in told.items() if noun in real} == real


# security headers


@pytest.mark.parametrize("route", TABLE, ids=str)
async def test_every_response_has_the_security_headers(app: Mainspring, whole: Any, route: Route) -> None:
    for who in ({}, await key_of(app, "root", "admin")):
        answer = await call(whole, route, who)
        expected = {name: value for name, value in HEADERS.items() if not route.is_page or name not in OWN}
        assert expected.items() <= answer.headers.items()


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("PUT", "/queues"), ("OPTIONS", "/queues")])
async def test_a_404_response_has_the_security_headers(client: Client, method: str, path: str) -> None:
    async with client("admin") as http:
        answer = await http.request(method, path)
        assert answer.status_code in (404, 405)
        assert HEADERS.items() <= dict(answer.headers).items()


@get("/broken", opt={"role": "viewer"})
async def broken() -> str:
    raise RuntimeError("canary")


async def test_a_500_response_has_the_security_headers_and_no_details(
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
