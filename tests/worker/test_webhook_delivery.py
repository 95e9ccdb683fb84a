"""Webhook deliveries by workers: which events, when, how often, to whom."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from mainspring import Cancel, Context, Filter, Job, JobDead, Mainspring, Retry, State, every
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.webhook.delivery import MAX_CONCURRENT_DELIVERIES
from mainspring.webhook.message import MAX_BODY_BYTES
from mainspring.webhook.record import EVENTS
from receiver import Message, Receiver, receiving, says

ALL = list(EVENTS)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    app = Mainspring(url, clock=clock, webhook_allow="127.0.0.1")

    @app.task(max_retries=0)
    async def work(do: str = "well") -> str:
        if do == "fail":
            raise ValueError("it went wrong: password=hunter2")
        if do == "cancel":
            raise Cancel("not today")
        return "a result"

    @app.task(max_retries=1)
    async def again() -> None:
        raise Retry(60, "not yet")

    return app


@asynccontextmanager
async def told(app: Mainspring, events: Any = ALL, **options: Any) -> AsyncIterator[Receiver]:
    """A receiver with a webhook for these events."""
    async with app, receiving() as receiver:
        receiver.secret = (await app.webhooks.create("ops", receiver.url, events, **options)).secret  # type: ignore[attr-defined]
        yield receiver


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in receiver.messages]


def kinds(receiver: Receiver) -> list[str]:
    return [body["type"] for body in bodies(receiver)]


async def run(app: Mainspring, **arguments: Any) -> Job:
    handle = await app.tasks["work"].enqueue(**arguments)
    await app.drain()
    return await handle.job()


async def deliveries(app: Mainspring) -> list[Job]:
    return list(await app.webhooks.deliveries("ops"))


def signatures(message: Message, secret: str) -> str:
    """Verifies the signature as the standard defines it, without our code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{message.headers['webhook-id']}.{message.headers['webhook-timestamp']}.".encode() + message.body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


# what is told


