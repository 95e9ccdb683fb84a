"""app.webhooks and app.triggers over an API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainspring import BadInput, HookChanged, HookExists, HookNotFound, Mainspring, State
from mainspring.api.server import Server, listen, url_of
from mainspring.records.api_key import Role
from receiver import receiving

URL = "https://hooks.example.com/in"


@asynccontextmanager
async def far_from(near: Mainspring, role: Role = "admin") -> AsyncIterator[Mainspring]:
    """An app that uses the API of another app."""
    listener, server = listen("127.0.0.1", 0), Server(near.asgi(), grace=1)
    async with near:
        running = asyncio.create_task(server.run(listener))
        try:
            async with (
                asyncio.timeout(30),
                Mainspring(url_of(listener), api_key=await near.keys.create("far", role)) as far,
            ):
                yield far
        finally:
            server.stop()
            await running


async def test_webhooks_facade_over_an_api() -> None:
    near = Mainspring("memory://")
    async with far_from(near) as far:
        made = await far.webhooks.create("ops", URL, ["job.dead"], tags=["x"])
        assert made.webhook == await far.webhooks.get("ops") == await near.webhooks.get("ops")
        assert (await far.webhooks.rotate("ops", overlap=60)).secret.startswith("whsec_")
        changed = await far.webhooks.update("ops", note="hi", disabled=True, expected=2)
        assert (changed.note, changed.revision, changed.disabled_at is None) == ("hi", 3, False)
        assert list(await far.webhooks.list()) == list(await near.webhooks.list())
        assert await far.webhooks.standing("ops") == await near.webhooks.standing("ops")
        handle = await far.webhooks.test("ops")
        assert (await handle.job()).state is State.PENDING
        assert [job.id for job in await far.webhooks.deliveries("ops")] == [handle.id]
        with pytest.raises(HookChanged):
            await far.webhooks.update("ops", note="ho", expected=2)
        with pytest.raises(HookExists):
            await far.webhooks.create("ops", URL, ["job.dead"])
        with pytest.raises(BadInput, match="is not public"):
            await far.webhooks.create("in", "https://10.0.0.1/", ["job.dead"])
        await far.webhooks.delete("ops")
        with pytest.raises(HookNotFound, match="there is no webhook 'ops'"):
            await far.webhooks.get("ops")


async def test_triggers_facade_over_an_api() -> None:
    near = Mainspring("memory://")
    async with far_from(near) as far:
        made = await far.triggers.create("orders", task="ship", arguments={"order": "body.id"}, kwargs={"a": 1})
        assert made.trigger == await far.triggers.get("orders") == await near.triggers.get("orders")
        assert (await far.triggers.rotate("orders")).secret != made.secret
        assert (await far.triggers.update("orders", queue="q", expected=2)).queue == "q"
        assert list(await far.triggers.list()) == list(await near.triggers.list())
        await far.triggers.delete("orders")
        assert list(await near.triggers.list()) == []


async def test_cancel_over_an_api_is_delivered_once() -> None:
    near = Mainspring("memory://", webhook_allow="127.0.0.1")

    @near.task
    async def work() -> None: ...

    async with far_from(near) as far, receiving() as receiver:
        await near.webhooks.create("ops", receiver.url, ["job.cancelled"])
        job = await work.using(delay=60).enqueue()
        await far.jobs.cancel(job.id)
        await near.drain()
    assert len(receiver.messages) == 1
