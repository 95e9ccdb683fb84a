"""ApiClient: the facades of an app over an API return and raise the same as with the database."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from mainspring import (
    BadInput,
    BadPayload,
    BadSetting,
    Collect,
    Context,
    Filter,
    InvalidTransition,
    JobExists,
    Mainspring,
    StoreUnavailable,
    UnknownTask,
    act_as,
    cron,
    every,
)
from mainspring.api.server import Server, listen, url_of
from mainspring.cli import main
from mainspring.client import connection
from mainspring.insight.queue_depth import sample_once
from mainspring.stores import open_store

NEW_YEAR = datetime(2040, 1, 1, tzinfo=UTC)


def with_tasks(app: Mainspring) -> Mainspring:
    @app.task(queue="mail")
    async def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(max_retries=0)
    async def fail(why: str = "no", token: str = "") -> None:
        raise ValueError(why)

    return app


@pytest.fixture
def near() -> Mainspring:
    """The app on the side of the database."""
    return with_tasks(Mainspring("memory://", beat=0.2, lease=2))


class Losing:
    """Passes requests on; loses the next response if `lose` is set."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.lose = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        lost, self.lose = self.lose and scope["type"] == "http", self.lose and scope["type"] != "http"

        async def swallow(message: Any) -> None: ...

        await self._app(scope, receive, swallow if lost else send)
        while lost and (await receive())["type"] != "http.disconnect":
            pass


@asynccontextmanager
async def serving(near: Mainspring, role: Any = "operator") -> AsyncIterator[tuple[Mainspring, Losing]]:
    """An app that uses the API of `near`."""
    listener, losing = listen("127.0.0.1", 0), Losing(near.asgi())
    server = Server(losing, grace=1)
    async with near:
        running = asyncio.create_task(server.run(listener))
        key = await near.keys.create(f"far-{role}", role)
        far = with_tasks(Mainspring(url_of(listener), api_key=key))
        try:
            async with asyncio.timeout(30), far:
                yield far, losing
        finally:
            server.stop()
            await running


async def done(call: Awaitable[Any]) -> Any:
    """The result of a call, or the type and the message of its error."""
    try:
        return await call
    except Exception as error:
        return type(error), str(error)


# the path of a job


async def test_enqueue_and_await_a_result(near: Mainspring) -> None:
    async with serving(near) as (far, _), near.worker():
        job = await far.tasks["add"].using(priority=5, tags=["x"], metadata={"n": 2**60}).enqueue(40)
        assert await job.result(timeout=10) == 42
        assert await job.job() == await near.jobs.get(job.id)


async def test_items_are_collected_over_an_api(near: Mainspring) -> None:
    async def sync(items: list[int]) -> int:
        return sum(items)

    near.task(collect=Collect(size=3, delay=60))(sync)
    async with serving(near) as (far, _), near.worker():
        there = far.task(collect=Collect(size=3, delay=60))(sync)
        handles = [await there.using(queue="low").enqueue(n) for n in (1, 2, 3)]
        assert [handle.status for handle in handles] == ["new", "collected", "collected"]
        assert await handles[0].result(timeout=10) == 6
        job = await handles[0].job()
        assert job == await near.jobs.get(job.id)
        assert (job.queue, job.collect and job.collect.count) == ("low", 3)


