"""app.asgi(auth=who): callers authenticated by the login of the application around the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import FastAPI
from http_client import browser
from litestar.connection import ASGIConnection
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.routing import Mount

from mainspring import AuditFilter, BadInput, Mainspring, Principal
from mainspring.api.access.host_login import _HOST_SCOPE, HostAuthenticator

ORIGIN = {"Origin": "http://127.0.0.1:8000"}


async def by_header(scope: Mapping[str, Any]) -> Principal | None:
    """A host that trusts a header of the proxy before it: X-User: ada/operator."""
    given = dict(scope["headers"]).get(b"x-user", b"").decode()
    name, _, role = given.partition("/")
    return Principal(name=name, role=role) if given else None  # type: ignore[arg-type]


def as_user(given: str, **more: str) -> dict[str, str]:
    return {"X-User": given, **more}


async def test_the_host_names_the_caller_and_its_role(spring: Mainspring) -> None:
    async with browser(spring.asgi(auth=by_header)) as http, spring:
        found = (await http.get("/session", headers=as_user("ada/operator"))).json()
        assert (found["name"], found["role"], found.get("expires_at")) == ("host:ada", "operator", None)
        refused = await http.get("/keys", headers=as_user("ada/operator"))
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await http.get("/jobs")).status_code == 401


async def test_scopes_of_the_host_hold(spring: Mainspring) -> None:
    async def who(scope: Mapping[str, Any]) -> Principal | None:
        return Principal(name="ada", role="admin", scopes=("queues:read",))

    async with browser(spring.asgi(auth=who)) as http, spring:
        assert (await http.get("/queues")).status_code == 200
        assert (await http.get("/jobs")).status_code == 403


async def test_changes_are_audited_under_the_name_at_the_host(spring: Mainspring) -> None:
    async with browser(spring.asgi(auth=by_header)) as http, spring:
        answer = await http.post("/queues/mail/pause", headers=as_user("key:root/operator"))
        assert answer.status_code == 200, answer.text
        assert [entry.who for entry in await spring.audit.list(AuditFilter())] == ["host:key:root"]


async def test_keys_go_on_working_for_callers_that_the_host_does_not_know(spring: Mainspring) -> None:
    async with browser(spring.asgi(auth=by_header)) as http, spring:
        key = {"Authorization": f"Bearer {await spring.keys.create('ci', 'viewer')}"}
        assert (await http.get("/session", headers=key)).json()["name"] == "key:ci"
        assert (await http.get("/session", headers=key | as_user("ada/viewer"))).json()["name"] == "host:ada"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Cookie": "sessionid=1"}, 403),  # a browser would have named its page
        ({"Cookie": "sessionid=1", "Origin": "http://evil.example"}, 403),
        ({"Cookie": "sessionid=1", "Sec-Fetch-Site": "cross-site", **ORIGIN}, 403),
        ({"Cookie": "sessionid=1", **ORIGIN}, 200),
        ({"Cookie": "sessionid=1", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),  # credentials that the browser has cached
        ({}, 200),
    ],
)
async def test_pages_of_other_sites_cannot_act_for_a_user_of_the_host(
    spring: Mainspring, headers: dict[str, str], status: int
) -> None:
    async with browser(spring.asgi(auth=by_header)) as http, spring:
        answer = await http.post("/queues/mail/pause", headers=as_user("ada/operator", **headers))
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("made", ["ada", Principal(name=" ", role="viewer"), Principal(name="a", role="staff")])  # type: ignore[arg-type]
async def test_other_values_of_the_host_let_nobody_in(spring: Mainspring, made: Any) -> None:
    async def who(scope: Mapping[str, Any]) -> Principal | None:
        return made

    async with browser(spring.asgi(auth=who)) as http, spring:
        answer = await http.get("/jobs")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "Principal" not in answer.text


def test_auth_that_is_no_coroutine_function_is_refused(spring: Mainspring) -> None:
    with pytest.raises(BadInput, match=r"takes True, False or an `async def who\(scope\)` function"):
        spring.asgi(auth=lambda scope: None)  # type: ignore[arg-type, return-value]


# recipes


class ByHeader(AuthenticationBackend):
    async def authenticate(self, conn: Any) -> Any:
        name = conn.headers.get("x-user")
        return (AuthCredentials(["ops"]), SimpleUser(name)) if name else None


async def by_starlette(scope: Mapping[str, Any]) -> Principal | None:
    user, rights = scope["user"], scope["auth"].scopes
    return Principal(name=user.display_name, role="operator") if "ops" in rights else None


async def test_recipe_for_the_user_of_starlette(spring: Mainspring) -> None:
    web = Starlette(
        routes=[Mount("/ops", spring.asgi(auth=by_starlette))],
        middleware=[Middleware(AuthenticationMiddleware, backend=ByHeader())],
    )
    async with browser(web, base_url="http://127.0.0.1:8000/ops") as http, spring:
        assert (await http.get("/session", headers={"X-User": "ada"})).json()["name"] == "host:ada"
        assert (await http.get("/session")).status_code == 401


async def by_session(scope: Mapping[str, Any]) -> Principal | None:
    name = SESSIONS.get(Request(dict(scope)).cookies.get("session", ""))
    return Principal(name=name, role="admin") if name else None


SESSIONS = {"4711": "ada"}


async def test_recipe_for_a_session_cookie_in_fastapi(spring: Mainspring) -> None:
    web = FastAPI()
    web.mount("/ops", spring.asgi(auth=by_session))
    async with browser(web, base_url="http://127.0.0.1:8000/ops") as http, spring:
        assert (await http.get("/session")).status_code == 401
        assert (await http.get("/session", headers={"Cookie": "session=4711"})).json()["name"] == "host:ada"


async def test_the_user_of_the_host_is_still_there_when_a_stream_asks_again() -> None:
    host = {"type": "http", "method": "GET", "headers": [], "user": SimpleUser("ada"), "auth": AuthCredentials(["ops"])}
    scope: Any = {**host, _HOST_SCOPE: host, "user": Principal(name="host:ada", role="operator")}
    found = await HostAuthenticator(by_starlette)(ASGIConnection(scope))
    assert found == Principal(name="host:ada", role="operator")
