"""Secrets planted in user data appear in no response; hidden payloads do not reach viewers."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from http_client import ORIGIN, browser
from litestar.enums import MediaType
from route_table import Route, call, routes

from mainspring import Context, Failure, LogLine, Mainspring, act_as, every
from mainspring.api.access.authenticate import Principal
from mainspring.api.access.redaction import redact_event, redact_for
from mainspring.api.service import asgi, litestar_app
from mainspring.clock import EPOCH
from mainspring.config import Settings
from mainspring.feed.event import FeedEvent, encode
from mainspring.mask import MASK
from mainspring.records.api_key import Role
from mainspring.records.run import Progress
from mainspring.testing import VirtualClock

CANARY = "kan4rienvogel"
# A value that is not masked by its name, but hidden from viewers if payloads are hidden.
PRIVATE = "lebenslauf"
TABLE = list(routes(litestar_app()))


class Planted(NamedTuple):
    service: Any
    admin: dict[str, str]
    viewer: dict[str, str]
    names: dict[str, str]
    """Names of existing records, by noun."""


async def plant(app: Mainspring) -> dict[str, str]:
    """Completed, failed and waiting jobs, and a schedule: each with a value in every field."""

    @app.task(queue="mail", max_retries=0)
    async def send(ctx: Context, password: str, text: str, fail: bool = False) -> dict[str, str]:
        ctx.log.warning("password=%s, %s", password, text)
        ctx.progress(1, 2, f"token={password}")
        ctx.note(secret=password, about=text)
        if fail:
            raise ValueError(f"api_key: {password} of {text}")
        return {"api_key": password, "text": text}

    carried = {"metadata": {"secret": CANARY, "about": PRIVATE}}
    good = await send.using(**carried).enqueue(CANARY, PRIVATE)
    await send.using(**carried).enqueue(CANARY, PRIVATE, fail=True)
    await app.drain()
    waiting = await send.using(delay=3600, **carried).enqueue(CANARY, PRIVATE)
    await app.jobs.cancel(waiting.id, reason=f"password={CANARY}")
    kept = await send.using(delay=3600, **carried).enqueue(CANARY, PRIVATE)
    arguments = {"password": CANARY, "text": PRIVATE}
    await app.schedules.create("nightly", every(days=1), send, kwargs=arguments, **carried)
    await app.schedules.pause("nightly", note=f"token={CANARY}")
    await app.queues.pause("mail")
    with act_as("key:root"):
        await app.jobs.update(kept.id, arguments=arguments)
        await app.schedules.update("nightly", kwargs={**arguments, "fail": True})
        await app.schedules.pause("nightly", note=f"token={CANARY}")
        hook = await app.webhooks.create("chat", f"https://chat.example/in?token={CANARY}", ["job.dead"])
        door = await app.triggers.create("push", task="send", kwargs=arguments, note=f"token={CANARY}")
    assert len(await app.audit.list()) == 5
    return {
        "jobs": good.id, "executions": f"{good.id}.1", "schedules": "nightly", "queues": "mail", "tasks": "send",
        "keys": "nobody", "webhooks": "chat", "triggers": "push", "secrets": f"{hook.secret} {door.secret}",
    }  # fmt: skip


def planted(**settings: Any) -> Planted:
    async def make() -> Planted:
        app = Mainspring("memory://", clock=VirtualClock(), **settings)
        names = await plant(app)

        async def key(role: Role) -> dict[str, str]:
            return {"Authorization": f"Bearer {await app.keys.create(role, role)}", "Origin": ORIGIN}

        return Planted(asgi(app), await key("admin"), await key("viewer"), names)

    return asyncio.run(make())


@pytest.fixture(scope="module")
def usual() -> Planted:
    return planted()


@pytest.fixture(scope="module")
def condemned() -> Planted:
    """A copy for tests that delete what other tests read."""
    return planted()


@pytest.fixture(scope="module")
def hidden() -> Planted:
    return planted(hide_payloads=True)


def path(route: Route, names: dict[str, str]) -> str:
    """The path with the name of an existing record in place of the first parameter."""
    named = route.path
    while "{" in named:
        begin, _, rest = named.partition("{")
        named = begin + names.get(route.noun, "mail") + rest.partition("}")[2]
    return named


@pytest.mark.parametrize("who", ["admin", "viewer"])
@pytest.mark.parametrize("route", TABLE, ids=str)
async def test_no_route_reveals_a_secret(usual: Planted, condemned: Planted, route: Route, who: str) -> None:
    there = condemned if route.method == "DELETE" else usual
    answer = await call(there.service, route, getattr(there, who), path=path(route, there.names))
    for secret in (CANARY, *there.names["secrets"].split()):
        assert secret not in answer.text
        assert secret not in str(answer.headers)


@pytest.mark.parametrize("route", [route for route in TABLE if route.method == "GET"], ids=str)
async def test_no_route_reveals_hidden_payloads_to_viewers(hidden: Planted, route: Route) -> None:
    answer = await call(hidden.service, route, hidden.viewer, path=path(route, hidden.names))
    assert PRIVATE not in answer.text
    assert CANARY not in answer.text


def of(noun: str, ending: str) -> Route:
    gets = (route for route in TABLE if route.method == "GET" and route.noun == noun)
    return next(route for route in gets if route.path.endswith(ending))


async def test_viewers_cannot_filter_by_hidden_errors(hidden: Planted) -> None:
    async def found(who: dict[str, str], error: str) -> list[Any]:
        async with browser(hidden.service, headers=who) as http:
            answer = await http.get("/jobs", params={"state": "dead", "error": error})
            assert answer.status_code == 200, answer.text
            return [job["error"] for job in answer.json()["items"]]

    kind = Failure("ValueError", f"api_key: {CANARY} of {PRIVATE}").kind
    assert len(await found(hidden.admin, kind)) == 1
    assert await found(hidden.viewer, kind) == []
    assert await found(hidden.viewer, "ValueError: ***") == ["ValueError: ***"]


async def test_a_list_with_arguments_reveals_no_hidden_payload(hidden: Planted) -> None:
    async def said(who: dict[str, str]) -> str:
        async with browser(hidden.service, headers=who) as http:
            return (await http.get("/jobs", params={"arguments": "true"})).text

    assert (PRIVATE in await said(hidden.admin), PRIVATE in await said(hidden.viewer)) == (True, False)
    assert CANARY not in await said(hidden.admin)


async def test_live_events_reveal_no_hidden_payload(hidden: Planted) -> None:
    said = FeedEvent(
        type="job.log", at=EPOCH, line=LogLine(1, 1, EPOCH, 20, PRIVATE), error=Failure("ValueError", PRIVATE, PRIVATE),
        progress=Progress(1, EPOCH, 1, note=PRIVATE),
    )  # fmt: skip
    settings, viewer = Settings(hide_payloads=True), Principal(name="key:v", role="viewer")
    with redact_for(viewer, settings):
        assert PRIVATE not in redact_event(said, encode(said))
    with redact_for(Principal(name="key:o", role="operator"), settings):
        assert redact_event(said, encode(said)) == encode(said)
    with redact_for(viewer, Settings()):
        assert redact_event(said, encode(said)) == encode(said)


async def test_admins_see_hidden_payloads(hidden: Planted) -> None:
    one = of("schedules", "/schedules/{name:str}")
    admin = await call(hidden.service, one, hidden.admin, path=path(one, hidden.names))
    viewer = await call(hidden.service, one, hidden.viewer, path=path(one, hidden.names))
    assert (PRIVATE in admin.text, PRIVATE in viewer.text) == (True, False)
    assert MASK in viewer.text


async def test_the_schedule_route_shows_planted_values_and_masks_secrets(usual: Planted) -> None:
    one = of("schedules", "/schedules/{name:str}")
    answer = await call(usual.service, one, usual.viewer, path=path(one, usual.names))
    assert (answer.status, answer.headers["content-type"]) == (200, MediaType.JSON)
    assert PRIVATE in answer.text
    assert MASK in answer.text
