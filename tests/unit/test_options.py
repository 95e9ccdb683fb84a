"""Options: which level counts, what each does, and how a bad one is refused."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from mainspring import Backoff, BadInput, BadTask, Filter, Handle, Key, Mainspring, State
from mainspring.records.run import Ending
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW

MakeApp = Callable[..., Mainspring]


@pytest.fixture
def bare() -> Mainspring:
    return Mainspring("memory://")


async def nothing(a: int = 0) -> None: ...


# precedence: job > task > app


async def ran_for(app: Mainspring, clock: VirtualClock, job: Handle[Any]) -> tuple[Ending, float]:
    """How the first run of a job ended, and after how many seconds."""
    draining = asyncio.create_task(app.drain())
    await clock.elapse(seconds=200)
    await draining
    run = await app.executions.get(job.id, 1)
    return run.ending, run.duration.total_seconds()


@pytest.mark.parametrize(
    ("task", "job", "ends"),
    [
        ({}, {}, (Ending.TIMEOUT, 30)),
        ({"timeout": 20}, {}, (Ending.TIMEOUT, 20)),
        ({"timeout": 20}, {"timeout": 10}, (Ending.TIMEOUT, 10)),
        ({}, {"timeout": 10}, (Ending.TIMEOUT, 10)),
        ({"timeout": timedelta(seconds=20)}, {}, (Ending.TIMEOUT, 20)),
        ({"timeout": None}, {}, (Ending.COMPLETED, 100)),
        ({"timeout": 20}, {"timeout": None}, (Ending.COMPLETED, 100)),
        ({"timeout": None}, {"timeout": 10}, (Ending.TIMEOUT, 10)),
    ],
)
async def test_the_narrowest_timeout_is_effective(
    make_app: MakeApp, clock: VirtualClock, task: dict[str, Any], job: dict[str, Any], ends: tuple[Ending, float]
) -> None:
    app = make_app(default_timeout=30)

    @app.task(max_retries=0, **task)
    async def slow() -> None:
        await clock.sleep(100)

    assert await ran_for(app, clock, await slow.using(**job).enqueue()) == ends


async def runs_of(app: Mainspring, clock: VirtualClock, job: Handle[Any]) -> list[datetime]:
    """When each run of a job that always fails began."""
    while not (await job.job()).state.final:
        clock.set(max(clock.now(), (await job.job()).run_at))
        await app.drain()
    return [run.started_at for run in await app.executions.list(job_id=job.id)]


@pytest.mark.parametrize(
    ("task", "job", "runs"),
    [
        ({}, {}, 2),
        ({"max_retries": 2}, {}, 3),
        ({"max_retries": 2}, {"max_retries": 3}, 4),
        ({}, {"max_retries": 3}, 4),
        ({"max_retries": 0}, {}, 1),
        ({"max_retries": 2}, {"max_retries": 0}, 1),
    ],
)
async def test_the_narrowest_number_of_retries_is_effective(
    make_app: MakeApp, clock: VirtualClock, task: dict[str, Any], job: dict[str, Any], runs: int
) -> None:
    app = make_app(retry_max=1)

    @app.task(**task)
    async def fail() -> None:
        raise ValueError("no")

    assert len(await runs_of(app, clock, await fail.using(**job).enqueue())) == runs


@pytest.mark.parametrize(
    ("task", "job", "waits"),
    [
        ({}, {}, [5, 15]),
        ({"backoff": Backoff.constant(7, jitter=0)}, {}, [7, 7]),
        ({"backoff": lambda n: n * 100}, {}, [100, 200]),
        ({"backoff": Backoff.constant(7, jitter=0)}, {"backoff": Backoff.linear(2, jitter=0)}, [2, 4]),
        ({"backoff": lambda n: n * 100}, {"backoff": Backoff.linear(2, jitter=0)}, [2, 4]),
    ],
)
async def test_the_narrowest_backoff_is_effective(
    make_app: MakeApp, clock: VirtualClock, task: dict[str, Any], job: dict[str, Any], waits: list[float]
) -> None:
    app = make_app(retry_max=2, retry_initial_delay=5, retry_multiplier=3)

    @app.task(**task)
    async def fail() -> None:
        raise ValueError("no")

    began = await runs_of(app, clock, await fail.using(**job).enqueue())
    seen = [(later - earlier).total_seconds() for earlier, later in pairwise(began)]
    assert all(0.75 * wait <= span <= wait for span, wait in zip(seen, waits, strict=True))


@pytest.mark.parametrize(
    ("option", "task", "job"),
    [
        ("queue", "mail", "low"),
        ("priority", 5, -5),
        ("tags", ("a",), ("b", "c")),
        ("metadata", {"a": 1}, {"b": 2}),
        ("unique_key", "task's", "job's"),
        ("idempotency_key", "task's", "job's"),
    ],
)
async def test_option_of_a_job_overrides_its_tasks(app: Mainspring, option: str, task: Any, job: Any) -> None:
    plain = app.task(**{option: task})(nothing)
    assert getattr(await (await plain.enqueue()).job(), option) == task
    assert getattr(await (await plain.using(**{option: job}).enqueue()).job(), option) == job


def test_using_returns_a_copy_of_the_task(bare: Mainspring) -> None:
    task = bare.task(queue="mail")(nothing)
    low = task.using(queue="low")
    assert (task.options.queue, low.options.queue) == ("mail", "low")


def test_using_can_be_chained(bare: Mainspring) -> None:
    task = bare.task(nothing).using(queue="low").using(priority=5).using(priority=6)
    assert (task.options.queue, task.options.priority) == ("low", 6)


def test_using_can_drop_the_key_of_the_task(bare: Mainspring) -> None:
    task = bare.task(unique_key="one")(nothing)
    assert task.using(unique_key=None).job().unique_key is None


def test_using_can_replace_the_kind_of_key(bare: Mainspring) -> None:
    job = bare.task(unique_key="one")(nothing).using(unique_key=None, idempotency_key="other").job()
    assert (job.unique_key, job.idempotency_key) == (None, "other")


# effects of options


async def test_options_are_stored_and_returned(app: Mainspring) -> None:
    options: dict[str, Any] = {
        "queue": "mail", "priority": -7, "timeout": 12.5, "max_retries": 9, "tags": ["a", "b"],
        "metadata": {"deep": [1, {"x": None}]}, "backoff": Backoff.linear(3, max=99), "unique_key": "one",
        "run_at": NOW + timedelta(days=1), "expires": NOW + timedelta(days=2),
    }  # fmt: skip
    job = await (await app.task(nothing).using(**options).enqueue()).job()
    assert (job.queue, job.priority, job.timeout, job.max_retries) == ("mail", -7, 12.5, 9)
    assert (job.tags, job.metadata, job.backoff) == (("a", "b"), {"deep": [1, {"x": None}]}, options["backoff"])
    assert (job.unique_key, job.run_at, job.expires_at) == ("one", options["run_at"], options["expires"])


async def test_a_higher_priority_runs_first_and_a_negative_one_last(app: Mainspring) -> None:
    order: list[int] = []

    @app.task
    async def note(n: int) -> None:
        order.append(n)

    for n in (0, -5, 5, 32767, -32768):
        await note.using(priority=n).enqueue(n)
    await app.drain()
    assert order == [32767, 5, 0, -5, -32768]


async def test_jobs_are_found_by_all_of_their_tags(app: Mainspring) -> None:
    task = app.task(nothing)
    both = await task.using(tags=["a", "b"]).enqueue()
    await task.using(tags=["a"]).enqueue()
    assert [job.id for job in await app.jobs.list(Filter(tags=("a", "b")))] == [both.id]


@pytest.mark.parametrize(
    ("options", "run_at", "expires_at"),
    [
        ({}, NOW, None),
        ({"delay": 60}, NOW + timedelta(seconds=60), None),
        ({"delay": timedelta(hours=1)}, NOW + timedelta(hours=1), None),
        ({"run_at": NOW + timedelta(days=1)}, NOW + timedelta(days=1), None),
        ({"expires": 60}, NOW, NOW + timedelta(seconds=60)),
        ({"expires": NOW + timedelta(days=1)}, NOW, NOW + timedelta(days=1)),
        ({"delay": 30, "expires": 60}, NOW + timedelta(seconds=30), NOW + timedelta(seconds=90)),
    ],
)
async def test_delay_counts_from_now_and_expires_from_the_due_instant(
    app: Mainspring, options: dict[str, Any], run_at: datetime, expires_at: datetime | None
) -> None:
    job = await (await app.task(nothing).using(**options).enqueue()).job()
    assert (job.run_at, job.expires_at) == (run_at, expires_at)


async def test_run_at_in_another_zone_is_the_same_instant(app: Mainspring) -> None:
    there = datetime.fromisoformat("2031-06-01T09:00:00+09:00")
    job = await (await app.task(nothing).using(run_at=there).enqueue()).job()
    assert job.run_at == datetime(2031, 6, 1, tzinfo=UTC)


async def test_metadata_is_a_copy(app: Mainspring) -> None:
    mine = {"a": [1]}
    task = app.task(nothing).using(metadata=mine)
    mine["a"].append(2)
    assert (await (await task.enqueue()).job()).metadata == {"a": [1]}


async def test_task_middleware_wraps_its_own_runs_only(app: Mainspring) -> None:
    around: list[str] = []

    async def note(ctx: Any, call_next: Any) -> Any:
        around.append(ctx.job.task)
        return await call_next(ctx)

    await app.task(middleware=[note], name="one")(nothing).enqueue()
    await app.task(name="other")(nothing).enqueue()
    await app.drain()
    assert around == ["one"]


# refusals

NAME = "name is 1 to 200 printable characters without spaces around, got"
SPAN = "takes a span such as 30, '4s', '1h30m' or a timedelta, 0 or more; got"
MORE = "must be more than 0 seconds"
ZONE = "needs a datetime with a time zone, e.g. datetime(2030, 1, 1, tzinfo=UTC), got"
NAIVE = datetime(2030, 1, 1)

BAD: list[tuple[str, Any, str]] = [
    ("queue", "", f"a queue {NAME} ''"),
    ("queue", 5, f"a queue {NAME} 5"),
    ("queue", " mail", f"a queue {NAME} ' mail'"),
    ("queue", "a\nb", f"a queue {NAME} 'a\\nb'"),
    ("queue", "\ud800", f"a queue {NAME} '\\ud800'"),
    ("queue", "x" * 201, f"a queue {NAME} 'xxx"),
    ("priority", 32768, "a whole number from -32768 to 32767, higher runs first; got 32768"),
    ("priority", -32769, "a whole number from -32768 to 32767, higher runs first; got -32769"),
    ("priority", 1.5, "a whole number from -32768 to 32767, higher runs first; got 1.5"),
    ("priority", True, "a whole number from -32768 to 32767, higher runs first; got True"),
    ("priority", "high", "a whole number from -32768 to 32767, higher runs first; got 'high'"),
    ("timeout", 0, f"{MORE} (None: no limit), got 0"),
    ("timeout", -1, f"{SPAN} -1"),
    ("timeout", "5x", f"{SPAN} '5x'"),
    ("timeout", float("nan"), f"{SPAN} nan"),
    ("timeout", float("inf"), f"{SPAN} inf"),
    ("timeout", True, f"{SPAN} True"),
    ("max_retries", -1, "a whole number of at least 0, got -1"),
    ("max_retries", 1.5, "a whole number of at least 0, got 1.5"),
    ("max_retries", True, "a whole number of at least 0, got True"),
    ("backoff", 5, "takes a Backoff or, on the task, a function of the attempt; got 5"),
    ("on_conflict", "ignore", "is one of return, raise, replace, debounce; got 'ignore'"),
    ("debounce_limit", 0, MORE),
    ("debounce_limit", "soon", f"{SPAN} 'soon'"),
    ("expires", 0, MORE),
    ("expires", "1h 30", f"{SPAN} '1h 30'"),
    ("expires", NAIVE, f"{ZONE} datetime.datetime(2030, 1, 1, 0, 0)"),
    ("tags", "urgent", "takes a list of tags, got the single text 'urgent': write ['urgent']"),
    ("tags", [""], "a tag is 1 to 200 printable characters without spaces around, got ''"),
    ("tags", [5], "a tag is 1 to 200 printable characters without spaces around, got 5"),
    ("tags", 5, ""),
    ("metadata", 5, "takes a mapping with text keys, got 5"),
    ("metadata", {1: 2}, "takes a mapping with text keys, got {1: 2}"),
    ("metadata", {"a": object()}, "object is not a type JSON can carry"),
    ("metadata", {"a": float("nan")}, "nan has no JSON form"),
    ("metadata", {"a": "\x00"}, "text with a NUL character cannot be stored"),
]
FOR_A_JOB: list[tuple[str, Any, str]] = [
    ("delay", -1, f"{SPAN} -1"),
    ("delay", "2 months", f"{SPAN} '2 months'; months and years differ in length"),
    ("delay", timedelta(seconds=-1), f"{SPAN} datetime.timedelta(days=-1, seconds=86399)"),
    ("run_at", NAIVE, f"{ZONE} datetime.datetime(2030, 1, 1, 0, 0)"),
    ("run_at", "2030-01-01", f"{ZONE} '2030-01-01'"),
    ("run_at", date(2030, 1, 1), f"{ZONE} datetime.date(2030, 1, 1)"),
]
FOR_A_TASK: list[tuple[str, Any, str]] = [
    ("retry_on", 5, "takes an exception class or a tuple of them, got 5"),
    ("retry_on", (ValueError, "x"), "takes an exception class or a tuple of them, got (<class 'ValueError'>, 'x')"),
    ("no_retry_on", ValueError(), "takes an exception class or a tuple of them, got ValueError()"),
    ("concurrency", 0, "a whole number of at least 1, got 0"),
    ("concurrency", 1.5, "a whole number of at least 1, got 1.5"),
]


def ids(table: list[tuple[str, Any, str]]) -> list[str]:
    return [f"{option}={value!r:.20}" for option, value, _ in table]


@pytest.mark.parametrize(("option", "value", "message"), BAD + FOR_A_JOB, ids=ids(BAD + FOR_A_JOB))
def test_a_bad_option_of_a_job_is_refused_by_name(bare: Mainspring, option: str, value: Any, message: str) -> None:
    task = bare.task(nothing)
    with pytest.raises(BadInput) as refused:
        task.using(**{option: value})
    assert str(refused.value).startswith(f"option {option} of task 'nothing': ")
    assert message in str(refused.value)


@pytest.mark.parametrize(("option", "value", "message"), BAD + FOR_A_TASK, ids=ids(BAD + FOR_A_TASK))
def test_a_bad_option_of_a_task_is_refused_by_name(bare: Mainspring, option: str, value: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        bare.task(**{option: value})(nothing)
    assert str(refused.value).startswith(f"option {option} of task 'nothing': ")
    assert message in str(refused.value)
    assert bare.tasks == {}


@pytest.mark.parametrize("option", ["queue", "priority", "on_conflict", "delay", "tags", "metadata"])
async def test_option_without_none_never_stores_none(app: Mainspring, option: str) -> None:
    """None is refused, or means the default; it is never stored."""
    task = app.task(nothing)
    try:
        job = await (await task.using(**{option: None}).enqueue()).job()
    except BadInput as refused:
        told = str(refused)
    else:
        plain = await (await task.enqueue()).job()
        told = option if getattr(job, option, None) == getattr(plain, option, None) else "stored"
    assert option in told


@pytest.mark.parametrize("backoff", [lambda n: 5, Backoff])
def test_backoff_function_is_refused_for_a_job(bare: Mainspring, backoff: Any) -> None:
    task = bare.task(nothing)
    with pytest.raises(BadInput, match="option backoff of task 'nothing'"):
        task.using(backoff=backoff)


def test_backoff_function_is_refused_for_a_stub(bare: Mainspring) -> None:
    with pytest.raises(BadInput, match="option backoff of task 'nothing'"):
        bare.stub(backoff=lambda n: 5)(nothing)


def test_backoff_refuses_a_class(bare: Mainspring) -> None:
    with pytest.raises(BadInput, match="option backoff of task 'nothing'"):
        bare.task(backoff=Backoff)(nothing)


@pytest.mark.parametrize("option", ["unique_key", "idempotency_key"])
@pytest.mark.parametrize("key", [5, b"key", ("a",), "", "a\x00b"])
def test_key_that_can_be_none_is_refused_by_name(bare: Mainspring, option: str, key: Any) -> None:
    with pytest.raises(BadInput, match=f"{option} of task 'nothing'"):
        bare.task(**{option: key})(nothing).job()


@pytest.mark.parametrize("period", [0, -1, "soon"])
def test_key_period_is_validated(bare: Mainspring, period: Any) -> None:
    with pytest.raises(BadInput, match="period"):
        bare.task(unique_key=Key(period=period))(nothing).job()


BOTH = "unique_key and idempotency_key exclude each other; choose one"


def test_both_keys_on_a_task_are_refused(bare: Mainspring) -> None:
    with pytest.raises(BadInput) as refused:
        bare.task(unique_key="a", idempotency_key="b")(nothing)
    assert str(refused.value) == f"task 'nothing': {BOTH}"


def test_both_keys_on_a_job_are_refused(bare: Mainspring) -> None:
    task = bare.task(nothing)
    with pytest.raises(BadInput, match=BOTH):
        task.using(unique_key="a", idempotency_key="b")


def test_one_key_on_the_task_and_the_other_on_the_job_are_refused(bare: Mainspring) -> None:
    task = bare.task(unique_key="a")(nothing)
    with pytest.raises(BadInput, match=BOTH):
        task.using(idempotency_key="b")


def test_unknown_option_is_refused_by_name(bare: Mainspring) -> None:
    with pytest.raises(BadTask) as refused:
        bare.task(qeue="mail")(nothing)  # type: ignore[call-overload]
    assert str(refused.value) == "task 'nothing': unexpected keyword argument 'qeue'; did you mean 'queue'?"


@pytest.mark.parametrize("option", ["delay", "run_at", "within"])
def test_an_option_of_one_job_is_refused_on_a_task(bare: Mainspring, option: str) -> None:
    value = {"delay": 5, "run_at": NOW, "within": object()}[option]
    with pytest.raises(BadInput, match=option):
        bare.task(**{option: value})(nothing)


@pytest.mark.parametrize("option", ["retry_on", "no_retry_on", "concurrency"])
def test_option_that_cannot_be_stored_is_refused_on_a_stub(bare: Mainspring, option: str) -> None:
    with pytest.raises(BadInput, match=option):
        bare.stub(**{option: 1 if option == "concurrency" else ValueError})(nothing)


@pytest.mark.parametrize("middleware", [5, [5], lambda ctx, call_next: None])
def test_task_refuses_bad_middleware(bare: Mainspring, middleware: Any) -> None:
    with pytest.raises(BadInput, match="middleware"):
        bare.task(middleware=middleware)(nothing)


def test_expires_beyond_the_calendar_is_refused(bare: Mainspring) -> None:
    task = bare.task(nothing).using(run_at=datetime(9999, 12, 31, tzinfo=UTC), expires=timedelta(days=2))
    with pytest.raises(BadInput, match="expires"):
        task.job()


async def test_accepted_backoff_can_always_be_decoded(app: Mainspring) -> None:
    """A backoff that cannot be decoded would end every worker that claims the job."""
    try:
        task = app.task(nothing).using(backoff=Backoff(max=float("inf")))
    except BadInput:
        return
    job = await task.enqueue()
    assert await app.drain() == 1
    assert (await job.job()).state is State.COMPLETED
