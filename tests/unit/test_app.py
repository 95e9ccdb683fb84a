"""Mainspring: opening and closing, tasks and stubs, and the ways to enqueue a job."""

import asyncio
import functools
import gc
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Backoff,
    BadInput,
    BadPayload,
    BadSetting,
    BadTask,
    Context,
    Filter,
    Job,
    JobExists,
    JobNotFound,
    Mainspring,
    MainspringError,
    ShuttingDown,
    State,
    UnknownTask,
)
from mainspring.events import JobEnqueued
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW

MakeApp = Callable[..., Mainspring]


@pytest.fixture
def bare() -> Mainspring:
    """An app for tests that never use its store."""
    return Mainspring("memory://")


def add(a: int, b: int = 2) -> int:
    return a + b


async def add_async(a: int, b: int = 2) -> int:
    return a + b


# open and close


async def test_an_app_opens_its_store_at_the_first_use(app: Mainspring) -> None:
    assert await app.jobs.list() == []


async def test_enqueue_on_a_closed_app_raises_shutting_down(app: Mainspring) -> None:
    task = app.task(add)
    async with app:
        await task.enqueue(1)
    with pytest.raises(ShuttingDown) as refused:
        await task.enqueue(1)
    assert str(refused.value) == "this app is closed; open it again with `async with app:`"


