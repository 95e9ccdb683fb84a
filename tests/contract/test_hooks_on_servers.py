"""Webhooks and inbound triggers with several processes on one server: one delivery, one job."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mainspring import Context, Filter, Mainspring, State, StoreUnavailable
from mainspring.clock import EPOCH
from mainspring.testing import Faults, FaultStore
from mainspring.webhook import signature
from mainspring.webhook.inbound import Call
from receiver import Receiver, receiving, says


@pytest.fixture(params=["postgres", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).fresh())


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue(request.param).fresh())


def process(url: str) -> Mainspring:
    """One of the processes that share the store."""
    app = Mainspring(url, webhook_allow="127.0.0.1")

    @app.task(max_retries=0)
    async def work(well: bool = True) -> None:
        assert well

    @app.task
    async def transact(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    return app


def kinds(receiver: Receiver) -> list[str]:
    return sorted(json.loads(message.body)["type"] for message in receiver.messages)


async def test_an_event_is_delivered_to_a_webhook_once_by_two_processes(url: str) -> None:
    async with receiving() as receiver, process(url) as one, process(url) as two:
        await one.webhooks.create("ops", receiver.url, ["job.completed", "job.dead", "job.cancelled", "job.expired"])
        await one.tasks["work"].enqueue()
        await one.tasks["work"].enqueue(well=False)
        waiting = await one.tasks["work"].using(delay=600).enqueue()
        which = Filter(ids=(waiting.id,))
        await asyncio.gather(one.jobs.cancel(waiting.id), two.jobs.cancel(which), two.jobs.cancel(waiting.id))
        await asyncio.gather(one.drain(), two.drain())
        await one.drain()
        assert kinds(receiver) == ["job.cancelled", "job.completed", "job.dead"]
        assert len(await two.webhooks.deliveries("ops")) == 3
        if "postgres" in url:
            await one.tasks["transact"].enqueue()
            await one.drain()
            assert kinds(receiver)[1:3] == ["job.completed", "job.completed"]


async def test_a_410_response_disables_the_webhook_for_every_process(url: str) -> None:
    async with receiving() as receiver, process(url) as one, process(url) as two:
        await one.webhooks.create("ops", receiver.url, ["job.completed"])
        receiver.answer = says(410)
        await one.tasks["work"].enqueue()
        await one.drain()
        assert (await two.webhooks.get("ops")).disabled_at is not None
        assert (await two.webhooks.standing("ops")).failures == 1


def signed(app: Mainspring, secret: str) -> Call:
    body, timestamp = b'{"well": true}', str(int((app.clock.now() - EPOCH).total_seconds()))
    made = signature.sign(secret, "msg_1", timestamp, body)
    return Call(id="msg_1", timestamp=timestamp, signature=made, body=body)


async def test_a_repeated_inbound_message_whose_job_is_deleted_makes_no_other_job(any_url: str) -> None:
    async with process(any_url) as one:
        secret = (await one.triggers.create("orders", task="work", arguments="body")).secret
        call, faults = signed(one, secret), Faults()
        dying = Mainspring(FaultStore(await one.connect(), faults))  # type: ignore[arg-type]
        dying.tasks.update(one.tasks)
        faults.fail("put_documents", after=2)
        with pytest.raises(StoreUnavailable):
            await dying.triggers.receive("orders", call)
        (job,) = await one.jobs.list()
        await one.drain()
        await one.jobs.delete(Filter(states=("completed",)))
        again = await one.triggers.receive("orders", call)
        assert (again.id, again.duplicate, await one.drain()) == (job.id, True, 0)


async def test_an_inbound_message_received_by_two_processes_at_once_makes_one_job(url: str) -> None:
    async with process(url) as one, process(url) as two:
        secret = (await one.triggers.create("orders", task="work", arguments="body")).secret
        call = signed(one, secret)
        handles = await asyncio.gather(*(app.triggers.receive("orders", call) for app in (one, two) * 5))
        assert len({handle.id for handle in handles}) == 1
        await one.drain()
        assert (await two.triggers.receive("orders", call)).id == handles[0].id
        (job,) = await one.jobs.list()
        assert job.state is State.COMPLETED
