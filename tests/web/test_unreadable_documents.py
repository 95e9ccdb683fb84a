"""A document that cannot be decoded affects nothing else, and is shown."""

from __future__ import annotations

import logging

import pytest
from http_client import Client, browser

from mainspring import HookNotFound, Mainspring
from mainspring.cli.doctor import examine
from mainspring.counters import label_values
from mainspring.metrics.timed_store import measure
from mainspring.records import unreadable
from mainspring.records.document import Document, DocumentDrop
from mainspring.records.query import Filter
from mainspring.survived_errors import UNREADABLE_METRIC
from mainspring.webhook.message import WebhookEvent, delivery_job

URL = "https://hooks.example.com/in"
# The texts of a damaged document and of a document that a later release has written.
TEXTS = ["{", '{"webhook": 5, "trigger": 5, "id": 5}', ""]


@pytest.fixture(autouse=True)
def _nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreadable, "_logged", set())


async def spoil(spring: Mainspring, kind: str, name: str, text: str = "{") -> None:
    store, now = await spring.connect(), spring.clock.now()
    put = [DocumentDrop(kind, name), Document(kind=kind, name=name, text=text)]
    assert (await store.put_documents(put, now=now))[1]


async def finding(spring: Mainspring) -> tuple[str, str, str]:
    (found,) = [one for one in await examine(spring) if one.about == "documents"]
    return found.verdict, found.text, found.remedy


@pytest.mark.parametrize("text", TEXTS)
async def test_an_unreadable_api_key_does_not_affect_other_keys(spring: Mainspring, client: Client, text: str) -> None:
    async with client("admin") as http:
        await spring.keys.create("ada")
        await spoil(spring, "key", "ada", text)
        spring.keys.forget()
        assert (await http.get("/queues")).status_code == 200
        listed = await http.get("/keys")
        assert (listed.status_code, "ada" in listed.text) == (200, False)
        verdict, found, remedy = await finding(spring)
        assert (verdict, "key ada" in found, "mainspring keys revoke ada" in remedy) == ("bad", True, True)
        assert (await http.delete("/keys/ada")).status_code == 204
        assert (await finding(spring))[0] == "ok"
        assert await spring.keys.create("ada")


async def test_an_unreadable_last_use_of_an_api_key_is_ignored(spring: Mainspring, client: Client) -> None:
    secret = await spring.keys.create("ada")
    (key,) = await spring.keys.list()
    await spoil(spring, "key_use", key.id)
    assert (await spring.keys.list())[0].last_used_at is None
    assert await spring.keys.find(secret) is not None
    await spoil(spring, "key_use", key.id)
    assert (await spring.keys.list())[0].last_used_at is None


@pytest.mark.parametrize("text", TEXTS)
async def test_an_unreadable_webhook_does_not_stop_deliveries_to_others(spring: Mainspring, text: str) -> None:
    for name in ("bad", "ops"):
        await spring.webhooks.create(name, URL, ["job.dead"])
    await spoil(spring, "webhook", "bad", text)
    await spring.tasks["fail"].enqueue()
    await spring.worker().drain()
    store = await spring.connect()
    deliveries = await store.jobs(Filter(queues=("webhooks",)), now=spring.clock.now(), limit=10)
    assert [job.payload for job in deliveries if '"ops"' in job.payload] != []
    assert [hook.name for hook in await spring.webhooks.list()] == ["ops"]
    with pytest.raises(HookNotFound, match="the record of webhook 'bad' cannot be decoded"):
        await spring.webhooks.get("bad")
    verdict, found, remedy = await finding(spring)
    assert (verdict, "webhook bad" in found, "mainspring webhooks delete bad" in remedy) == ("bad", True, True)
    await spring.webhooks.delete("bad")
    assert (await finding(spring))[0] == "ok"
    assert (await spring.webhooks.create("bad", URL, ["job.dead"])).webhook.name == "bad"


async def test_a_delivery_to_an_unreadable_webhook_is_retried(spring: Mainspring) -> None:
    made, now = await spring.webhooks.create("bad", URL, ["job.dead"]), spring.clock.now()
    job = delivery_job(made.webhook, WebhookEvent(kind="job.dead", at=now, about="x", facts={}), now)
    await spoil(spring, "webhook", "bad")
    store = await spring.connect()
    await store.enqueue([job], now=now)
    await spring.worker(queues=["webhooks"]).drain()
    (told,) = await store.jobs(Filter(ids=(job.id,)), now=now, limit=1)
    assert told.shown(now) == "retrying"
    assert told.failure is not None
    assert "cannot be decoded" in told.failure.message


async def test_an_unreadable_trigger_is_a_doctor_finding_and_can_be_deleted(spring: Mainspring) -> None:
    for name in ("bad", "ops"):
        await spring.triggers.create(name, task="send")
    await spoil(spring, "trigger", "bad")
    assert [one.name for one in await spring.triggers.list()] == ["ops"]
    assert "mainspring triggers delete bad" in (await finding(spring))[2]
    await spring.triggers.delete("bad")
    assert (await finding(spring))[0] == "ok"


async def test_an_unreadable_session_is_refused(spring: Mainspring) -> None:
    async with browser(spring.asgi()) as http:
        secret = await spring.keys.create("ada", "operator")
        assert (await http.post("/session", json={"key": secret})).status_code == 200
        store = await spring.connect()
        (kept,) = await store.documents("session", now=spring.clock.now(), limit=9)
        await spoil(spring, "session", kept.name)
        assert (await http.get("/queues")).status_code == 401


async def test_an_unreadable_document_is_logged_and_counted_once(
    spring: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    meter = measure(spring)
    await spoil(spring, "webhook", "bad")
    with caplog.at_level(logging.ERROR, "mainspring"):
        for _ in range(3):
            await spring.webhooks.list()
    assert [record.message for record in caplog.records if "webhook bad cannot be decoded" in record.message] != []
    assert len(caplog.records) == 1
    counted = meter.whole().totals[UNREADABLE_METRIC]
    assert {tuple(label_values(labels)): n for labels, n in counted.items()} == {("webhook",): 1}


async def test_an_unreadable_queue_pause_is_logged_and_overwritten_by_the_next_pause(
    spring: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    await spring.queues.pause("mail", "the provider is down")
    await spoil(spring, "queue_pauses", "mail")
    with caplog.at_level(logging.ERROR, "mainspring"):
        (mail,) = await spring.queues.list()
    assert (mail.paused, mail.paused_at, mail.note) == (True, None, "")
    assert ["queue_pauses mail cannot be decoded" in record.message for record in caplog.records] == [True]
    await spring.queues.pause("mail", "still down")
    assert (await spring.queues.list())[0].note == "still down"
