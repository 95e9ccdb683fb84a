"""app.asgi() mounted in other applications, under a path prefix."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from http_client import browser
from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring import Mainspring

PREFIX = "/ops/jobs"


def in_fastapi(spring: Mainspring) -> Any:
    app = FastAPI()
    app.mount(PREFIX, spring.asgi())
    return app


def in_starlette(spring: Mainspring) -> Any:
    return Starlette(routes=[Mount("/ops", Starlette(routes=[Mount("/jobs", spring.asgi())]))])


def in_django(spring: Mainspring) -> Any:
    """Django has no mounts: requests are routed to the API by their path."""
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    if not settings.configured:
        settings.configure(ROOT_URLCONF=(), DATABASES={"default": {}})
    django, ours = get_asgi_application(), spring.asgi()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            await ours({**scope, "root_path": PREFIX}, receive, send)
        else:
            await django(scope, receive, send)

    return application


def behind_a_proxy(spring: Mainspring) -> Any:
    return behind(spring.asgi())


def behind(ours: Any) -> Any:
    """A proxy that removes the prefix and passes it on as root_path."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await ours(scope | {"path": scope["path"].removeprefix(PREFIX), "root_path": PREFIX}, receive, send)

    return application


Inside = Callable[[Mainspring], Any]
EVERYWHERE = pytest.mark.parametrize("inside", [in_fastapi, in_starlette, in_django, behind_a_proxy])


@asynccontextmanager
async def admin(app: Any, spring: Mainspring) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {await spring.keys.create('admin', 'admin')}"}
    async with browser(app, headers=headers, base_url=f"http://127.0.0.1:8000{PREFIX}") as http, spring:
        yield http


def url(path: str) -> str:
    """The whole URL: the test client would add a prefix to a path."""
    return f"http://127.0.0.1:8000{PREFIX}{path}"


@EVERYWHERE
async def test_routes_are_under_the_prefix(spring: Mainspring, inside: Inside) -> None:
    async with admin(inside(spring), spring) as http:
        made = await http.post(url("/api/v1/jobs"), json={"task": "send", "arguments": {"to": "a@b.c"}})
        assert made.status_code == 201, made.text
        where = httpx.URL(url("/api/v1/jobs")).join(made.headers["Location"])
        assert (await http.get(where)).json()["id"] == made.json()["id"]
        assert (await http.get(url("/health/live"))).status_code == 200
        missing = await http.get(url("/api/v1/nothing"))
        assert (missing.status_code, missing.json()["code"]) == (404, "no_such_route")
        assert missing.json()["instance"] == f"{PREFIX}/api/v1/nothing"
        assert f"{PREFIX}/openapi.json lists" in missing.json()["detail"]


@EVERYWHERE
async def test_a_mounted_api_needs_authentication(spring: Mainspring, inside: Inside) -> None:
    async with browser(inside(spring)) as http, spring:
        assert (await http.get(url("/api/v1/jobs"))).status_code == 401


@EVERYWHERE
async def test_the_openapi_document_has_the_mount_path(spring: Mainspring, inside: Inside) -> None:
    async with admin(inside(spring), spring) as http:
        assert (await http.get(url("/openapi.json"))).json()["servers"] == [{"url": PREFIX}]


@EVERYWHERE
async def test_a_mounted_api_checks_the_origin_of_a_browser(spring: Mainspring, inside: Inside) -> None:
    secret = await spring.keys.create("me", "operator")
    async with browser(inside(spring)) as http, spring:
        page = {"Origin": "http://127.0.0.1:8000"}
        opened = await http.post(url("/api/v1/session"), json={"key": secret}, headers=page)
        assert "Path=/;" in opened.headers["Set-Cookie"]
        job = {"task": "send", "arguments": {"to": "a@b.c"}}
        assert (await http.post(url("/api/v1/jobs"), json=job, headers=page)).status_code == 201
        foreign = await http.post(url("/api/v1/jobs"), json=job, headers={"Origin": "http://evil.example"})
        assert (foreign.status_code, foreign.json()["code"]) == (403, "csrf")


async def test_a_path_that_only_starts_like_the_mount_path_is_not_found(spring: Mainspring) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await spring.asgi()({**scope, "root_path": "/ops"}, receive, send)

    async with browser(application) as http, spring:
        assert (await http.get("http://127.0.0.1:8000/opshealth/live")).status_code == 404