CALLS: dict[str, Callable[[Mainspring], Any]] = {
    "enqueue": lambda app: app.enqueue("add", a=1),
    "enqueue_many": lambda app: app.enqueue_many([app.tasks["add"].job(1)]),
    "jobs.get": lambda app: app.jobs.get("id"),
    "jobs.cancel": lambda app: app.jobs.cancel("id"),
    "queues.list": lambda app: app.queues.list(),
    "executions.list": lambda app: app.executions.list(job_id="id"),
    "workers.list": lambda app: app.workers.list(),
    "stats": lambda app: app.stats(),
    "drain": lambda app: app.drain(),
    "worker": lambda app: app.worker().run(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_every_store_call_of_a_closed_app_raises_shutting_down(
    app: Mainspring, call: Callable[[Mainspring], Any]
) -> None:
    app.task(add)
    await app.close()
    with pytest.raises(ShuttingDown):
        await call(app)


async def test_a_closed_app_can_be_reopened_with_all_its_jobs(app: Mainspring) -> None:
    task = app.task(add)
    async with app:
        job = await task.enqueue(1)
    async with app:
        assert (await job.job()).state is State.PENDING
        assert await app.drain() == 1


async def test_closing_an_app_twice_or_before_opening_is_no_error(app: Mainspring) -> None:
    await app.close()
    await app.close()


def test_an_app_can_be_used_in_successive_event_loops(app: Mainspring) -> None:
    task = app.task(add)
    job = asyncio.run(task.enqueue(1))
    assert asyncio.run(app.jobs.get(job.id)).id == job.id
    assert asyncio.run(app.drain()) == 1


def lanes() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name in ("mainspring-writer", "mainspring-reader")}


def test_close_ends_the_threads_of_a_store_opened_by_a_closed_event_loop(tmp_path: Path) -> None:
    before = lanes()
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    asyncio.run(app.jobs.list())
    assert len(lanes() - before) == 2
    gc.collect()
    asyncio.run(app.close())
    assert lanes() - before == set()


async def test_two_apps_on_one_store_see_the_same_jobs(make_app: MakeApp) -> None:
    one, other = make_app(), make_app()
    job = await one.task(add).enqueue(1)
    assert (await other.jobs.get(job.id)).task == "add"


@pytest.mark.parametrize("target", [-1, True, "1", 1.5])
async def test_migrate_refuses_an_invalid_schema_version(app: Mainspring, target: Any) -> None:
    with pytest.raises(BadSetting) as refused:
        await app.migrate(target)
    assert str(refused.value) == f"a schema version is a whole number, got {target!r}"


# tasks


def test_a_task_has_the_name_of_its_function(bare: Mainspring) -> None:
    assert bare.task(add).name == "add"
    assert repr(bare.tasks["add"]) == "<Task add>"


def test_a_task_may_have_another_name(bare: Mainspring) -> None:
    assert bare.task(name="shop.add")(add).name == "shop.add"
    assert set(bare.tasks) == {"shop.add"}


def test_a_task_keeps_its_functions_documentation(bare: Mainspring) -> None:
    def documented() -> None:
        """What it does."""

    assert bare.task(documented).__doc__ == "What it does."


def test_calling_a_task_calls_its_function(bare: Mainspring) -> None:
    assert bare.task(add)(1, b=5) == 6


async def test_calling_an_async_task_is_awaited_like_its_function(bare: Mainspring) -> None:
    assert await bare.task(add_async)(1) == 3


@pytest.mark.parametrize("register", ["task", "stub"])
def test_a_task_name_cannot_be_registered_twice(bare: Mainspring, register: str) -> None:
    bare.task(add)
    with pytest.raises(BadTask) as refused:
        getattr(bare, register)(add)
    assert str(refused.value) == "a task named 'add' is registered already; give this one another name="


def test_a_refused_task_leaves_its_name_free(bare: Mainspring) -> None:
    with pytest.raises(BadInput):
        bare.task(priority="high")(add)
    assert bare.task(add).name == "add"


@pytest.mark.parametrize("thing", [5, "mail", ["add"]])
def test_a_task_that_is_not_callable_is_refused(bare: Mainspring, thing: Any) -> None:
    with pytest.raises(BadTask) as refused:
        bare.task(thing)
    assert str(refused.value) == f"@app.task takes a function, got {thing!r}; options go by name: @app.task(queue=…)"


@pytest.mark.parametrize("name", [" mail", "mail ", "a\nb", "a\x00b", "x" * 201, "\ud800"])
def test_a_task_name_that_cannot_be_stored_is_refused(bare: Mainspring, name: str) -> None:
    with pytest.raises(BadInput, match=r"^a task name is 1 to 200 printable characters without spaces around, got "):
        bare.task(name=name)(add)


def test_a_function_whose_annotations_cannot_be_resolved_is_refused(bare: Mainspring) -> None:
    def lost(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(BadTask) as refused:
        bare.task(lost)
    assert str(refused.value) == "task 'lost' has annotations that cannot be resolved: name 'Nowhere' is not defined"


async def test_a_lambda_with_a_name_is_a_task(app: Mainspring) -> None:
    task = app.task(lambda: "called", name="short")
    job = await task.enqueue()
    await app.drain()
    assert await job.result() == "called"


def test_a_lambda_without_a_name_is_refused_with_a_remedy(bare: Mainspring) -> None:
    with pytest.raises(BadTask, match="name="):
        bare.task(lambda: None)


class Adder:
    def __call__(self, a: int) -> int:
        return a + 1

    def method(self, a: int) -> int:
        return a + 1

    async def async_method(self, a: int) -> int:
        return a + 1


CALLABLES = {
    "sync": add,
    "async": add_async,
    "method": Adder().method,
    "async method": Adder().async_method,
    "object": Adder(),
    "partial": functools.partial(add, b=1),
    "async partial": functools.partial(add_async, b=1),
}


@pytest.mark.parametrize("fn", CALLABLES.values(), ids=CALLABLES)
async def test_every_kind_of_callable_can_be_a_task(app: Mainspring, fn: Callable[..., Any]) -> None:
    task = app.task(name="work")(fn)
    job = await task.enqueue(1)
    await app.drain()
    assert await job.result() in (2, 3)


async def test_a_coroutine_function_runs_in_the_workers_loop(app: Mainspring) -> None:
    @app.task
    async def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    job = await where.enqueue()
    await app.drain()
    assert await job.result() is True


async def test_a_plain_function_runs_in_a_thread(app: Mainspring) -> None:
    @app.task
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    job = await where.enqueue()
    await app.drain()
    assert await job.result() is False


async def test_a_task_that_asks_for_its_context_gets_it(app: Mainspring) -> None:
    @app.task
    async def who(ctx: Context, greeting: str) -> str:
        return f"{greeting} {ctx.job.id} {ctx.attempt} {ctx.metadata}"

    job = await who.using(metadata={"for": "ada"}).enqueue("hello")
    await app.drain()
    assert await job.result() == f"hello {job.id} 1 {{'for': 'ada'}}"


# enqueue


async def test_an_enqueued_job_can_be_claimed_at_once(app: Mainspring) -> None:
    job = await app.task(add).enqueue(1)
    record = await job.job()
    assert (record.id, record.task, record.state, record.run_at, record.created_at) == (
        job.id, "add", State.PENDING, NOW, NOW,
    )  # fmt: skip
    assert await app.drain() == 1


async def test_job_ids_increase_in_order_of_enqueue(app: Mainspring) -> None:
    task = app.task(add)
    ids = [(await task.enqueue(n)).id for n in range(20)]
    assert ids == sorted(ids)


async def test_a_delayed_job_never_runs_before_its_run_at(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(add).using(delay=60).enqueue(1)
    clock.advance(seconds=59.999999)
    assert await app.drain() == 0
    clock.advance(seconds=0.000001)
    assert await app.drain() == 1
    assert (await job.job()).started_at == NOW + timedelta(seconds=60)


async def test_a_job_with_a_past_run_at_is_due_at_once(app: Mainspring) -> None:
    await app.task(add).using(run_at=NOW - timedelta(days=365)).enqueue(1)
    assert await app.drain() == 1


async def test_enqueue_refuses_arguments_of_wrong_types_and_writes_nothing(app: Mainspring) -> None:
    with pytest.raises(BadPayload, match="arguments of task 'add' do not fit: Expected `int`, got `str`"):
        await app.task(add).enqueue("one")
    assert await app.jobs.list() == []


async def test_payload_limit_setting_limits_the_arguments_of_a_job(make_app: MakeApp) -> None:
    app = make_app(payload_limit=10)
    with pytest.raises(BadPayload, match=r"the limit is 10 \(payload_limit\)"):
        await app.task(lambda text: text, name="echo").enqueue("0123456789")


async def test_job_enqueued_event_is_emitted_for_new_and_duplicate_jobs(app: Mainspring) -> None:
    heard: list[JobEnqueued] = []
    app.events.subscribe(JobEnqueued, heard.append)
    task = app.task(add).using(queue="mail", unique_key="one")
    first, second = await task.enqueue(1), await task.enqueue(1)
    with pytest.raises(JobExists):
        await task.using(on_conflict="raise").enqueue(1)
    assert [(event.at, event.id, event.task, event.queue, event.status) for event in heard] == [
        (NOW, first.id, "add", "mail", "new"),
        (NOW, second.id, "add", "mail", "duplicate"),
    ]


# by name


async def test_enqueue_by_name_uses_the_options_of_a_registered_task(app: Mainspring) -> None:
    app.task(queue="mail", priority=7)(add)
    job = await (await app.enqueue("add", a=1)).job()
    assert (job.queue, job.priority, job.payload) == ("mail", 7, '{"a":1}')


async def test_enqueue_by_name_checks_the_arguments_of_a_registered_task(app: Mainspring) -> None:
    app.task(add)
    with pytest.raises(BadPayload, match="task 'add' has no argument 'c'"):
        await app.enqueue("add", a=1, c=3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("send_emial", "no task 'send_emial' is registered in this app; did you mean 'send_email'?"),
        ("xyz", "no task 'xyz' is registered in this app; known: add, send_email"),
    ],
)
async def test_enqueue_by_name_refuses_an_unknown_task_with_a_suggestion(
    app: Mainspring, name: str, message: str
) -> None:
    app.task(add)
    app.task(name="send_email")(add)
    with pytest.raises(UnknownTask) as refused:
        await app.enqueue(name)
    assert str(refused.value) == message
    assert isinstance(refused.value, LookupError)
    assert await app.jobs.list() == []


async def test_a_job_enqueued_by_name_by_a_client_without_tasks_is_run_by_a_worker(make_app: MakeApp) -> None:
    client, server = make_app(), make_app()
    job = await client.enqueue("add", a=1, b=5)
    server.task(add)
    await server.drain()
    assert await job.result() == 6


@pytest.mark.parametrize("name", ["", " add", "a\nb", 5])
async def test_enqueue_by_name_refuses_an_invalid_task_name(app: Mainspring, name: Any) -> None:
    with pytest.raises(BadInput, match="a task name is 1 to 200 printable characters"):
        await app.enqueue(name)


async def test_enqueue_by_name_refuses_an_argument_that_cannot_be_encoded(app: Mainspring) -> None:
    with pytest.raises(BadPayload, match="argument 'a' of task 'add' cannot be sent: object is not a type"):
        await app.enqueue("add", a=object())


async def test_a_job_of_an_unknown_task_waits_for_a_worker_that_knows_it(make_app: MakeApp) -> None:
    job = await make_app().enqueue("later", a=1)
    older, newer = make_app(), make_app()
    older.task(add)
    assert await older.drain() == 0
    assert (await job.job()).state is State.PENDING
    newer.task(name="later")(add)
    assert await newer.drain() == 1


async def test_an_undecodable_payload_of_an_unknown_version_is_postponed(make_app: MakeApp) -> None:
    client, server = make_app(), make_app()
    job = await client.enqueue("add", a="one")
    server.task(max_retries=5)(add)
    assert await server.drain() == 1
    record = await job.job()
    assert (record.state, record.failure and record.failure.type) == (State.PENDING, "VersionSkew")
    assert [run.ending for run in await server.executions.list(job_id=job.id)] == ["released"]


async def test_without_skew_an_undecodable_payload_is_dead_at_once_with_the_reason(make_app: MakeApp) -> None:
    client, server = make_app(), make_app(skew=0)
    job = await client.enqueue("add", a="one")
    server.task(max_retries=5)(add)
    assert await server.drain() == 1
    record = await job.job()
    assert record.state is State.DEAD
    assert record.failure is not None
    assert record.failure.type == "BadPayload"
    assert record.failure.message == "the payload does not fit task 'add': Expected `int`, got `str` - at `$.a`"
    assert [run.ending for run in await server.executions.list(job_id=job.id)] == ["failed"]


# stubs


def unreachable(a: int, b: int = 2) -> int:
    raise AssertionError("a stub's body never runs")


async def test_a_job_of_a_stub_is_run_by_the_real_task(make_app: MakeApp) -> None:
    web, server = make_app(), make_app()
    job = await web.stub(name="add")(unreachable).enqueue(1, b=5)
    server.task(add)
    await server.drain()
    assert await job.result() == 6


async def test_a_stub_checks_arguments_like_its_task(app: Mainspring) -> None:
    with pytest.raises(BadPayload, match="arguments of task 'add' do not fit: Expected `int`, got `str`"):
        await app.stub(name="add")(unreachable).enqueue("one")


async def test_a_stubs_result_is_typed_by_its_annotation(make_app: MakeApp) -> None:
    web, server = make_app(), make_app()

    @web.stub
    def tomorrow(at: datetime) -> datetime: ...

    @server.task(name="tomorrow")
    async def _(at: datetime) -> datetime:
        return at + timedelta(days=1)

    job = await tomorrow.enqueue(NOW)
    await server.drain()
    assert await job.result() == NOW + timedelta(days=1)


def test_a_worker_of_an_app_with_only_stubs_is_refused(bare: Mainspring) -> None:
    bare.stub(add)
    with pytest.raises(BadInput) as refused:
        bare.worker()
    assert str(refused.value).startswith("this app has no tasks, so a worker would have nothing to run")


async def test_a_worker_does_not_run_jobs_of_its_stubs(app: Mainspring) -> None:
    app.task(add)
    await app.stub(name="elsewhere")(unreachable).enqueue(1)
    assert await app.drain() == 0


async def test_options_of_a_stub_are_stored_with_the_job(app: Mainspring) -> None:
    stub = app.stub(
        name="add", queue="mail", priority=3, timeout=60, max_retries=7, backoff=Backoff.constant(5), tags=["a"],
        metadata={"k": 1}, expires=600, unique_key="one",
    )(unreachable)  # fmt: skip
    job = await (await stub.enqueue(1)).job()
    assert (job.queue, job.priority, job.timeout, job.max_retries, job.backoff, job.tags, job.metadata) == (
        "mail", 3, 60.0, 7, Backoff.constant(5), ("a",), {"k": 1},
    )  # fmt: skip
    assert (job.expires_at, job.unique_key) == (NOW + timedelta(seconds=600), "one")


async def test_timeout_retries_and_backoff_of_a_task_are_not_stored_with_the_job(app: Mainspring) -> None:
    task = app.task(timeout=60, max_retries=7, backoff=Backoff.constant(5))(add)
    job = await (await task.enqueue(1)).job()
    assert (job.max_retries, job.backoff) == (None, None)
    assert not job.timeout


async def test_max_retries_of_a_stub_override_those_of_the_task(make_app: MakeApp) -> None:
    web, server = make_app(), make_app()
    job = await web.stub(name="fail", max_retries=0)(unreachable).enqueue(1)

    @server.task(max_retries=5)
    async def fail(a: int) -> None:
        raise ValueError("no")

    await server.drain()
    assert (await job.job()).state is State.DEAD


# enqueue_many


async def test_enqueue_many_returns_handles_in_order(app: Mainspring) -> None:
    one, other = app.task(add), app.task(name="other", queue="mail")(add)
    handles = await app.enqueue_many((one if n % 2 else other).job(n) for n in range(300))
    records = {job.id: job for job in await app.jobs.list(limit=1000)}
    assert [records[handle.id].payload for handle in handles] == [f'{{"a":{n}}}' for n in range(300)]
    assert [records[handle.id].queue for handle in handles[:2]] == ["mail", "default"]


async def test_enqueue_many_of_no_jobs_is_no_error(app: Mainspring) -> None:
    assert await app.enqueue_many([]) == []


async def test_enqueue_many_stores_nothing_if_one_key_is_held(app: Mainspring) -> None:
    task = app.task(add)
    held = await task.using(unique_key="taken").enqueue(0)
    picky = task.using(unique_key="taken", on_conflict="raise")
    with pytest.raises(JobExists) as refused:
        await app.enqueue_many([task.job(1), task.using(unique_key="free").job(2), picky.job(3), task.job(4)])
    assert (refused.value.key, refused.value.job_id) == ("taken", held.id)
    assert [job.id for job in await app.jobs.list()] == [held.id]


async def test_enqueue_many_stores_nothing_if_one_job_has_arguments_of_wrong_types(app: Mainspring) -> None:
    task = app.task(add)
    with pytest.raises(BadPayload):
        await app.enqueue_many(task.job(value) for value in (1, 2, "three", 4))
    assert await app.jobs.list() == []


@pytest.mark.parametrize("thing", [5, None, "add", {"a": 1}, add])
async def test_enqueue_many_stores_nothing_if_one_item_is_not_a_job(app: Mainspring, thing: Any) -> None:
    task = app.task(add)
    with pytest.raises(BadInput) as refused:
        await app.enqueue_many([task.job(1), thing])
    assert str(refused.value) == f"enqueue_many takes what task.job(…) returns, got {type(thing).__name__}"
    assert await app.jobs.list() == []


async def test_enqueue_many_is_idempotent(app: Mainspring) -> None:
    """The caller may send the same jobs again after a lost reply."""
    task = app.task(add)
    jobs = [task.job(n) for n in range(5)]
    first, again = await app.enqueue_many(jobs), await app.enqueue_many(jobs)
    assert [handle.id for handle in first] == [handle.id for handle in again]
    assert len(await app.jobs.list()) == 5


async def test_enqueue_many_makes_one_job_of_a_repeated_key(app: Mainspring) -> None:
    task = app.task(add).using(unique_key="one")
    first, second = await app.enqueue_many([task.job(1), task.job(2)])
    assert (first.id, first.status, second.status) == (second.id, "new", "duplicate")


# workers of the app


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queues": []}, "queues takes a list of names or a mapping of name to slots, got []"),
        ({"queues": "mail"}, "queues takes a list of names or a mapping of name to slots, got 'mail'"),
        ({"queues": 5}, "queues takes a list of names or a mapping of name to slots, got 5"),
        ({"queues": [""]}, "a queue name is 1 to 200 printable characters without spaces around, got ''"),
        ({"queues": {"a": 0}}, "a queue's slots are a whole number of at least 1, or None; got {'a': 0}"),
        ({"queues": {"a": True}}, "a queue's slots are a whole number of at least 1, or None; got {'a': True}"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_worker_options_are_refused(bare: Mainspring, given: dict[str, Any], message: str) -> None:
    bare.task(add)
    with pytest.raises(BadInput) as refused:
        bare.worker(**given)
    assert str(refused.value) == message


async def test_drain_of_some_queues_leaves_other_queues_alone(app: Mainspring) -> None:
    task = app.task(add)
    await task.enqueue(1)
    await task.using(queue="mail").enqueue(2)
    assert await app.drain(queues=["mail"]) == 1
    assert [job.queue for job in await app.jobs.list(Filter(states=("pending",)))] == ["default"]


# errors and records


def test_every_error_is_a_mainspring_error(bare: Mainspring) -> None:
    for kind in (BadInput, BadTask, BadPayload, UnknownTask, JobNotFound, JobExists, ShuttingDown):
        assert issubclass(kind, MainspringError)


def test_a_job_record_is_immutable() -> None:
    job = Job(id="i", task="t", payload="{}", queue="q", priority=0, state=State.PENDING, run_at=NOW, created_at=NOW)
    with pytest.raises(AttributeError):
        job.state = State.DEAD  # type: ignore[misc]
