"""Errors of inputs, audit targets, ETags, streams and anonymous responses reveal nothing that is hidden."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import msgspec
import pytest
from http_client import Client, browser

from mainspring import Key, Mainspring, StoreUnavailable, every
from mainspring.api.access.authenticate import Principal
from mainspring.api.access.redaction import redact_event, redact_for
from mainspring.api.etag import TAG_BYTES
from mainspring.api.routes.job_view import editable_fields
from mainspring.api.sse import CHECK_SECONDS
from mainspring.config import Settings
from mainspring.events import TickPassed
from mainspring.feed.event import encode
from mainspring.feed.from_events import CONVERTERS
from mainspring.records.api_key import ROLES, Role
from mainspring.schedule.record import Tick
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.webhook.message import tick_event

SECRET = "kanarivogel"
NOW = VirtualClock().now()


def broken(tick: datetime) -> dict[str, Any]:
    raise ValueError(f"cannot reach postgres://user:{SECRET}@host/db")


@asynccontextmanager
async def viewer_of(clock: VirtualClock, hides: bool) -> AsyncIterator[httpx.AsyncClient]:
    """A viewer of an app whose schedule has an input that raises; with payloads hidden or not."""
    app = Mainspring("memory://", clock=clock, hide_payloads=hides)

    @app.task
    async def send(to: str) -> None: ...

    app.schedule("nightly", every().minute, send, input=broken)
    key = await app.keys.create("viewer", "viewer")
    await app.schedules.get("nightly")
    clock.advance(seconds=180)
    await app.worker().drain()
    async with browser(app.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        yield http


@pytest.mark.parametrize("hides", [False, True])
async def test_the_error_of_a_schedule_input_is_masked_or_hidden(clock: VirtualClock, hides: bool) -> None:
    async with viewer_of(clock, hides) as http:
        ticks = (await http.get("/schedules/nightly/ticks")).json()
        stats = (await http.get("/schedules/nightly/stats")).json()
    ticks = [tick for tick in ticks if tick["reason"].startswith("input")]
    assert ticks
    assert SECRET not in str((ticks, stats))
    wanted = "input: ValueError: ***" if hides else "input: ValueError: cannot reach postgres://user:***@host/db"
    assert {tick["reason"] for tick in ticks} == {wanted}
    assert stats["reasons"][wanted] == len(ticks)


def test_the_error_of_a_schedule_input_is_masked_in_webhooks_and_hidden_in_live_events() -> None:
    reason = f"input: ValueError: cannot reach postgres://user:{SECRET}@host/db"
    tick = Tick(n=1, at=NOW, seen_at=NOW, what="skipped", reason=reason)
    assert SECRET not in str(tick_event("nightly", tick).facts)
    (notice,) = CONVERTERS[TickPassed](TickPassed(at=NOW, schedule="nightly", tick=tick))
    viewer = Principal(name="v", role="viewer")
    with redact_for(viewer, Settings(hide_payloads=True)):
        shown = redact_event(notice, encode(notice))
    assert msgspec.json.decode(shown)["tick"]["reason"] == "input: ValueError: ***"


async def test_the_audit_log_hides_errors_in_targets_if_payloads_are_hidden(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock, hide_payloads=True)

    @app.task(max_retries=0)
    async def fail() -> None:
        raise ValueError(f"order of {SECRET} is lost")

    await fail.enqueue()
    await app.worker().drain()
    operator, viewer = await app.keys.create("o", "operator"), await app.keys.create("v", "viewer")
    service = app.asgi()
    async with browser(service, headers={"Authorization": f"Bearer {operator}"}) as http:
        (group,) = (await http.get("/dead")).json()["items"]
        assert SECRET in group["error"]
        redrive = {"filter": {"errors": [group["error"]]}}
        assert (await http.post("/dead/redrive", json=redrive)).json()["done"] == 1
    async with browser(service, headers={"Authorization": f"Bearer {viewer}"}) as http:
        entries = (await http.get("/audit")).json()["items"]
    assert any("errors" in entry["target"] for entry in entries)
    assert SECRET not in str(entries)
    assert "ValueError: ***" in str(entries)


async def test_unique_keys_made_of_hidden_arguments_are_hidden(clock: VirtualClock) -> None:
    """A digest of a PIN reveals the PIN, and so does the answer whether a key with that prefix exists."""
    app = Mainspring("memory://", clock=clock, hide_payloads=True)

    @app.task(unique_key=Key(args=True), max_retries=0)
    async def check(pin: str) -> None:
        raise ValueError("wrong")

    handle = await check.enqueue("4711")
    await app.worker().drain()
    await check.enqueue("4711")  # holds the key
    key = (await app.jobs.get(handle.id)).unique_key
    assert key is not None
    digest, seen = key.rpartition(":")[2], dict[Role, str]()
    for role in ROLES:
        signed = {"Authorization": f"Bearer {await app.keys.create(role, role)}"}
        async with browser(app.asgi(), headers=signed) as http:
            paths = (f"/jobs/{handle.id}", "/jobs", "/jobs?full=true", f"/jobs/{handle.id}/why")
            seen[role] = "".join([(await http.get(path)).text for path in paths])
            asked = await http.get("/jobs", params={"key_prefix": key[:8]})
            counted = await http.get("/jobs/counts", params={"key_prefix": key[:8]})
            assert (asked.status_code, counted.status_code) == ((403, 403) if role == "viewer" else (200, 200))
    assert digest not in seen["viewer"]
    assert seen["operator"].count(digest) == seen["admin"].count(digest) > 3


async def test_an_etag_is_not_a_plain_hash_of_the_payload_and_is_the_same_on_every_server(
    spring: Mainspring, client: Client
) -> None:
    """With a plain hash, a caller could find a hidden PIN by hashing ten thousand candidates."""
    handle = await spring.tasks["send"].enqueue(to="1234")
    async with client("viewer") as http:
        tag = (await http.get(f"/jobs/{handle.id}")).headers["etag"].strip('"')
        again = (await http.get(f"/jobs/{handle.id}")).headers["etag"].strip('"')
    text = editable_fields(await spring.jobs.get(handle.id))
    assert tag == again
    assert tag != hashlib.blake2b(text, digest_size=TAG_BYTES).hexdigest()
    from mainspring.api import etag

    etag._secrets.clear()  # as another server of the same store
    async with client("operator") as http:
        assert (await http.get(f"/jobs/{handle.id}")).headers["etag"].strip('"') == tag
        edit = {"priority": 3}
        path = f"/jobs/{handle.id}"
        assert (await http.patch(path, json=edit, headers={"If-Match": f'"{tag}"'})).status_code == 200
        assert (await http.patch(path, json=edit, headers={"If-Match": f'"{tag}"'})).status_code == 412


async def test_anonymous_callers_do_not_see_store_errors(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await spring.keys.create("viewer", "viewer")

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("cannot reach postgresql://inside.example:5432/jobs")

    for verb in ("documents", "time", "jobs", "overview"):
        monkeypatch.setattr(MemoryStore, verb, away)
    async with client(None) as http:
        for path, headers in (
            ("/queues", {"Authorization": f"Bearer {key}"}),
            ("/session", {"Cookie": "__Host-mainspring=mss_a"}),
            ("/health/ready", {}),
        ):
            answer = await http.get(path, headers=headers)
            assert answer.status_code in (401, 503), path
            assert "inside.example" not in answer.text, path


async def test_store_errors_of_anonymous_callers_are_logged_once_a_minute(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("cannot reach it")

    monkeypatch.setattr(MemoryStore, "documents", away)
    signed = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    async with client(None) as http:
        for n in range(20):
            answer = await http.post(f"/hooks/x{n}%0Aforged", content=b"{}", headers=signed)
            assert answer.status_code == 503
    told = [one.getMessage() for one in caplog.records if one.name == "mainspring"]
    assert len(told) <= 2  # one is the sign-in hint at the first request
    assert "forged" not in "".join(told)


async def test_a_request_path_cannot_forge_a_log_line(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    async with client() as http:
        monkeypatch.setattr(MemoryStore, "overview", bug)
        assert (await http.get(f"/queues/%0A2030-01-01 CRITICAL forged{'x' * 5000}")).status_code == 500
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert line.startswith(r"GET '/api/v1/queues/\n2030-01-01 CRITICAL forged")
    assert len(line) < 300


async def passing(clock: VirtualClock) -> None:
    """Advances the clock by some seconds, one at a time, and lets the event loop run in between."""
    for _ in range(int(2 * CHECK_SECONDS)):
        clock.advance(seconds=1)
        for _ in range(20):
            await asyncio.sleep(0)


async def test_a_stream_ends_when_its_key_is_revoked(spring: Mainspring, service: Any, clock: VirtualClock) -> None:
    secret = await spring.keys.create("watcher", "viewer")
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "scheme": "http", "method": "GET",
        "path": "/api/v1/events", "raw_path": b"/api/v1/events", "query_string": b"", "root_path": "",
        "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8000), "state": {},
        "headers": [(b"host", b"127.0.0.1:8000"), (b"authorization", f"Bearer {secret}".encode())],
    }  # fmt: skip
    stream = asyncio.ensure_future(service(scope, receive, send))
    try:
        await passing(clock)
        assert sent
        assert not stream.done()
        await spring.keys.revoke("watcher")
        await passing(clock)
        await asyncio.wait([stream], timeout=5)
        assert stream.done()
        assert b'"reason": "revoked"' in b"".join(message.get("body", b"") for message in sent)
    finally:
        gone.set()
        stream.cancel()


@pytest.mark.parametrize("ending", ["\n", "\r", " "])
async def test_names_that_end_in_whitespace_are_refused(client: Client, ending: str) -> None:
    id = "01b8dfec-13e8-705a-85c0-a97b2742f5d5"
    async with client("admin") as http:
        assert (await http.post("/jobs", json={"task": "fail", "id": id})).status_code == 201
        for path, body in (
            ("/jobs", {"task": "fail", "id": id + ending}),
            ("/webhooks", {"name": f"out{ending}", "url": "https://example.com", "events": ["job.dead"]}),
            ("/triggers", {"name": f"in{ending}", "task": "fail"}),
            ("/keys", {"name": f"key{ending}", "role": "viewer"}),
            ("/schedules", {"name": f"nightly{ending}", "task": "fail", "trigger": "0 8 * * *"}),
        ):
            assert (await http.post(path, json=body)).status_code == 422, path


@pytest.mark.parametrize("levels", [300, 499, 961, 5000])
async def test_metadata_that_is_nested_too_deeply_is_refused(client: Client, levels: int) -> None:
    body = f'{{"task": "fail", "metadata": {{"a": {"[" * levels}{"]" * levels}}}}}'
    async with client("operator") as http:
        answer = await http.post("/jobs", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == (201 if levels < 400 else 400)
        if levels < 400:
            assert (await http.get(f"/jobs/{answer.json()['id']}")).status_code == 200


@pytest.mark.parametrize("start_at", ["9999-12-31T23:59:59Z", "9999-12-28T00:00:00Z", "9998-12-31T23:59:59Z"])
async def test_a_schedule_start_after_the_year_9998_is_refused(client: Client, start_at: str) -> None:
    async with client("operator") as http:
        for n, more in enumerate(({}, {"window": {"opens": "08:00", "closes": "18:00"}}, {"jitter": 600_000.0})):
            body = {"name": f"late-{n}", "task": "fail", "trigger": "0 9 * * *", "start_at": start_at, **more}
            answer = await http.post("/schedules", json=body)
            assert answer.status_code == (201 if start_at.startswith("9998") else 422), answer.text
        if start_at.startswith("9999"):
            assert "in the year 9998 at the latest" in answer.json()["detail"]