async def test_a_completed_job_is_delivered(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        job = await run(app)
        (body,) = bodies(receiver)
    now = "2030-01-01T00:00:00Z"
    assert body == {
        "type": "job.completed",
        "timestamp": now,
        "data": {
            "id": job.id, "task": "work", "queue": "default", "state": "completed", "attempt": 1, "priority": 0,
            "tags": [], "created_at": now, "started_at": now, "finished_at": now, "outcome": "completed",
        },
    }  # fmt: skip


async def test_a_message_is_signed_and_has_the_id_of_its_delivery_job(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        await run(app)
        (delivery,) = await deliveries(app)
        (message,) = receiver.messages
        assert message.headers["webhook-signature"] == signatures(message, receiver.secret)  # type: ignore[attr-defined]
    assert message.headers["webhook-id"] == delivery.id
    assert message.headers["webhook-timestamp"] == str(int(clock.now().timestamp()))
    assert (delivery.task, delivery.queue, delivery.state) == ("mainspring.webhook", "webhooks", State.COMPLETED)
    assert delivery.result == '{"status":204}'


async def test_both_secrets_sign_during_rotation(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        old, new = receiver.secret, (await app.webhooks.rotate("ops", overlap=60)).secret  # type: ignore[attr-defined]
        await run(app)
        clock.advance(minutes=1)
        await run(app)
    first, second = receiver.messages
    assert first.headers["webhook-signature"] == f"{signatures(first, new)} {signatures(first, old)}"
    assert second.headers["webhook-signature"] == signatures(second, new)


async def test_a_dead_job_is_delivered_with_its_masked_error(app: Mainspring) -> None:
    async with told(app) as receiver:
        await run(app, do="fail")
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["state"]) == ("job.dead", "dead")
    assert body["data"]["error"] == {"type": "ValueError", "message": "it went wrong: password=***"}


async def test_a_retry_is_delivered_with_its_time_and_then_the_death(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        await app.tasks["again"].enqueue()
        await app.drain()
        clock.advance(minutes=1)
        await app.drain()
    first, second = bodies(receiver)
    assert (first["type"], first["data"]["attempt"], first["data"]["state"]) == ("job.retrying", 1, "retrying")
    assert first["data"]["run_at"] == "2030-01-01T00:01:00Z"
    assert (second["type"], second["data"]["attempt"]) == ("job.dead", 2)


async def test_a_job_that_cancels_itself_is_delivered(app: Mainspring) -> None:
    async with told(app) as receiver:
        await run(app, do="cancel")
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["error"]["message"]) == ("job.cancelled", "not today")


async def test_a_pending_job_cancelled_by_an_operator_is_delivered_once(app: Mainspring, url: str) -> None:
    async with told(app) as receiver:
        handle = await app.tasks["work"].using(delay=60).enqueue()
        await app.jobs.cancel(handle.id, "no use any more")
        await app.jobs.cancel(handle.id, "again")
        await app.jobs.cancel(Filter(tasks=("work",)))
        await app.drain()
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["id"], body["data"]["reason"]) == ("job.cancelled", handle.id, "no use any more")


async def test_two_processes_that_see_an_event_deliver_it_once(app: Mainspring, url: str, clock: VirtualClock) -> None:
    from mainspring.events import JobsChanged
    from mainspring.records.job import Action

    async with told(app) as receiver:
        other = Mainspring(await app.connect(), clock=clock)
        handle = await app.tasks["work"].using(delay=60).enqueue()
        await app.jobs.cancel(handle.id)
        other.events.emit(JobsChanged(at=clock.now(), action=Action.CANCEL, ids=(handle.id,)))
        await other._engine.dispatcher.flush()
        await app.drain()
    assert kinds(receiver) == ["job.cancelled"]


async def test_a_job_cancelled_again_after_a_retry_is_delivered_again(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        handle = await app.tasks["work"].using(delay=60).enqueue()
        await app.jobs.cancel(handle.id)
        await app.jobs.retry(handle.id)
        clock.advance(seconds=1)
        await app.jobs.cancel(handle.id)
        await app.drain()
    assert kinds(receiver) == ["job.cancelled", "job.cancelled"]


async def test_a_running_job_cancelled_by_an_operator_is_delivered_when_it_stops(
    app: Mainspring, clock: VirtualClock
) -> None:
    running = asyncio.Event()

    @app.task
    async def hang() -> None:
        running.set()
        await asyncio.Event().wait()

    async with told(app, ["job.cancelled"]) as receiver:
        handle = await hang.enqueue()
        async with app.worker():
            await running.wait()
            await app.jobs.cancel(handle.id, "enough")
            assert await deliveries(app) == []
            await clock.elapse(seconds=10)
            assert (await handle.job()).state is State.CANCELLED
        await app.drain()
    (body,) = bodies(receiver)
    assert (body["data"]["id"], body["data"]["error"]["message"]) == (handle.id, "enough")


async def test_an_expired_job_is_delivered(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        handle = await app.tasks["work"].using(expires=60).enqueue()
        clock.advance(minutes=2)
        await app.drain()
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["id"], body["data"]["state"]) == ("job.expired", handle.id, "expired")


async def test_a_job_that_died_with_its_workers_is_delivered(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app, ["job.retrying", "job.dead"]) as receiver:
        await app.tasks["work"].enqueue()
        store = await app.connect()
        for _ in range(3):
            await store.beat(_ghost(clock.now()), until=clock.now() + timedelta(seconds=1), now=clock.now())
            claim = await store.claim(None, worker="ghost", tasks=["work"], limit=1, now=clock.now())
            assert len(claim.jobs) == 1
            clock.advance(seconds=5)
            worker = app.worker(queues=["webhooks"])
            await worker.drain()
    assert kinds(receiver) == ["job.retrying", "job.retrying", "job.dead"]
    assert bodies(receiver)[-1]["data"]["error"]["type"] == "PoisonPill"


def _ghost(now: datetime) -> Any:
    from mainspring.records.worker import WorkerInfo

    return WorkerInfo(id="ghost", host="", pid=0, queues=None, tasks=("work",), concurrency=1, started_at=now)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_transactional_completion_is_delivered(app: Mainspring, url: str) -> None:
    @app.task
    async def transact(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    async with told(app) as receiver:
        await transact.enqueue()
        await app.drain()
    assert kinds(receiver) == ["job.completed"]


async def test_a_missed_and_a_skipped_tick_are_delivered(app: Mainspring, clock: VirtualClock) -> None:
    app.schedule("often", every(60).seconds, app.tasks["work"], catch_up="skip")
    async with told(app, ["schedule.missed", "schedule.skipped"]) as receiver:
        await app.drain()
        clock.advance(minutes=10, seconds=5)
        await app.drain()
        await app.drain()
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["schedule"]) == ("schedule.missed", "often")
    assert (body["data"]["tick"]["what"], body["data"]["tick"]["count"]) == ("missed", 9)


async def test_the_input_error_of_a_delivered_tick_is_masked(app: Mainspring, clock: VirtualClock) -> None:
    def broken(tick: datetime) -> dict[str, Any]:
        raise ValueError("cannot reach postgres://user:hunter2@host/db")

    app.schedule("often", every(60).seconds, app.tasks["work"], input=broken)
    async with told(app, ["schedule.skipped"]) as receiver:
        await app.drain()
        clock.advance(minutes=1, seconds=1)
        await app.drain()
        await app.drain()
    (body,) = bodies(receiver)
    assert body["data"]["tick"]["reason"] == "input: ValueError: cannot reach postgres://user:***@host/db"
    assert b"hunter2" not in b"".join(message.body for message in receiver.messages)


async def test_a_schedule_paused_by_failures_is_delivered(app: Mainspring, clock: VirtualClock) -> None:
    app.schedule("bad", every(60).seconds, app.tasks["work"], kwargs={"do": "fail"}, pause_after_failures=1)
    async with told(app, ["schedule.paused"]) as receiver:
        await app.drain()
        clock.advance(minutes=1)
        await app.drain()
        await app.drain()
    (body,) = bodies(receiver)
    assert (body["type"], body["data"]["schedule"]) == ("schedule.paused", "bad")


async def test_the_start_and_stop_of_a_worker_are_delivered(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app, ["worker.started", "worker.stopped"]) as receiver:
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
        await app.drain()
    assert [(body["type"], body["data"]) for body in bodies(receiver)] == [
        ("worker.started", {"worker": worker.id}),
        ("worker.stopped", {"worker": worker.id}),
    ]


async def test_webhook_filters_select_events(app: Mainspring) -> None:
    @app.task(queue="mail", max_retries=0)
    async def send(well: bool = True) -> None:
        assert well

    async with told(app, ["job.completed"], queues=["mail"], tasks=["send"], tags=["vip", "eu"]) as receiver:
        for tags in (["vip"], ["eu", "vip", "x"], []):
            await send.using(tags=tags).enqueue()
        await send.using(tags=["vip", "eu"]).enqueue(well=False)
        await send.using(tags=["vip", "eu"], queue="other").enqueue()
        await app.tasks["work"].using(tags=["vip", "eu"], queue="mail").enqueue()
        await app.drain()
    assert [body["data"]["tags"] for body in bodies(receiver)] == [["eu", "vip", "x"]]


async def test_extras_are_included_on_request_and_masked(app: Mainspring) -> None:
    @app.task
    async def login(user: str, password: str) -> dict[str, str]:
        return {"token": "t0k3n", "user": user}

    async with told(app, ["job.completed"], include=["result", "arguments", "metadata"]) as receiver:
        await login.using(metadata={"trace": "1", "api_key": "k3y"}).enqueue("ada", password="hunter2")
        await app.drain()
    data = bodies(receiver)[0]["data"]
    assert data["arguments"] == {"user": "ada", "password": "***"}
    assert data["metadata"] == {"trace": "1", "api_key": "***"}
    assert data["result"] == {"token": "***", "user": "ada"}


async def test_a_message_too_large_is_truncated_and_marked(app: Mainspring) -> None:
    @app.task
    async def big(text: str) -> str:
        return "short"

    async with told(app, ["job.completed"], include=["result", "arguments"]) as receiver:
        await big.enqueue("x" * MAX_BODY_BYTES)
        await big.using(tags=[f"{n:03}{chr(0x1F98A) * 195}" for n in range(100)]).enqueue("x")
        await app.drain()
    first, second = bodies(receiver)
    assert (first["data"]["truncated"], first["data"]["result"], "arguments" in first["data"]) == (True, "short", False)
    assert (second["data"]["truncated"], second["data"]["tags"]) == (True, [])
    assert max(len(message.body) for message in receiver.messages) < MAX_BODY_BYTES + 200


async def test_deliveries_themselves_are_not_delivered(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        receiver.answers = [says(500), says(410)]
        await run(app)
        clock.advance(minutes=1)
        await app.drain()
    assert kinds(receiver) == ["job.completed", "job.completed"]


# when it does not work at once


async def test_a_failed_delivery_is_retried_with_the_same_id_and_a_new_signature(
    app: Mainspring, clock: VirtualClock
) -> None:
    async with told(app) as receiver:
        receiver.answers = [says(500, body="out of token=s3cret paper")]
        await run(app)
        (delivery,) = await deliveries(app)
        assert (delivery.state, delivery.attempt) == (State.PENDING, 1)
        assert delivery.failure is not None
        assert delivery.failure.message == "webhook 'ops': it answered 500: out of token=*** paper"
        assert timedelta(seconds=7) < delivery.run_at - clock.now() <= timedelta(seconds=10)
        clock.set(delivery.run_at)
        await app.drain()
        first, second = receiver.messages
        assert signatures(second, receiver.secret) == second.headers["webhook-signature"]  # type: ignore[attr-defined]
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery.id
    assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])


async def test_a_delivery_is_dead_after_about_a_day_and_can_be_redriven(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        receiver.answer = says(302, "location: https://example.com/")
        await run(app)
        began = clock.now()
        while (delivery := (await deliveries(app))[0]).state is State.PENDING:
            clock.set(delivery.run_at)
            await app.drain()
        assert delivery.state is State.DEAD
        assert len(receiver.messages) == 9
        assert timedelta(hours=20) < clock.now() - began < timedelta(hours=28)
        standing = await app.webhooks.standing("ops")
        assert (standing.failures, standing.error) == (9, "webhook 'ops': it answered 302")
        receiver.answer = says(200)
        await app.dead.redrive(delivery.id)
        await app.drain()
        assert (await app.jobs.get(delivery.id)).state is State.COMPLETED
        standing = await app.webhooks.standing("ops")
        assert (standing.failures, standing.delivered_at) == (0, clock.now())


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_of_a_receiver_is_respected(app: Mainspring, clock: VirtualClock, status: int) -> None:
    at = clock.now() + timedelta(hours=3)
    waits = {"120": 120, "0": 1, "999999999999": 86_400, format_datetime(at, usegmt=True): 3 * 3600}
    for wait, seconds in waits.items():
        async with told(app) as receiver:
            receiver.answers = [says(status, f"retry-after: {wait}")]
            await run(app)
            (delivery,) = (job for job in await deliveries(app) if job.state is State.PENDING)
            assert delivery.run_at == clock.now() + timedelta(seconds=seconds)
            await app.jobs.delete(delivery.id)
            await app.webhooks.delete("ops")


@pytest.mark.parametrize("answer", [says(429, "retry-after: soon"), says(500, "retry-after: 3000"), says(429)])
async def test_a_malformed_retry_after_falls_back_to_the_backoff(
    app: Mainspring, clock: VirtualClock, answer: bytes
) -> None:
    async with told(app) as receiver:
        receiver.answers = [answer]
        await run(app)
        (delivery,) = await deliveries(app)
    assert delivery.run_at - clock.now() <= timedelta(seconds=10)


async def test_a_410_response_disables_the_webhook(
    app: Mainspring, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with told(app) as receiver:
        receiver.answer = says(410)
        with caplog.at_level(logging.WARNING, "mainspring"):
            await run(app)
        hook = await app.webhooks.get("ops")
        assert (hook.disabled_at, hook.disabled_reason) == (clock.now(), "its receiver answered 410 Gone")
        assert "webhook 'ops' is disabled: its receiver answered 410 Gone" in caplog.text
        (delivery,) = await deliveries(app)
        assert delivery.state is State.DEAD
        await run(app)
        assert len(await deliveries(app)) == len(receiver.messages) == 1


async def test_deliveries_to_a_disabled_or_deleted_webhook_are_cancelled(app: Mainspring, clock: VirtualClock) -> None:
    async with told(app) as receiver:
        receiver.answer = says(500)
        await run(app)
        (first,) = await deliveries(app)
        await app.webhooks.update("ops", disabled=True)
        clock.advance(minutes=1)
        await app.drain()
        assert (await app.jobs.get(first.id)).state is State.CANCELLED
        await app.webhooks.update("ops", disabled=False)
        await run(app)
        second = (await deliveries(app))[0]
        await app.webhooks.delete("ops")
        clock.advance(minutes=1)
        await app.drain()
        gone = await app.jobs.get(second.id)
        assert (gone.state, gone.failure.message) == (State.CANCELLED, "webhook 'ops' is gone")  # type: ignore[union-attr]
    assert len(receiver.messages) == 2


async def test_a_name_that_resolves_to_a_private_address_is_refused(app: Mainspring) -> None:
    """The webhook was created while its name resolved to another address, or by a user who was allowed to."""
    async with told(app) as receiver:
        app.configure(webhook_allow=())
        await run(app)
        (delivery,) = await deliveries(app)
        assert delivery.failure is not None
        assert "127.0.0.1 is not public (this machine itself)" in delivery.failure.message
    assert receiver.knocks == 0


async def test_concurrent_deliveries_to_one_webhook_are_limited(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mainspring.testing.clock.CALL_WAIT_SECONDS", 0.5
    )  # time stands still until it is answered, or given up
    async with told(app, ["job.completed"]) as receiver:
        receiver.holds, receiver.answer = True, b""
        async with app.worker(concurrency=50):
            await app.enqueue_many(app.tasks["work"].job() for _ in range(40))
            await _until(clock, lambda: receiver.knocks == MAX_CONCURRENT_DELIVERIES)
            await clock.settle()
            found = await deliveries(app)
            assert sum(job.state is State.RUNNING for job in found) == MAX_CONCURRENT_DELIVERIES == receiver.knocks
            assert len(found) == 40
            handle = await app.tasks["work"].enqueue()
            await clock.settle()
            assert (await handle.job()).state is State.COMPLETED
            receiver.released.set()


async def _until(clock: VirtualClock, holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await clock.settle()
    raise AssertionError("never")


async def test_a_test_delivery_is_sent_once_and_has_a_result(app: Mainspring) -> None:
    async with told(app, ["job.dead"]) as receiver:
        handle = await app.webhooks.test("ops")
        await app.drain()
        assert await handle.result() == {"status": 204}
        assert bodies(receiver)[0]["data"] == {"webhook": "ops", "note": "a test; nothing has happened"}
        receiver.answer = says(500)
        handle = await app.webhooks.test("ops")
        await app.drain()
        with pytest.raises(JobDead, match="it answered 500"):
            await handle.result()
    assert kinds(receiver) == ["webhook.test", "webhook.test"]


# what workers know


async def test_a_worker_learns_of_a_new_webhook_within_a_heartbeat(app: Mainspring, clock: VirtualClock) -> None:
    async with app, receiving() as receiver, app.worker():
        await app.webhooks.create("ops", receiver.url, ["job.completed"])
        await clock.elapse(seconds=6)
        await app.tasks["work"].enqueue()
        await _until(clock, lambda: bool(receiver.messages))
    assert kinds(receiver) == ["job.completed"]


async def test_an_outcome_and_its_deliveries_are_stored_atomically(
    app: Mainspring, url: str, clock: VirtualClock
) -> None:
    """The reply to finish is lost: the worker repeats it, and there is one delivery."""
    faults = Faults()
    faulty = Mainspring(FaultStore(await app.connect(), faults), clock=clock, webhook_allow="127.0.0.1")
    faulty.task(name="work")(app.tasks["work"].fn)
    async with told(app, ["job.completed"]) as receiver:
        await app.tasks["work"].enqueue()
        faults.fail("finish", moment="after")
        async with faulty.worker():
            await clock.elapse(seconds=30)
            await _until(clock, lambda: bool(receiver.messages))
        assert faults.injected == ["finish"]
        assert len(await deliveries(app)) == 1
    assert kinds(receiver) == ["job.completed"]


async def test_a_worker_of_other_queues_takes_no_deliveries(app: Mainspring) -> None:
    async with told(app, ["job.completed"]) as receiver:
        await app.tasks["work"].enqueue()
        await app.drain(queues=["default"])
        assert [job.state for job in await deliveries(app)] == [State.PENDING]
        assert receiver.knocks == 0
        await Mainspring(await app.connect(), clock=app.clock, webhook_allow="127.0.0.1").drain(queues=["webhooks"])
    assert kinds(receiver) == ["job.completed"]


async def test_without_webhooks_the_dispatcher_watches_no_jobs(app: Mainspring) -> None:
    async with app:
        async with app.worker():
            assert not app._engine.dispatcher.watches_jobs
        await run(app)
        assert [job.task for job in await app.jobs.list()] == ["work"]