async def test_two_apps_in_one_process_are_separate(spring: Mainspring) -> None:
    other = Mainspring("memory://")
    near, far = spring.asgi(), other.asgi(auth=False)
    async with admin(behind(near), spring) as ours, browser(far) as theirs:
        key = {"Idempotency-Key": "the same"}
        here = await ours.post("/api/v1/jobs", json={"task": "send", "arguments": {"to": "ada"}}, headers=key)
        assert (await theirs.get("/jobs")).json()["items"] == []
        there = await theirs.post("/jobs", json={"task": "another"}, headers=key)
        assert (here.status_code, there.status_code) == (201, 201)
        assert [job["id"] for job in (await ours.get("/api/v1/jobs")).json()["items"]] == [here.json()["id"]]
        assert [job["id"] for job in (await theirs.get("/jobs")).json()["items"]] == [there.json()["id"]]
    await other.close()


async def test_without_a_lifespan_the_first_request_opens_the_store(spring: Mainspring) -> None:
    async with browser(in_fastapi(spring)) as http:
        assert (await http.get(url("/health/ready"))).status_code == 200
        assert spring.is_open
    await spring.close()
    assert not spring.is_open


async def test_a_worker_runs_in_the_lifespan_of_the_host_application() -> None:
    spring = Mainspring("memory://")

    @spring.task
    async def double(n: int) -> int:
        return 2 * n

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with spring, spring.worker():
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount(PREFIX, spring.asgi())
    async with app.router.lifespan_context(app):
        key = await spring.keys.create("me", "operator")
        async with browser(app, headers={"Authorization": f"Bearer {key}"}) as http:
            made = await http.post(url("/api/v1/jobs"), json={"task": "double", "arguments": {"n": 21}})
            ended = await http.get(url(f"/api/v1/jobs/{made.json()['id']}?wait=20"))
    assert (ended.json()["state"], ended.json()["result"]) == ("completed", 42)


async def test_a_request_is_served_after_a_client_disconnected_while_waiting(spring: Mainspring) -> None:
    app = in_fastapi(spring)
    async with admin(app, spring) as http:
        job = await spring.tasks["send"].enqueue(to="a@b.c")
        waiting = asyncio.ensure_future(http.get(url(f"/api/v1/jobs/{job.id}?wait=30")))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await http.get(url(f"/api/v1/jobs/{job.id}"))).status_code == 200


def test_building_the_asgi_application_opens_no_store() -> None:
    code = "from mainspring import Mainspring; app = Mainspring('memory://'); app.asgi(); assert not app.is_open"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


# sign-in hints


@EVERYWHERE
async def test_the_first_request_logs_a_link_that_signs_in(
    spring: Mainspring, inside: Inside, caplog: pytest.LogCaptureFixture
) -> None:
    app = inside(spring)
    async with browser(app, headers={"Host": "evil.example"}) as http, spring:
        await http.get(url("/health/live"))
        (link,) = re.findall(r"open (\S+) \(it signs you in", caplog.text)
        assert link.startswith(f"http://127.0.0.1:8000{PREFIX}/#token=")
        assert "mainspring keys create NAME --role admin --app MODULE:APP" in caplog.text
        caplog.clear()
        opened = await http.post(url("/api/v1/session"), json={"key": link.partition("#token=")[2]})
        assert (opened.status_code, opened.json()["role"]) == (200, "admin")
        assert "signs you in" not in caplog.text


async def test_an_unused_sign_in_link_stays_valid(spring: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    """A host may have several processes, each with its own first request."""
    async with spring:
        for n in range(2):
            async with browser(in_fastapi(spring)) as http:
                await http.get(url("/health/live"))
            assert caplog.text.count("it signs you in") == 1
            assert caplog.text.count("with the link that the first start logged") == n
        token = re.findall(r"#token=(\S+)", caplog.text)[0]
        async with browser(in_fastapi(spring)) as http:
            assert (await http.post(url("/api/v1/session"), json={"key": token})).status_code == 200


async def test_no_sign_in_hint_is_logged_if_there_is_a_key(
    spring: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    async with admin(in_fastapi(spring), spring) as http:
        await http.get(url("/api/v1/jobs"))
    assert "sign" not in caplog.text


async def test_no_sign_in_hint_is_logged_without_sign_in(spring: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async with browser(spring.asgi(auth=False)) as http, spring:
        await http.get("/queues")
    assert "sign" not in caplog.text
