"""app.triggers: a signed message starts a job or a schedule, once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainspring import (
    BadInput,
    BadPayload,
    HookChanged,
    HookExists,
    HookNotFound,
    Mainspring,
    NotSigned,
    Retention,
    ScheduleNotFound,
    Stale,
    State,
    StoreUnavailable,
    UnknownTask,
    every,
)
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.webhook.inbound import Call

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def app(make_app: Callable[..., Mainspring]) -> Mainspring:
    app = make_app()

    @app.task(queue="mail", priority=3)
    async def greet(name: str, times: int = 1) -> str:
        return name * times

    @app.task
    async def take(event: dict[str, Any], source: str = "") -> None: ...

    app.schedule("nightly", every(1).days, greet, kwargs={"name": "ada"})
    return app


def signed(
    body: Any = b"{}", id: str = "msg_1", *, at: datetime, secret: str = SECRET, timestamp: str | None = None
) -> Call:
    """A call signed as the standard describes, without our code."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    timestamp = str(int(at.timestamp())) if timestamp is None else timestamp
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{id}.{timestamp}.".encode() + data, hashlib.sha256).digest()
    return Call(id=id, timestamp=timestamp, signature=f"v1,{base64.b64encode(made).decode()}", body=data)


# create and update


async def test_a_created_trigger_is_listed_without_its_secret(app: Mainspring, clock: VirtualClock) -> None:
    made = await app.triggers.create("orders", task="greet", arguments="body", kwargs={"times": 2}, note="shop")
    assert made.secret.startswith("whsec_")
    trigger = await app.triggers.get("orders")
    assert made.trigger == trigger
    assert (trigger.name, trigger.task, trigger.arguments, trigger.kwargs) == ("orders", "greet", "body", {"times": 2})
    assert (trigger.note, trigger.created_at, trigger.revision) == ("shop", clock.now(), 1)
    assert list(await app.triggers.list()) == [trigger]
    assert b"whsec_" not in msgspec.json.encode(await app.triggers.list())


async def test_a_trigger_is_changed_and_deleted(app: Mainspring) -> None:
    await app.triggers.create("orders", task="greet")
    changed = await app.triggers.update("orders", task=None, schedule="nightly", expected=1)
    assert (changed.task, changed.schedule, changed.revision) == (None, "nightly", 2)
    with pytest.raises(HookChanged, match="trigger 'orders' was changed by others"):
        await app.triggers.update("orders", note="x", expected=1)
    with pytest.raises(HookExists, match="a trigger named 'orders'"):
        await app.triggers.create("orders", task="greet")
    await app.triggers.delete("orders")
    for act in (app.triggers.get, app.triggers.delete, app.triggers.rotate):
        with pytest.raises(HookNotFound, match="there is no trigger 'orders'"):
            await act("orders")


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a name for no URL": ({"name": "a/b", "task": "greet"}, BadInput, "a trigger's name is up to 100"),
    "neither": ({}, BadInput, "makes a job of a task, fires a schedule, or gives a signal: give one"),
    "both": ({"task": "greet", "schedule": "nightly"}, BadInput, "give one of them"),
    "an unknown task": ({"task": "greed"}, UnknownTask, "no task 'greed' is registered in this app.*greet"),
    "a schedule's queue": ({"schedule": "nightly", "queue": "x"}, BadInput, "has a queue and a priority of its own"),
    "a queue": ({"task": "greet", "queue": ""}, BadInput, "option queue of trigger 'orders'"),
    "a priority": ({"task": "greet", "priority": "high"}, BadInput, "option priority of trigger 'orders'"),
    "kwargs": ({"task": "greet", "kwargs": [1]}, BadInput, "kwargs are given as a mapping by name"),
    "kwargs that are no JSON": ({"task": "greet", "kwargs": {"a": object()}}, BadPayload, "JSON"),
    "arguments": ({"task": "greet", "arguments": "event"}, BadInput, 'arguments is "body", or a mapping'),
    "a path": ({"task": "greet", "arguments": {"a": "data.id"}}, BadInput, 'argument .a. is taken from "body"'),
    "a broken path": ({"task": "greet", "arguments": {"a": "body..id"}}, BadInput, "argument .a. is taken from"),
    "a secret": ({"task": "greet", "secret": "hunter2"}, BadInput, "a secret is"),
    "an internal task": ({"task": "mainspring.webhook"}, UnknownTask, "trigger 'orders': task 'mainspring.webhook' is"),
    "a long name": ({"task": "x" * 201}, BadInput, "a task name is 1 to 200"),
    "large kwargs": ({"task": "greet", "kwargs": {"name": "x" * 65_536}}, BadInput, "at most 65,536 bytes"),
    "large paths": ({"task": "greet", "arguments": {"a": "body." + "x" * 65_536}}, BadInput, "at most 65,536 char"),
    "a note": ({"task": "greet", "note": "x" * 1001}, BadInput, "a note is text"),
}


