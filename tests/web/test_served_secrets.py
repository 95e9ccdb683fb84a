"""A real server: streams hide payloads and end with their key, and anonymous callers see no store address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
from sse import TIMEOUT_SECONDS, serving

from mainspring import Mainspring, every
from mainspring.api import event_stream as module
from servers import Redis

SECRET = "kanarivogel"


def broken(tick: datetime) -> dict[str, Any]:
    raise ValueError(f"no order for {SECRET}")


async def test_a_live_tick_event_hides_the_error_of_a_schedule_input_if_payloads_are_hidden() -> None:
    app = Mainspring("memory://", hide_payloads=True, beat=0.2)

    @app.task
    async def send(to: str) -> None: ...

    app.schedule("often", every(seconds=1), send, input=broken)
    async with serving(app) as site, site.events(type="schedule.passed") as stream, app.worker():
        told = await stream.next("schedule.passed")
    assert told.data["tick"]["reason"] == "input: ValueError: ***"
    assert SECRET not in str(told.data)


async def test_a_stream_of_a_real_server_ends_soon_after_its_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.2)
    app = Mainspring("memory://", beat=0.2)
    async with serving(app) as site:
        secret = await app.keys.create("watcher", "viewer")
        site.http.headers["Authorization"] = f"Bearer {secret}"
        async with site.events() as stream, asyncio.timeout(TIMEOUT_SECONDS):
            assert (await stream.block()) is not None
            await app.keys.revoke("watcher")
            assert (await stream.next("closing")).data["reason"] == "revoked"
            assert await stream.block() is None


async def test_a_stream_ends_soon_after_its_browser_has_signed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.2)
    app = Mainspring("memory://", beat=0.2)
    async with serving(app) as site:
        secret = await app.keys.create("watcher", "viewer")
        here = {"Origin": str(site.http.base_url).removesuffix("/api/v1/")}
        del site.http.headers["Authorization"]
        opened = await site.http.post("/session", json={"key": secret}, headers=here)
        assert opened.status_code == 200, opened.text
        async with site.events() as stream, asyncio.timeout(TIMEOUT_SECONDS):
            assert (await stream.block()) is not None
            assert (await site.http.delete("/session", headers=here)).status_code == 204
            assert (await stream.next("closing")).data["reason"] == "revoked"


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis server that the test may crash."""
    server = Redis()
    try:
        yield server
    finally:
        server.close()


async def test_anonymous_callers_do_not_see_the_address_of_an_unavailable_store(own_redis: Redis) -> None:
    app = Mainspring(own_redis.url())
    async with serving(app) as site:
        own_redis.crash()
        base = str(site.http.base_url).removesuffix("/api/v1/")
        async with httpx.AsyncClient(base_url=base, timeout=TIMEOUT_SECONDS) as stranger:
            for path, headers in (
                ("/api/v1/queues", {"Authorization": "Bearer msk_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}),
                ("/api/v1/session", {"Cookie": "__Host-mainspring=mss_a"}),
                ("/health/ready", {}),
            ):
                answer = await stranger.get(path, headers=headers)
                assert answer.status_code in (401, 503), (path, answer.text)
                assert str(own_redis.port) not in answer.text, path
                assert "redis://" not in answer.text, path
        own_redis.start()
