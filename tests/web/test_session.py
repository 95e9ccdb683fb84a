"""Sessions: sign-in, cookie, expiry, and protection against other sites."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from http_client import ORIGIN, Http, browser

from mainspring import AuditFilter, Mainspring
from mainspring.api.access.sign_in_attempts import ADDRESS_BURST
from mainspring.api.routes.session import MAX_OPENED, MAX_SIGN_IN_BYTES
from mainspring.control.keys import KEY_CACHE_SECONDS
from mainspring.testing import VirtualClock

HERE = {"Origin": ORIGIN}


async def sign_in(http: httpx.AsyncClient, spring: Mainspring, **options: Any) -> httpx.Response:
    secret = await spring.keys.create("ada", **{"role": "operator", **options})
    answer = await http.post("/session", json={"key": secret})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def http(service: Any) -> Http:
    return browser(service)


def said_of(answer: httpx.Response) -> tuple[str, set[str]]:
    """The name and the attributes of the cookie that a response sets."""
    pair, *rest = answer.headers["Set-Cookie"].split("; ")
    return pair.partition("=")[0], set(rest)


# sign-in and sign-out


async def test_a_browser_signs_in_with_a_key_and_reads_its_session(
    http: Http, spring: Mainspring, clock: VirtualClock
) -> None:
    answer = await sign_in(http, spring, scopes=["queues:write"])
    me = {
        "name": "key:ada", "role": "operator", "scopes": ["queues:write"], "expires_at": "2030-01-01T12:00:00Z",
    }  # fmt: skip
    assert answer.json() == me
    assert (await http.get("/session")).json() == me
    assert (await http.get("/queues")).status_code == 200


async def test_a_session_has_the_role_and_scopes_of_its_key(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring, role="viewer")
    assert (await http.post("/queues/mail/pause", headers=HERE)).status_code == 403


async def test_the_secret_of_a_session_is_stored_as_a_hash(http: Http, spring: Mainspring) -> None:
    answer = await sign_in(http, spring)
    secret = answer.headers["Set-Cookie"].split(";")[0].partition("=")[2]
    (kept,) = await (await spring.connect()).documents("session", now=spring.clock.now(), limit=9)
    assert len(secret) == 43
    assert secret not in str(kept)


async def test_signing_out_ends_the_session_and_clears_the_cookie(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring)
    secret = dict(http.cookies)
    gone = await http.delete("/session", headers=HERE)
    assert gone.status_code == 204
    assert "Max-Age=0" in said_of(gone)[1]
    assert dict(http.cookies) == {}
    assert await (await spring.connect()).documents("session", now=spring.clock.now(), limit=9) == []
    http.cookies.update(secret)
    assert (await http.get("/session")).status_code == 401


async def test_signing_out_without_a_session_does_not_revoke_the_key(http: Http, spring: Mainspring) -> None:
    secret = await spring.keys.create("ada")
    mine = {"Authorization": f"Bearer {secret}"}
    assert (await http.delete("/session", headers=mine)).status_code == 204
    assert (await http.get("/session", headers=mine)).status_code == 200


@pytest.mark.parametrize("body", [{}, {"key": 5}, {"key": "a", "role": "admin"}, [], "key"])
async def test_an_invalid_sign_in_body_is_refused(http: Http, body: Any) -> None:
    assert (await http.post("/session", json=body)).status_code == 422


async def test_a_wrong_key_opens_no_session(http: Http, spring: Mainspring) -> None:
    await spring.keys.create("ada")
    wrong = await http.post("/session", json={"key": "msk_0123456789ab_" + "a" * 43})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthenticated")
    assert "Set-Cookie" not in wrong.headers


# expiry


async def test_a_session_ends_after_session_hours_even_if_it_is_used(
    http: Http, spring: Mainspring, clock: VirtualClock
) -> None:
    await sign_in(http, spring)
    for _ in range(11):
        clock.advance(hours=1)
        assert (await http.get("/session")).status_code == 200
    clock.advance(hours=1)
    over = await http.get("/session")
    assert over.status_code == 401
    assert "this session has ended" in over.json()["detail"]
    assert "Max-Age=0" in said_of(over)[1]


async def test_session_hours_is_a_setting(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock, session_hours=0.5)
    async with browser(app.asgi()) as http:
        await sign_in(http, app)
        clock.advance(minutes=30)
        assert (await http.get("/session")).status_code == 401


async def test_a_session_ends_with_its_key(http: Http, spring: Mainspring, clock: VirtualClock) -> None:
    answer = await sign_in(http, spring, expires="1h")
    assert answer.json()["expires_at"] == "2030-01-01T01:00:00Z"
    clock.advance(hours=1)
    assert (await http.get("/session")).status_code == 401


async def test_revoking_a_key_ends_its_sessions_at_once_here_and_within_five_seconds_elsewhere(
    service: Any, spring: Mainspring, clock: VirtualClock
) -> None:
    elsewhere = Mainspring(spring._engine._root, clock=clock)
    async with browser(service) as http, browser(elsewhere.asgi()) as other:
        await sign_in(http, spring)
        other.cookies.update(http.cookies)
        assert (await other.get("/session")).status_code == 200
        await spring.keys.revoke("ada")
        assert (await http.get("/session")).status_code == 401
        clock.advance(seconds=KEY_CACHE_SECONDS)
        assert (await other.get("/session")).status_code == 401


async def test_signing_out_takes_effect_on_other_servers_within_five_seconds(
    service: Any, spring: Mainspring, clock: VirtualClock
) -> None:
    elsewhere = Mainspring(spring._engine._root, clock=clock)
    async with browser(service) as http, browser(elsewhere.asgi()) as other:
        await sign_in(http, spring)
        other.cookies.update(http.cookies)
        assert (await other.get("/session")).status_code == 200
        await http.delete("/session", headers=HERE)
        clock.advance(seconds=KEY_CACHE_SECONDS)
        assert (await other.get("/session")).status_code == 401


async def test_a_key_of_the_same_name_does_not_revive_a_session(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring)
    await spring.keys.revoke("ada")
    await spring.keys.create("ada", "admin")
    assert (await http.get("/session")).status_code == 401


# other sites


@pytest.fixture(scope="module")
def shared() -> tuple[Mainspring, Any]:
    """An app and its service for a whole table of cases."""
    app = Mainspring("memory://", clock=VirtualClock())
    return app, app.asgi()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ORIGIN}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"}, 200),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9000"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://localhost:8000"}, 403),
        ({"Origin": f"{ORIGIN}.evil.example"}, 403),
        ({"Origin": "ftp://127.0.0.1:8000"}, 403),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Referer": f"{ORIGIN}/"}, 403),
    ],
    ids=str,
)
async def test_a_change_by_cookie_needs_the_same_origin(
    shared: tuple[Mainspring, Any], headers: dict[str, str], status: int
) -> None:
    spring, service = shared
    async with browser(service) as http:
        secret = await spring.keys.create(f"ada-{len(await spring.keys.list())}", "operator")
        await http.post("/session", json={"key": secret})
        answer = await http.post("/queues/mail/pause", headers=headers)
        paused = [queue.name for queue in await spring.queues.list() if queue.paused]
        await spring.queues.resume("mail")
    assert (answer.status_code, paused) == (status, ["mail"] if status == 200 else [])
    assert status == 200 or answer.json()["code"] == "csrf"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_every_unsafe_method_by_cookie_needs_the_same_origin(http: Http, spring: Mainspring, method: str) -> None:
    await sign_in(http, spring)
    paths = {"POST": "/queues/mail/pause", "DELETE": "/session", "PATCH": "/schedules/daily", "PUT": "/session"}
    answer = await http.request(method, paths[method])
    assert answer.status_code == (405 if method == "PUT" else 403)


async def test_an_http_origin_is_foreign_to_an_https_server(service: Any, spring: Mainspring) -> None:
    async with browser(service, base_url="https://jobs.example") as http:
        await sign_in(http, spring)
        away = await http.post("/queues/mail/pause", headers={"Origin": "http://jobs.example"})
        home = await http.post("/queues/mail/pause", headers={"Origin": "https://jobs.example"})
        assert (away.status_code, home.status_code) == (403, 200)


async def test_a_change_by_key_needs_no_origin(http: Http, spring: Mainspring) -> None:
    mine = {"Authorization": f"Bearer {await spring.keys.create('ada', 'operator')}", "Origin": "https://evil.example"}
    assert (await http.post("/queues/mail/pause", headers=mine)).status_code == 200


async def test_a_read_by_cookie_needs_no_origin(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring)
    assert (await http.get("/queues")).status_code == 200


async def test_another_site_cannot_sign_a_browser_in(http: Http, spring: Mainspring) -> None:
    secret = await spring.keys.create("ada")
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await http.post("/session", json={"key": secret}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "csrf")


@pytest.mark.parametrize("path", ["/queues", "/session", "/openapi.json", "/nowhere"])
async def test_cors_allows_no_other_origin(http: Http, spring: Mainspring, path: str) -> None:
    await sign_in(http, spring)
    asking = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    before = await http.options(path, headers=asking)
    answer = await http.get(path, headers=asking)
    assert before.status_code in (404, 405)
    for one in (before, answer):
        assert not [name for name in one.headers if name.startswith("access-control-")]


# the cookie


async def test_the_cookie_over_tls_has_the_host_prefix(service: Any, spring: Mainspring) -> None:
    async with browser(service, base_url="https://jobs.example") as http:
        name, words = said_of(await sign_in(http, spring))
        assert (name, words) == ("__Host-mainspring", {"Path=/", "HttpOnly", "SameSite=Strict", "Secure"})
        assert (await http.get("/session")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765"])
async def test_the_cookie_without_tls_on_loopback_is_not_secure(service: Any, spring: Mainspring, host: str) -> None:
    async with browser(service, base_url=f"http://{host}") as http:
        name, words = said_of(await sign_in(http, spring))
        assert (name, words) == ("mainspring-8765", {"Path=/", "HttpOnly", "SameSite=Strict"})
        assert (await http.get("/session")).status_code == 200


async def test_the_cookie_without_tls_elsewhere_is_secure(service: Any, spring: Mainspring) -> None:
    """TLS may end at a proxy before the server; if it does not, the browser refuses the cookie."""
    async with browser(service, base_url="http://jobs.example") as http:
        assert said_of(await sign_in(http, spring))[0] == "__Host-mainspring"


async def test_the_cookie_behind_a_tls_proxy_is_secure_for_any_host(service: Any, spring: Mainspring) -> None:
    secret = await spring.keys.create("ada")
    page = {"Origin": "https://jobs.example", "Sec-Fetch-Site": "same-origin"}
    async with browser(service, headers=page) as http:
        answer = await http.post("/session", json={"key": secret})
        assert said_of(answer)[0] == "__Host-mainspring"
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert (await http.get("/session", headers={"Cookie": cookie})).status_code == 200


async def test_the_cookie_without_tls_is_accepted_on_loopback_only(service: Any, spring: Mainspring) -> None:
    async with browser(service) as http:
        answer = await sign_in(http, spring)
    secret = answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]
    async with browser(service, base_url="http://jobs.example:8000") as http:
        planted = await http.get("/session", headers={"Cookie": f"mainspring-8000={secret}"})
        assert planted.status_code == 401


async def test_the_session_cookie_is_found_among_others(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring)
    ((name, secret),) = http.cookies.items()
    http.cookies.clear()
    crowd = f"a=1; x{name}=no; {name}={secret};b=2"
    assert (await http.get("/session", headers={"Cookie": crowd})).status_code == 200


async def test_a_bearer_key_takes_precedence_over_a_cookie(http: Http, spring: Mainspring) -> None:
    await sign_in(http, spring)
    other = {"Authorization": f"Bearer {await spring.keys.create('bob')}"}
    assert (await http.get("/session", headers=other)).json()["name"] == "key:bob"


# in the audit log


async def came_and_went(spring: Mainspring) -> list[tuple[str, str, str]]:
    found = await spring.audit.list(AuditFilter(action="session"))
    return [(entry.who, entry.action, entry.target) for entry in reversed(found)]


async def test_signing_in_and_out_is_audited(http: Http, spring: Mainspring) -> None:
    key = await spring.keys.create("ada", "admin")
    await http.post("/session", json={"key": key})
    await http.delete("/session", headers={"Origin": ORIGIN})
    assert await came_and_went(spring) == [
        ("key:ada", "session.open", "127.0.0.1"),
        ("key:ada", "session.close", "127.0.0.1"),
    ]


async def test_too_many_failed_sign_ins_are_audited_once_a_minute(
    http: Http, spring: Mainspring, clock: VirtualClock
) -> None:
    for _ in range(ADDRESS_BURST):
        assert (await http.post("/session", json={"key": "wrong"})).status_code == 401
    assert await came_and_went(spring) == []
    for _ in range(20):
        assert (await http.post("/session", json={"key": "wrong"})).status_code == 429
    assert await came_and_went(spring) == [("nobody", "session.refuse", "127.0.0.1")]
    clock.advance(seconds=60)
    for _ in range(ADDRESS_BURST * 2):
        await http.post("/session", json={"key": "wrong"})
    assert len(await came_and_went(spring)) == 2


# limits


async def test_sessions_of_one_key_are_rate_limited(http: Http, spring: Mainspring, clock: VirtualClock) -> None:
    secret = await spring.keys.create("ada", "viewer")
    other = await spring.keys.create("bob", "viewer")
    for _ in range(MAX_OPENED):
        assert (await http.post("/session", json={"key": secret})).status_code == 200
    refused = await http.post("/session", json={"key": secret})
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_attempts")
    store = await spring.connect()
    assert len(await store.documents("session", now=clock.now(), limit=1000)) == MAX_OPENED
    assert (await http.post("/session", json={"key": other})).status_code == 200
    clock.advance(float(refused.headers["Retry-After"]))
    assert (await http.post("/session", json={"key": secret})).status_code == 200


async def test_a_sign_in_with_a_large_body_is_refused(http: Http) -> None:
    answer = await http.post("/session", json={"key": "x" * MAX_SIGN_IN_BYTES})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
