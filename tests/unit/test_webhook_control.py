"""app.webhooks: create, update, rotate and list webhooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainspring import (
    BadInput,
    BadSetting,
    BadTask,
    Filter,
    HookChanged,
    HookExists,
    HookNotFound,
    Job,
    Mainspring,
    State,
    UnknownTask,
    every,
)
from mainspring.actor import act_as
from mainspring.records.audit import AuditFilter
from mainspring.records.document import Document
from mainspring.records.job import Action, NewJob
from mainspring.records.query import Update
from mainspring.testing import VirtualClock
from mainspring.webhook.record import EVENTS, MAX_WEBHOOKS, TASK, WEBHOOKS

URL = "https://hooks.example.com/in"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def test_a_created_webhook_is_listed(app: Mainspring, clock: VirtualClock) -> None:
    made = await app.webhooks.create(
        "ops", URL, ["job.dead", "job.completed"], queues=["mail"], tasks=["send"], tags=["a"], include=["result"],
        note="pager",
    )  # fmt: skip
    hook = await app.webhooks.get("ops")
    assert made.webhook == hook
    assert (hook.name, hook.url, hook.events) == ("ops", URL, ("job.completed", "job.dead"))
    assert (hook.queues, hook.tasks, hook.tags, hook.include) == (("mail",), ("send",), ("a",), ("result",))
    assert (hook.note, hook.created_at, hook.disabled_at, hook.revision) == ("pager", clock.now(), None, 1)
    assert list(await app.webhooks.list()) == [hook]


async def test_a_webhook_secret_is_shown_once(app: Mainspring) -> None:
    made = await app.webhooks.create("ops", URL, ["job.dead"])
    assert made.secret.startswith("whsec_")
    seen = [await app.webhooks.get("ops"), await app.webhooks.list(), await app.webhooks.update("ops", note="x")]
    assert made.secret not in repr(seen)
    assert b"whsec_" not in msgspec.json.encode(seen)


async def test_a_webhook_secret_can_be_given(app: Mainspring) -> None:
    assert (await app.webhooks.create("ops", URL, ["job.dead"], secret=SECRET)).secret == SECRET
    with pytest.raises(BadInput, match="a secret is 'whsec_'"):
        await app.webhooks.create("other", URL, ["job.dead"], secret="hunter2")


async def test_a_duplicate_webhook_name_is_refused(app: Mainspring) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    with pytest.raises(HookExists, match="a webhook named 'ops' is there already"):
        await app.webhooks.create("ops", URL, ["job.dead"])


@pytest.mark.parametrize("act", ["get", "delete", "rotate", "test", "standing", "deliveries"])
async def test_an_unknown_webhook_is_reported_with_a_suggestion(app: Mainspring, act: str) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    with pytest.raises(HookNotFound, match=r"there is no webhook .opps..*ops"):
        await getattr(app.webhooks, act)("opps")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a name for no URL": ({"name": "a/b"}, "a webhook's name is up to 100 letters, digits, dots, dashes"),
    "no name": ({"name": ""}, "a webhook's name is"),
    "a colon": ({"name": "a:b"}, "a webhook's name is"),
    "no URL": ({"url": "hooks"}, "a webhook's URL has no scheme, such as https://"),
    "another scheme": ({"url": "ftp://hooks.example.com"}, "a webhook's URL begins with https://"),
    "not public": ({"url": "https://169.254.169.254/"}, "is not public .link-local, where clouds"),
    "http": ({"url": "http://hooks.example.com/"}, "is reached by https only"),
    "no events": ({"events": []}, "events takes a list of 1 or more of: job.completed, job.dead"),
    "a text": ({"events": "job.dead"}, "events takes a list"),
    "an unknown event": ({"events": ["job.born"]}, "events: 'job.born' is none of: job.completed"),
    "a test": ({"events": ["webhook.test"]}, "is none of"),
    "include": ({"include": ["everything"]}, "include: 'everything' is none of: arguments, metadata, result"),
    "queues": ({"queues": []}, "queues takes a list of 1 to 100 names, or None"),
    "tags": ({"tags": "a"}, "tags takes a list"),
    "a tag": ({"tags": [""]}, "a tag is 1 to 200 printable characters"),
    "note": ({"note": 7}, "a note is text"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
async def test_a_bad_webhook_option_is_refused_by_name(app: Mainspring, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        await app.webhooks.create(**({"name": "ops", "url": URL, "events": ["job.dead"]} | given))
    assert list(await app.webhooks.list()) == []


async def test_webhook_allow_permits_private_and_http_urls(make_app: Callable[..., Mainspring]) -> None:
    app = make_app(webhook_allow=["10.0.0.0/8", "hooks.lan"])
    await app.webhooks.create("one", "http://10.1.2.3:8080/", EVENTS)
    await app.webhooks.create("two", "http://hooks.lan/", EVENTS)
    with pytest.raises(BadInput, match="is not public"):
        await app.webhooks.update("two", url="https://192.168.0.1/")


def test_a_bad_webhook_allow_setting_is_refused_by_the_app() -> None:
    with pytest.raises(BadSetting, match="webhook_allow takes networks"):
        Mainspring("memory://", webhook_allow="10.0.0.1/8")


async def test_the_number_of_webhooks_is_limited(app: Mainspring) -> None:
    for n in range(MAX_WEBHOOKS):
        await app.webhooks.create(f"hook-{n}", URL, ["job.dead"])
    with pytest.raises(BadInput, match="there are 100 webhooks already"):
        await app.webhooks.create("one-more", URL, ["job.dead"])


# update, rotate and delete


async def test_a_webhook_update_changes_the_given_fields_and_the_revision(app: Mainspring) -> None:
    before = (await app.webhooks.create("ops", URL, ["job.dead"], queues=["mail"])).webhook
    after = await app.webhooks.update("ops", events=["job.expired"], queues=None)
    assert after == await app.webhooks.get("ops")
    assert (after.events, after.queues, after.revision) == (("job.expired",), None, 2)
    assert (after.url, after.created_at) == (before.url, before.created_at)


async def test_a_webhook_update_with_an_old_revision_is_refused(app: Mainspring) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    await app.webhooks.update("ops", note="one", expected=1)
    with pytest.raises(HookChanged, match="webhook 'ops' was changed by others since it was read"):
        await app.webhooks.update("ops", note="two", expected=1)
    assert (await app.webhooks.get("ops")).note == "one"


async def test_a_webhook_update_without_fields_is_refused(app: Mainspring) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    with pytest.raises(BadInput, match="was given nothing to change"):
        await app.webhooks.update("ops")
    with pytest.raises(TypeError, match="'colour'"):
        await app.webhooks.update("ops", colour="red")  # type: ignore[call-arg]


async def test_a_webhook_is_disabled_and_enabled_again(app: Mainspring, clock: VirtualClock) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    off = await app.webhooks.update("ops", disabled=True)
    assert (off.disabled_at, off.disabled_reason) == (clock.now(), "by an operator")
    on = await app.webhooks.update("ops", disabled=False)
    assert (on.disabled_at, on.disabled_reason) == (None, "")


async def test_webhook_secret_rotation_keeps_the_previous_secret_for_the_overlap(
    app: Mainspring, clock: VirtualClock
) -> None:
    async def valid() -> list[str]:
        return (await WEBHOOKS.get(await app.connect(), "ops", clock.now())).keys.valid(clock.now())

    first = (await app.webhooks.create("ops", URL, ["job.dead"])).secret
    second = (await app.webhooks.rotate("ops", overlap=3600)).secret
    assert await valid() == [second, first]
    third = (await app.webhooks.rotate("ops", overlap=timedelta(hours=2))).secret
    assert await valid() == [third, second]
    clock.advance(hours=2)
    assert await valid() == [third]


async def test_a_deleted_webhook_is_gone(app: Mainspring) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    await app.webhooks.delete("ops")
    assert list(await app.webhooks.list()) == []
    await app.webhooks.create("ops", URL, ["job.dead"])


@pytest.mark.parametrize("name", ["mainspring.webhook", "mainspring.other"])
def test_a_task_with_an_internal_name_is_refused(app: Mainspring, name: str) -> None:
    with pytest.raises(BadTask, match=r"names that begin with 'mainspring\.' are internal"):
        app.task(name=name)(lambda: None)


FORGED = {"webhook": "ops", "type": "job.dead", "timestamp": "now", "data": {"forged": True}}


async def test_delivery_jobs_cannot_be_enqueued_by_users(app: Mainspring, clock: VirtualClock) -> None:
    await app.webhooks.create("ops", URL, ["job.dead"])
    bare = Mainspring("memory://", clock=clock)  # an app without tasks does not check arguments
    for maker in (app, bare):
        with pytest.raises(UnknownTask, match=r"task 'mainspring\.webhook' is internal"):
            await maker.enqueue(TASK, **FORGED)
        with pytest.raises(UnknownTask, match="enqueue_many: task"):
            await maker.enqueue_many([NewJob(id="1", task=TASK, payload="{}")])
        with pytest.raises(UnknownTask, match="schedule 'forged': task"):
            await maker.schedules.create("forged", every(1).hours, TASK, kwargs=FORGED)


async def delivery(app: Mainspring) -> Job:
    """A delivery job that has not run yet."""
    await app.webhooks.create("ops", URL, ["job.dead"])
    return await (await app.webhooks.test("ops")).job()


async def test_the_payload_of_a_delivery_cannot_be_changed(app: Mainspring) -> None:
    job = await delivery(app)
    with pytest.raises(BadInput, match=r"task 'mainspring\.webhook' is internal"):
        await app.jobs.update(job.id, arguments=FORGED)
    changed = await app.jobs.update(Filter(queues=("webhooks",)), arguments=FORGED)
    assert (changed.done, list(changed.refused)) == ([], [job.id])
    assert "is internal" in (changed.refused[job.id].error or "")
    await app.jobs.cancel(job.id)
    with pytest.raises(BadInput, match="is internal"):
        await app.jobs.change_with(Action.RETRY, job.id, Update(), FORGED)
    assert (await app.jobs.get(job.id)).payload == job.payload


async def test_a_delivery_cannot_be_replaced_through_its_key(app: Mainspring) -> None:
    job = await delivery(app)

    @app.task
    async def anything(**values: Any) -> None: ...

    made = app.job("anything", FORGED, idempotency_key=job.idempotency_key, on_conflict="replace")
    (handle,) = await app.enqueue_many([made])
    assert (handle.id, handle.status) == (job.id, "duplicate")
    assert (await app.jobs.get(job.id)).payload == job.payload


async def test_a_delivery_can_be_cancelled_retried_rescheduled_and_deleted(app: Mainspring) -> None:
    job = await delivery(app)
    await app.jobs.update(job.id, priority=3)
    await app.jobs.reschedule(job.id, timedelta(hours=1))
    await app.jobs.cancel(job.id)
    await app.jobs.retry(job.id)
    assert (await app.jobs.get(job.id)).payload == job.payload
    await app.jobs.delete(job.id)


async def test_a_delivery_made_by_a_schedule_is_discarded(app: Mainspring, clock: VirtualClock) -> None:
    """An earlier release accepted schedules of any task."""
    await app.webhooks.create("ops", URL, ["job.dead"])
    store, now = await app.connect(), clock.now()
    payload = msgspec.json.encode(FORGED).decode()
    await store.enqueue([NewJob(id="1", task=TASK, queue="webhooks", payload=payload, schedule="forged")], now=now)
    await app.drain(queues=["webhooks"])
    job = await app.jobs.get("1")
    assert (job.state, job.failure and job.failure.type) == (State.DEAD, "Discard")
    assert "schedule 'forged' made it" in (job.failure.message if job.failure else "")


async def test_an_undecodable_webhook_is_not_listed(app: Mainspring, clock: VirtualClock) -> None:
    store = await app.connect()
    await store.put_documents(
        [Document(kind="webhook", name="later", text='{"of": "a later release"}')], now=clock.now()
    )
    await app.webhooks.create("ops", URL, ["job.dead"])
    assert [hook.name for hook in await app.webhooks.list()] == ["ops"]


# the audit log


async def test_the_audit_log_has_webhook_changes_without_secrets(app: Mainspring) -> None:
    with act_as("ada"):
        await app.webhooks.create("ops", URL, ["job.dead"], secret=SECRET)
        await app.webhooks.update("ops", events=["job.expired"])
        made = await app.webhooks.rotate("ops")
        await app.webhooks.test("ops")
        await app.webhooks.delete("ops")
        await app.triggers.create("orders", schedule="x", secret=SECRET)
        await app.triggers.update("orders", note="y")
        await app.triggers.rotate("orders", secret=SECRET)
        await app.triggers.delete("orders")
    found = list(await (await app.connect()).audit(AuditFilter(), limit=100))[::-1]
    assert [(entry.who, entry.action, entry.target) for entry in found] == [
        ("ada", f"webhooks.{act}", "ops") for act in ("create", "update", "rotate", "test", "delete")
    ] + [("ada", f"triggers.{act}", "orders") for act in ("create", "update", "rotate", "delete")]
    changed = msgspec.json.decode(found[1].outcome or "")
    assert (changed["before"], changed["after"]) == ({"events": ["job.dead"]}, {"events": ["job.expired"]})
    assert SECRET not in str(found)
    assert made.secret not in str(found)