@pytest.mark.parametrize(("given", "kind", "message"), BAD.values(), ids=BAD)
async def test_a_bad_trigger_option_is_refused_by_name(
    app: Mainspring, given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await app.triggers.create(**({"name": "orders"} | given))
    assert list(await app.triggers.list()) == []


# valid calls


async def test_a_signed_message_makes_a_job(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", arguments="body", secret=SECRET)
    handle = await app.triggers.receive("orders", signed({"name": "ada", "times": 2}, at=clock.now()))
    job = await handle.job()
    assert (job.task, job.payload) == ("greet", '{"name":"ada","times":2}')
    assert (job.queue, job.priority, handle.duplicate) == ("mail", 3, False)
    await app.drain()
    assert await handle.result() == "adaada"


async def test_a_trigger_sets_queue_and_priority(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", queue="vip", priority=9, kwargs={"name": "x"}, secret=SECRET)
    job = await (await app.triggers.receive("orders", signed(b"no JSON at all", at=clock.now()))).job()
    assert (job.queue, job.priority, job.payload) == ("vip", 9, '{"name":"x"}')


async def test_parts_of_the_message_become_arguments(app: Mainspring, clock: VirtualClock) -> None:
    arguments = {"event": "body", "source": "body.data.from"}
    await app.triggers.create("orders", task="take", arguments=arguments, secret=SECRET)
    body = {"type": "paid", "data": {"from": "shop"}}
    job = await (await app.triggers.receive("orders", signed(body, at=clock.now()))).job()
    assert json.loads(job.payload) == {"event": body, "source": "shop"}


async def test_a_trigger_for_a_task_that_is_not_registered_here_is_accepted(
    make_app: Callable[..., Mainspring], clock: VirtualClock
) -> None:
    app = make_app()
    await app.triggers.create("orders", task="elsewhere", arguments="body", queue="q", secret=SECRET)
    job = await (await app.triggers.receive("orders", signed({"a": 1}, at=clock.now()))).job()
    assert (job.task, job.queue, job.payload) == ("elsewhere", "q", '{"a":1}')


async def test_a_signed_message_fires_a_schedule(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("now", schedule="nightly", secret=SECRET)
    job = await (await app.triggers.receive("now", signed(at=clock.now()))).job()
    assert (job.task, job.schedule, job.payload) == ("greet", "nightly", '{"name":"ada"}')
    await app.triggers.update("now", arguments="body")
    other = await app.triggers.receive("now", signed({"name": "bob"}, "msg_2", at=clock.now()))
    assert (await other.job()).payload == '{"name":"bob"}'


async def test_both_secrets_are_valid_during_rotation(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    new = (await app.triggers.rotate("orders", overlap=60)).secret
    await app.triggers.receive("orders", signed(id="1", at=clock.now()))
    await app.triggers.receive("orders", signed(id="2", at=clock.now(), secret=new))
    clock.advance(minutes=1)
    with pytest.raises(NotSigned):
        await app.triggers.receive("orders", signed(id="3", at=clock.now()))
    await app.triggers.receive("orders", signed(id="4", at=clock.now(), secret=new))


# repeated messages


@pytest.mark.parametrize("does", [{"task": "greet", "kwargs": {"name": "x"}}, {"schedule": "nightly"}], ids=str)
async def test_a_repeated_message_makes_one_job_and_gets_the_same_answer(
    app: Mainspring, clock: VirtualClock, does: Any
) -> None:
    await app.triggers.create("orders", secret=SECRET, **does)
    first = await app.triggers.receive("orders", signed(at=clock.now()))
    call = signed(at=clock.now())
    again = await asyncio.gather(*(app.triggers.receive("orders", call) for _ in range(5)))
    await app.drain()
    clock.advance(hours=1)
    # Sent again with a new timestamp, as by a sender that did not receive the reply.
    again.append(await app.triggers.receive("orders", signed(at=clock.now())))
    assert {handle.id for handle in again} == {first.id}
    assert len(await app.jobs.list()) == 1


async def test_a_repeated_message_makes_one_job_even_if_that_failed(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    first = await app.triggers.receive("orders", signed(at=clock.now()))
    await app.jobs.cancel(first.id)
    assert (await app.triggers.receive("orders", signed(at=clock.now()))).id == first.id
    assert (await first.job()).state is State.CANCELLED


@pytest.mark.parametrize("does", [{"task": "greet", "kwargs": {"name": "x"}}, {"schedule": "nightly"}], ids=str)
async def test_a_repeated_message_whose_job_was_deleted_makes_no_second_job(
    app: Mainspring, clock: VirtualClock, does: Any
) -> None:
    await app.schedules.get("nightly")
    await app.triggers.create("orders", secret=SECRET, **does)
    call = signed(at=clock.now())
    first = await app.triggers.receive("orders", call)
    await app.jobs.delete(first.id)
    again = await app.triggers.receive("orders", call)
    assert (again.id, again.duplicate, list(await app.jobs.list())) == (first.id, True, [])


async def test_a_repeated_message_whose_job_was_pruned_makes_no_second_job(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task(retention=Retention(keep=0, age=timedelta(0)))
    async def brief() -> None: ...

    await app.triggers.create("orders", task="brief", secret=SECRET)
    call = signed(at=clock.now())
    first = await app.triggers.receive("orders", call)
    await app.drain()
    clock.advance(minutes=4)
    assert await app.prune() == 1
    again = await app.triggers.receive("orders", call)
    assert (again.id, again.duplicate, list(await app.jobs.list())) == (first.id, True, [])


async def test_a_crash_before_the_job_is_recorded_makes_no_second_job(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    faults = Faults()
    faulty = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]
    faulty.tasks.update(app.tasks)
    call = signed(at=clock.now())
    faults.fail("put_documents", after=2)
    with pytest.raises(StoreUnavailable):
        await faulty.triggers.receive("orders", call)
    (job,) = await app.jobs.list()
    assert (await app.triggers.receive("orders", call)).id == job.id  # and is recorded now
    await app.jobs.delete(job.id)
    assert (await app.triggers.receive("orders", call)).id == job.id
    assert list(await app.jobs.list()) == []


@pytest.mark.parametrize("does", [{"task": "brief"}, {"schedule": "briefly"}], ids=str)
@pytest.mark.parametrize("way", ["deleted", "pruned"])
async def test_a_job_deleted_before_it_is_recorded_is_not_made_again(
    app: Mainspring, clock: VirtualClock, does: Any, way: str
) -> None:
    @app.task(retention=Retention(keep=0, age=timedelta(0)))
    async def brief() -> None: ...

    app.schedule("briefly", every(1).days, brief)
    await app.schedules.get("briefly")
    await app.triggers.create("orders", secret=SECRET, **does)
    faults = Faults()
    faulty = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]
    faulty.tasks.update(app.tasks)
    call = signed(at=clock.now())
    faults.fail("put_documents", after=2)
    with pytest.raises(StoreUnavailable):
        await faulty.triggers.receive("orders", call)
    (job,) = await app.jobs.list()
    if way == "deleted":
        await app.jobs.delete(job.id)
    else:
        await app.drain()
        clock.advance(minutes=4)
        assert await app.prune() == 1
    again = await app.triggers.receive("orders", call)
    assert (again.id, again.duplicate, list(await app.jobs.list())) == (job.id, True, [])
    assert await (await app.connect()).documents("trigger.open", now=clock.now(), limit=9) == []


async def test_five_concurrent_copies_of_a_message_make_one_job(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    await app.triggers.create("now", schedule="nightly", secret=SECRET)
    for name in ("orders", "now"):
        handles = await asyncio.gather(*(app.triggers.receive(name, signed(at=clock.now())) for _ in range(5)))
        assert len({handle.id for handle in handles}) == 1
    assert len(await app.jobs.list()) == 2


@pytest.mark.parametrize("does", [{"task": "greet", "kwargs": {"name": "x"}}, {"schedule": "nightly"}], ids=str)
async def test_a_repeated_message_completes_a_call_that_crashed(
    app: Mainspring, clock: VirtualClock, does: Any
) -> None:
    await app.schedules.get("nightly")
    await app.triggers.create("orders", secret=SECRET, **does)
    faults = Faults()
    faulty = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]
    faulty.tasks.update(app.tasks)
    faults.fail("enqueue")
    faults.fail("fire")
    with pytest.raises(StoreUnavailable):
        await faulty.triggers.receive("orders", signed(at=clock.now()))
    assert list(await app.jobs.list()) == []
    handle = await app.triggers.receive("orders", signed(at=clock.now()))
    assert [job.id for job in await app.jobs.list()] == [handle.id]


async def test_the_same_message_id_at_two_triggers_makes_two_jobs(app: Mainspring, clock: VirtualClock) -> None:
    for name in ("one", "two"):
        await app.triggers.create(name, task="greet", kwargs={"name": name}, secret=SECRET)
        await app.triggers.receive(name, signed(at=clock.now()))
    assert len(await app.jobs.list()) == 2


async def test_a_trigger_uses_the_unique_key_of_its_task(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(unique_key="one")
    async def single() -> None: ...

    await app.triggers.create("orders", task="single", secret=SECRET)
    first = await app.triggers.receive("orders", signed(id="1", at=clock.now()))
    second = await app.triggers.receive("orders", signed(id="2", at=clock.now()))
    assert (second.id, second.duplicate) == (first.id, True)


# calls without a valid signature

FORGED: dict[str, Callable[[datetime], tuple[str, Call]]] = {
    "another secret": lambda at: ("orders", signed(at=at, secret="whsec_" + base64.b64encode(bytes(24)).decode())),
    "another body": lambda at: ("orders", msgspec.structs.replace(signed(at=at), body=b"{ }")),
    "another id": lambda at: ("orders", msgspec.structs.replace(signed(at=at), id="msg_2")),
    "another timestamp": lambda at: ("orders", msgspec.structs.replace(signed(at=at), timestamp="1")),
    "no signature": lambda at: ("orders", msgspec.structs.replace(signed(at=at), signature="")),
    "nothing": lambda at: ("orders", Call(id="", timestamp="", signature="", body=b"")),
    "no such trigger": lambda at: ("others", signed(at=at)),
    "no such name": lambda at: ("../\x00", signed(at=at)),
    "a disabled trigger": lambda at: ("off", signed(at=at)),
    "stale and forged": lambda at: ("orders", msgspec.structs.replace(signed(at=at - timedelta(days=1)), body=b"x")),
    "stale and unknown": lambda at: ("others", signed(at=at - timedelta(days=1))),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_an_unsigned_message_and_an_unknown_trigger_get_the_same_error(
    app: Mainspring, clock: VirtualClock, forge: Callable[[datetime], tuple[str, Call]]
) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    await app.triggers.create("off", task="greet", kwargs={"name": "x"}, secret=SECRET)
    await app.triggers.update("off", disabled=True)
    name, call = forge(clock.now())
    with pytest.raises(NotSigned) as refused:
        await app.triggers.receive(name, call)
    assert str(refused.value) == "the signature does not hold, or there is no such trigger"
    assert list(await app.jobs.list()) == []


async def test_an_unknown_trigger_costs_as_much_work_as_a_wrong_signature(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    digest, done = hmac.digest, list[int]()
    monkeypatch.setattr(hmac, "digest", lambda key, text, kind: done.append(len(text)) or digest(key, text, kind))
    forged = signed(b"x" * 1000, at=clock.now(), secret="whsec_" + base64.b64encode(bytes(24)).decode())
    work = []
    for name in ("orders", "others", "../"):
        done.clear()
        with pytest.raises(NotSigned):
            await app.triggers.receive(name, forged)
        work.append(list(done))
    assert work[0] == work[1] == work[2]
    assert len(work[0]) == 2


@pytest.mark.parametrize("seconds", [-301, 301, -86_400])
async def test_a_message_with_an_old_or_future_timestamp_is_stale(
    app: Mainspring, clock: VirtualClock, seconds: int
) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    with pytest.raises(Stale, match="more than 5 minutes from now"):
        await app.triggers.receive("orders", signed(at=clock.now() + timedelta(seconds=seconds)))
    await app.triggers.receive("orders", signed(at=clock.now() + timedelta(seconds=seconds // abs(seconds) * 300)))


@pytest.mark.parametrize("timestamp", ["", "now", "-1", "1e9", "9" * 40, "①"])
async def test_a_malformed_timestamp_is_stale(app: Mainspring, clock: VirtualClock, timestamp: str) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    with pytest.raises(Stale):
        await app.triggers.receive("orders", signed(at=clock.now(), timestamp=timestamp))


# calls that do not fit the task


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"no JSON", "the message is not JSON"),
        (b"[" * 100_000, "the message is not JSON"),
        (b"\xff", "the message is not JSON"),
        (b"[1]", "not a JSON object"),
        ({"nome": "ada"}, "task 'greet' has no argument 'nome'"),
        ({"name": 7}, "arguments of task 'greet' do not fit"),
        ({}, "arguments of task 'greet' do not fit"),
        ({"name": "ada", "times": 2}, "gives argument 'times' itself"),
    ],
)
async def test_a_message_that_does_not_fit_its_task_is_refused_each_time(
    app: Mainspring, clock: VirtualClock, body: Any, message: str
) -> None:
    await app.triggers.create("orders", task="greet", arguments="body", kwargs={"times": 1}, secret=SECRET)
    for _ in range(2):
        with pytest.raises(BadInput, match=message):
            await app.triggers.receive("orders", signed(body, at=clock.now()))
    assert list(await app.jobs.list()) == []


async def test_a_missing_part_of_the_message_is_named(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", task="take", arguments={"event": "body.data.x"}, secret=SECRET)
    for body in ({}, {"data": []}, {"data": {"y": 1}}):
        with pytest.raises(BadPayload, match=r"the message has no 'body\.data\.x'"):
            await app.triggers.receive("orders", signed(body, at=clock.now()))


@pytest.mark.parametrize("id", ["x" * 201, "a\nb"])
async def test_an_unprintable_or_long_message_id_is_refused(app: Mainspring, clock: VirtualClock, id: str) -> None:
    await app.triggers.create("orders", task="greet", kwargs={"name": "x"}, secret=SECRET)
    with pytest.raises(BadInput, match="webhook-id is 1 to 200 printable characters"):
        await app.triggers.receive("orders", signed(id=id, at=clock.now()))


async def test_a_trigger_of_a_deleted_schedule_raises(app: Mainspring, clock: VirtualClock) -> None:
    await app.triggers.create("orders", schedule="weekly", secret=SECRET)
    with pytest.raises(ScheduleNotFound, match="there is no schedule 'weekly'"):
        await app.triggers.receive("orders", signed(at=clock.now()))