async def test_output_is_followed_in_a_few_requests(near: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, send, go = Counter[str](), connection.ApiConnection.send, asyncio.Event()

    async def counted(self: Any, method: str, *path: str, **given: Any) -> Any:
        requests[path[-1]] += 1
        return await send(self, method, *path, **given)

    async def speak(ctx: Context) -> None:
        await ctx.write("first")
        await go.wait()
        await ctx.write({"last": 2**60})
        for _ in range(18):
            await ctx.write("x" * 60_000)

    near.task(speak)
    async with serving(near) as (far, _), near.worker(), asyncio.timeout(20):
        job = await far.task(speak).enqueue()
        monkeypatch.setattr(connection.ApiConnection, "send", counted)
        output = far.jobs.read(job.id)
        assert (await anext(output)).value == "first"
        following = asyncio.create_task(anext(output))
        await asyncio.wait([following], timeout=0.3)
        assert requests == {"output": 2}
        go.set()
        chunks = [await following, *[chunk async for chunk in output]]
        assert chunks == (await near.jobs.output(job.id))[1:]
        assert chunks == await far.jobs.output(job.id, after=1)
        assert (chunks[0].value, chunks[-1].full) == ({"last": 2**60}, True)


async def test_a_result_and_a_tail_wait_in_a_few_requests(near: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, send, go = Counter[str](), connection.ApiConnection.send, asyncio.Event()

    async def counted(self: Any, method: str, *path: str, **given: Any) -> Any:
        requests[path[-1] if path[-1] == "logs" else "job"] += 1
        return await send(self, method, *path, **given)

    async def steps(ctx: Context) -> int:
        ctx.log.info("first")
        await go.wait()
        ctx.log.info("last")
        return 2

    near.task(steps)
    async with serving(near) as (far, _), near.worker():
        job = await far.task(steps).enqueue()
        monkeypatch.setattr(connection.ApiConnection, "send", counted)
        result = asyncio.create_task(job.result(timeout=20))
        tail = aiter(far.jobs.tail(job.id))
        assert (await anext(tail)).text == "first"
        await asyncio.wait([result], timeout=0.3)
        assert requests["job"] <= 3
        go.set()
        assert await result == 2
        assert [line.text async for line in tail] == ["last"]
    assert requests["job"] <= 8


async def test_enqueue_many_is_all_or_nothing(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        add = far.tasks["add"]
        await far.enqueue_many(add.job(n) for n in range(500))
        assert (await near.jobs.counts())["pending"] == 500
        held = add.using(unique_key="k", on_conflict="raise")
        await held.enqueue(1)
        with pytest.raises(JobExists) as exists:
            await far.enqueue_many([add.job(1), held.job(2)])
        assert exists.value.key == "k"
        assert (await near.jobs.counts())["pending"] == 501


async def test_enqueue_can_be_repeated_after_a_lost_response(near: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_TIMEOUT_SECONDS", 0.5)
    async with serving(near) as (far, losing):
        job = far.tasks["add"].job(1)
        losing.lose = True
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await far.enqueue_many([job])
        (handle,) = await far.enqueue_many([job])
        assert (handle.id, handle.duplicate) == (job.id, False)
        assert [one.id for one in await near.jobs.list()] == [job.id]


async def test_server_refuses_bad_arguments(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        far.tasks.clear()
        with pytest.raises(BadPayload, match="Expected `int`, got `str`"):
            await far.enqueue("add", a="one")
        with pytest.raises(UnknownTask, match="did you mean 'add'"):
            await far.enqueue("ad", a=1)


# control

HOURLY = every(hours=1)
CALLS: list[tuple[str, Callable[[Mainspring, str], Awaitable[Any]]]] = [
    ("get", lambda app, id: app.jobs.get(id)),
    ("get nothing", lambda app, id: app.jobs.get("x")),
    ("list", lambda app, id: app.jobs.list()),
    ("list by filter", lambda app, id: app.jobs.list(Filter(states=("pending",), queues=("mail",), tags=("t",)))),
    ("list the oldest", lambda app, id: app.jobs.list(newest=False, limit=2)),
    ("list strange states", lambda app, id: app.jobs.list(Filter(states=("odd",)))),  # type: ignore[arg-type]
    ("counts", lambda app, id: app.jobs.counts()),
    ("why", lambda app, id: app.jobs.why(id)),
    ("logs", lambda app, id: app.jobs.logs(id)),
    ("output", lambda app, id: app.jobs.output(id)),
    ("output of nothing", lambda app, id: app.jobs.output("x")),
    ("output from below", lambda app, id: app.jobs.output(id, after=-1)),
    ("executions", lambda app, id: app.executions.list(job_id=id)),
    ("update", lambda app, id: app.jobs.update(id, priority=7, run_at=NEW_YEAR)),
    ("update nothing", lambda app, id: app.jobs.update(id)),
    ("edit arguments", lambda app, id: app.jobs.update(id, arguments={"b": 5})),
    ("edit to nonsense", lambda app, id: app.jobs.update(id, arguments={"b": "x"})),
    ("edit many", lambda app, id: app.jobs.update(Filter(tasks=("add",)), arguments={"b": 6}, priority=1)),
    ("pause", lambda app, id: app.jobs.pause(id)),
    ("resume", lambda app, id: app.jobs.resume(id)),
    ("retry what is not dead", lambda app, id: app.jobs.retry(id)),
    ("cancel", lambda app, id: app.jobs.cancel(id, "enough")),
    ("cancelled", lambda app, id: app.jobs.get(id)),
    ("cancel by filter", lambda app, id: app.jobs.cancel(Filter(states=("pending",)), limit=2)),
    ("cancel the rest", lambda app, id: app.jobs.cancel(Filter())),
    ("retry many", lambda app, id: app.jobs.retry(Filter())),
    ("delete", lambda app, id: app.jobs.delete(id)),
    ("delete again", lambda app, id: app.jobs.delete(id)),
    ("counts of a filter", lambda app, id: app.jobs.filtered_counts(Filter(queues=("mail",), tags=("t",)))),
    ("run again one that waits", lambda app, id: app.jobs.run_again(id)),
    ("preview of redrive", lambda app, id: app.dead.preview(Filter(), arguments={"why": "x"})),
    ("queues", lambda app, id: app.queues.list()),
    ("pause queue", lambda app, id: app.queues.pause("mail")),
    ("paused queue", lambda app, id: app.queues.list()),
    ("note of a paused queue", lambda app, id: app.queues.pause("mail", "the provider is down")),
    ("a note that is too long", lambda app, id: app.queues.pause("mail", "x" * 1001)),
    ("strange queue", lambda app, id: app.queues.pause(" ")),
    ("dead groups", lambda app, id: app.dead.groups()),
    ("dead", lambda app, id: app.dead.list()),
    ("redrive", lambda app, id: app.dead.redrive(Filter(), arguments={"why": "again"})),
    ("create", lambda app, id: app.schedules.create("s", HOURLY, "add", kwargs={"a": 1}, jitter=timedelta(0))),
    ("create again", lambda app, id: app.schedules.create("s", HOURLY, "add", kwargs={"a": 1})),
    ("create nonsense", lambda app, id: app.schedules.create("t", HOURLY, "add", kwargs={"z": 1})),
    ("schedule", lambda app, id: app.schedules.get("s")),
    ("no schedule", lambda app, id: app.schedules.get("nope")),
    ("schedules", lambda app, id: app.schedules.list(task="add")),
    (
        "update schedule",
        lambda app, id: app.schedules.update("s", trigger=cron("0 9 * * *"), window=("08:00", "10:00")),
    ),
    ("pause schedule", lambda app, id: app.schedules.pause("s", "note")),
    ("resume schedule", lambda app, id: app.schedules.resume("s")),
    ("reschedule", lambda app, id: app.schedules.reschedule("s", NEW_YEAR)),
    ("preview", lambda app, id: app.schedules.preview("s", 3)),
    ("backfill", lambda app, id: app.schedules.backfill("s", NEW_YEAR, dry_run=True)),
    ("distribution", lambda app, id: app.schedules.distribution()),
    ("rebalance", lambda app, id: app.schedules.rebalance(dry_run=True)),
    ("ticks", lambda app, id: app.schedules.ticks("s")),
    ("schedule stats", lambda app, id: app.schedules.stats("s")),
    ("delete schedule", lambda app, id: app.schedules.delete("s")),
    ("deleted schedule", lambda app, id: app.schedules.delete("s")),
    ("workers", lambda app, id: app.workers.list()),
    ("no worker", lambda app, id: app.workers.get("x")),
]


async def prepared(app: Mainspring) -> str:
    """Enqueues some jobs; returns the id of the job that the calls use."""
    add = app.tasks["add"]
    first = await add.using(tags=["t"]).enqueue(1)
    await app.enqueue_many(add.job(n) for n in range(3))
    await app.tasks["fail"].enqueue("why")
    await app.drain(queues=["default"])
    return first.id


async def test_every_facade_call_returns_the_same_as_with_the_database() -> None:
    there, here = (with_tasks(Mainspring("memory://")) for _ in range(2))
    async with serving(there, "admin") as (far, _), here:
        ids = await prepared(here), await prepared(there)
        for name, call in CALLS:
            with act_as("key:far-admin"):
                local = await done(call(here, ids[0]))
            remote = await done(call(far, ids[1]))
            assert plain(remote) == plain(local), name


def plain(answer: Any) -> str:
    """The value without the parts that differ between two stores: ids and current times."""
    text = re.sub(r"01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "id", repr(answer))
    text = re.sub(r"next='[^']+'", "next", text)
    text = re.sub(r"datetime\.datetime\(20[23]\d[^)]*\)", "then", text)
    return re.sub(r"20[23]\d-\d\d-\d\d[T ][0-9:.]+", "then", text)


async def test_trigger_a_schedule_and_await_its_job(near: Mainspring) -> None:
    async with serving(near) as (far, _), near.worker():
        await far.schedules.create("s", HOURLY, "add", kwargs={"a": 1})
        fired = await far.schedules.trigger("s", kwargs={"a": 5})
        assert await fired.result(timeout=10) == 7


async def test_workers_are_listed_and_receive_commands_over_an_api(near: Mainspring) -> None:
    async with serving(near) as (far, _), near.worker() as worker:
        assert [one.info for one in await far.workers.list()] == [one.info for one in await near.workers.list()]
        assert await far.workers.resize(None, 7) == [worker.id]
        assert await far.workers.drain(worker.id[:8]) == [worker.id]
        (seen,) = await near.workers.list()
        assert (seen.orders.concurrency, seen.orders.drained) == (7, True)
        assert await far.workers.running(worker.id) == []


async def test_stopped_worker_refuses_other_commands_over_an_api(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        worker, now = near.worker(), near.clock.now()  # not started: a running worker would receive the command
        await (await near.connect()).beat(worker._info, until=now + timedelta(seconds=60), now=now)
        assert await far.workers.stop(worker.id[:8]) == [worker.id]
        assert (await far.workers.get(worker.id)).state == "stopping"
        with pytest.raises(InvalidTransition, match=f"cannot drain worker {worker.id}: it is stopping") as refused:
            await far.workers.drain(worker.id)
        assert (refused.value.worker_id, refused.value.state) == (worker.id, "stopping")
        assert await far.workers.resume(None) == []
        assert await far.workers.stop(None) == [worker.id]


async def test_stats_health_and_audit_are_those_of_the_server(near: Mainspring) -> None:
    async with serving(near, "admin") as (far, _):
        await far.tasks["add"].enqueue(1)
        await near.drain()
        local, remote = await near.stats(), await far.stats()
        assert replace(remote, series=[]) == replace(local, series=[])
        for only in ({"queue": "mail"}, {"queue": "default", "task": "add"}, {"task": "send"}):
            assert (await far.stats(**only)).by_task == (await near.stats(**only)).by_task, only
        await sample_once(await near.connect(), near.clock.now())
        for asked in ({}, {"queue": "mail"}, {"window": timedelta(days=2)}):
            assert await far.queues.history(**asked) == await near.queues.history(**asked) != [], asked
        with pytest.raises(BadInput, match="kept for 4 days"):
            await far.queues.history(timedelta(days=5))
        assert (await far.health()).ready
        await far.queues.pause("mail")
        (entry,) = await far.audit.list(limit=1)
        assert (entry.who, entry.action, entry.target) == ("key:far-admin", "queues.pause", "mail")


async def test_create_list_and_revoke_keys(near: Mainspring) -> None:
    async with serving(near, "admin") as (far, _):
        secret = await far.keys.create("mine", "operator", ["jobs:write"], "1h")
        assert await near.keys.find(secret) is not None
        assert [key.name for key in await far.keys.list()] == ["far-admin", "mine"]
        assert (await far.keys.revoke("mine")).name == "mine"


async def test_update_keeps_secrets_that_the_api_hides(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        job = await far.tasks["fail"].enqueue(token="hidden")
        assert "hidden" not in (await far.jobs.get(job.id)).payload
        await far.jobs.update(job.id, arguments={"why": "so"})
        assert json.loads((await near.jobs.get(job.id)).payload) == {"why": "so", "token": "hidden"}


# permissions and errors


async def test_unknown_or_insufficient_key_is_an_error(near: Mainspring) -> None:
    async with serving(near, "viewer") as (far, _):
        with pytest.raises(BadSetting, match=r"far-viewer has role viewer; this needs role operator.*API_KEY"):
            await far.tasks["add"].enqueue(1)
        stranger = Mainspring(far.settings.store, api_key="msk_nobody")
        with pytest.raises(BadSetting, match="MAINSPRING_API_KEY"):
            await stranger.jobs.list()
        await stranger.close()
        assert "msk_nobody" not in repr(stranger.settings)


async def test_refused_client_leaves_no_connection_open(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        store: Any = open_store(far.settings.store, api_key="msk_nobody")
        client = store.connection._client
        with pytest.raises(BadSetting, match="MAINSPRING_API_KEY"):
            await store.open()
        assert client.is_closed


async def test_unreachable_server_is_store_unavailable(near: Mainspring) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = url_of(taken)
    far = Mainspring(at, api_key="msk_x")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await far.jobs.list()


IMPOSSIBLE: list[Callable[[Mainspring], Awaitable[Any]]] = [
    lambda app: app.worker().run(),
    lambda app: app.drain(),
    lambda app: app.prune(),
    lambda app: app.migrate(),
    lambda app: app.leader("x").acquire(),
]


@pytest.mark.parametrize("call", IMPOSSIBLE)
async def test_database_only_features_raise_bad_input(
    near: Mainspring, call: Callable[[Mainspring], Awaitable[Any]]
) -> None:
    async with serving(near) as (far, _):
        with pytest.raises(BadInput, match="needs the database itself"):
            await call(far)


URLS = [
    ("https://", "does not name an API"),
    ("http://jobs.example.com", "would send the API key for everybody to read: use https://"),
    ("https://user:pw@host", "takes no user or password"),
    ("https://host?x=1", "unknown option 'x'"),
    ("https://host?ca=/nowhere", "No such file"),
]


@pytest.mark.parametrize(("url", "words"), URLS)
async def test_invalid_api_url_is_refused(url: str, words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        await Mainspring(url, api_key="msk_x").jobs.list()


def test_missing_api_key_is_refused() -> None:
    with pytest.raises(BadSetting, match="needs a key"):
        Mainspring("https://host")


async def test_commands_work_over_an_api(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        job = await near.tasks["add"].enqueue(1)
        environ = {"MAINSPRING_API_KEY": far.settings.api_key, "COLUMNS": "200"}

        def command(*words: str) -> Any:
            return CliRunner().invoke(main, [*words, "--store", far.settings.store], env=environ)

        listed = await asyncio.to_thread(command, "jobs", "list")
        assert (listed.exit_code, job.id in listed.stdout) == (0, True), listed.stderr
        cancelled = await asyncio.to_thread(command, "jobs", "cancel", job.id)
        assert cancelled.exit_code == 0, cancelled.stderr
        assert (await near.jobs.get(job.id)).state == "cancelled"


async def test_sync_facade_over_an_api(near: Mainspring) -> None:
    async with serving(near) as (far, _):
        again = with_tasks(Mainspring(far.settings.store, api_key=far.settings.api_key))
        made = await asyncio.to_thread(lambda: again.tasks["add"].sync.enqueue(1))
        await asyncio.to_thread(again.sync.close)
        assert (await near.jobs.get(made.id)).task == "add"
