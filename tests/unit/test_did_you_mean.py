"""A wrong name gets the nearest right one: options, settings, arguments, states, constants."""

from collections.abc import Callable
from typing import Any

import pytest

from mainspring import (
    Backoff,
    BadInput,
    BadTask,
    Breaker,
    Cancel,
    Context,
    Discard,
    Filter,
    Key,
    Mainspring,
    Retention,
    Retry,
    ShownState,
    Snooze,
    State,
    at,
    cron,
    every,
)
from mainspring.records.job import SHOWN
from mainspring.task.options import TaskOptions
from mainspring.testing.contract.build import NOW


async def work(count: int = 0) -> None: ...


def app() -> Any:
    return Mainspring("memory://")


def task() -> Any:
    return app().task(work)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "task(queu)": (lambda: app().task(queu="a")(work), "queue"),
    "task(retries)": (lambda: app().task(retries=3)(work), "max_retries"),
    "task(max_attempts)": (lambda: app().task(max_attempts=3)(work), "max_retries"),
    "task(nam)": (lambda: app().task(nam="x")(work), "name"),
    "task(middlware)": (lambda: app().task(middlware=[])(work), "middleware"),
    "stub(queu)": (lambda: app().stub(queu="a")(work), "queue"),
    "using(dealy)": (lambda: task().using(dealy=5), "delay"),
    "using(countdown)": (lambda: task().using(countdown=5), "delay"),
    "using(eta)": (lambda: task().using(eta=NOW), "run_at"),
    "job(conut)": (lambda: task().job(conut=5), "count"),
    "every(minute)": (lambda: app().every(minute=5)(work), "minutes"),
    "every(minutes, second)": (lambda: app().every(minutes=5, second=5)(work), "seconds"),
    "every(jiter)": (lambda: app().every(minutes=5, jiter=5)(work), "jitter"),
    "cron(overlp)": (lambda: app().cron("0 9 * * *", overlp="skip")(work), "overlap"),
    "cron(timezone)": (lambda: app().cron("0 9 * * *", timezone="UTC")(work), "tz"),
    "on(max_run)": (lambda: app().on(at(NOW), max_run=3)(work), "max_runs"),
    "schedule(graze)": (lambda: schedule(graze=5), "grace"),
    "trigger every(minute)": (lambda: every(minute=5), "minutes"),  # type: ignore[call-overload]
    "trigger cron.HOURY": (lambda: cron.HOURY, "HOURLY"),  # type: ignore[attr-defined]
    "trigger cron.daily": (lambda: cron.daily, "DAILY"),  # type: ignore[attr-defined]
    "Retry(aftr)": (lambda: Retry(aftr=5), "after"),  # type: ignore[call-arg]
    "Snooze(dely)": (lambda: Snooze(dely=5), "delay"),  # type: ignore[call-arg]
    "Cancel(reasn)": (lambda: Cancel(reasn="x"), "reason"),  # type: ignore[call-arg]
    "Discard(reasn)": (lambda: Discard(reasn="x"), "reason"),  # type: ignore[call-arg]
    "Breaker(failure)": (lambda: Breaker(failure=5), "failures"),  # type: ignore[call-arg]
    "Backoff(inital)": (lambda: Backoff(inital=5), "initial"),  # type: ignore[call-arg]
    "Retention(kep)": (lambda: Retention(kep=5), "keep"),  # type: ignore[call-arg]
    "Key(perod)": (lambda: Key(perod=5), "period"),  # type: ignore[call-arg]
    "Filter(state)": (lambda: Filter(state=("dead",)), "states"),  # type: ignore[call-arg]
    "setting": (lambda: Mainspring("memory://", concurency=5), "concurrency"),
    "setting leese": (lambda: Mainspring("memory://", leese=5), "lease"),
}


def schedule(**options: Any) -> None:
    one = app()
    one.schedule("x", every(5).minutes, one.task(work), **options)


@pytest.mark.parametrize("call", WRONG)
def test_a_misspelled_name_gets_a_suggestion(call: str) -> None:
    act, meant = WRONG[call]
    with pytest.raises((BadInput, TypeError), match=f"did you mean '{meant}'"):
        act()


@pytest.mark.parametrize("method", ["update", "cancel", "retry", "pause", "resume", "delete"])
async def test_a_misspelled_keyword_of_an_action_gets_a_suggestion(app: Mainspring, method: str) -> None:
    async with app:
        with pytest.raises(TypeError, match=rf"Jobs.{method}\(\) got an unexpected .* did you mean 'limit'"):
            await getattr(app.jobs, method)(Filter(), limt=5)


async def test_misspelled_options_of_control_methods_get_a_suggestion(app: Mainspring) -> None:
    app.task(work)
    async with app:
        handle = await app.enqueue("work")
        with pytest.raises(TypeError, match="did you mean 'queue'"):
            await app.jobs.update(handle.id, qeue="a")  # type: ignore[call-arg]
        with pytest.raises(BadInput, match="did you mean 'work'"):
            await app.schedules.create("x", every(5).minutes, "wrok")
        with pytest.raises(BadInput, match="did you mean 'jitter'"):
            await app.schedules.create("x", every(5).minutes, "work", jiter=5)  # type: ignore[call-arg]
        await app.schedules.create("x", every(5).minutes, "work")
        with pytest.raises(BadInput, match="did you mean 'jitter'"):
            await app.schedules.update("x", jiter=5)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'queues'"):
            await app.webhooks.create("x", "https://x.example", ["job.dead"], ques=["a"])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'task'"):
            await app.triggers.create("x", tsk="work")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'name'"):
            await app.queues.pause(nam="x")  # type: ignore[call-arg]
        with pytest.raises(BadInput, match="did you mean 'retrying'"):
            await app.jobs.list(Filter(states=("retring",)))  # type: ignore[arg-type]


# an unannotated context


@pytest.mark.parametrize("name", ["ctx", "context"])
def test_a_context_parameter_without_annotation_is_refused_with_a_remedy(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"async def send({name}, to): ...", scope)
    one = app()
    with pytest.raises(BadTask, match=f"write `{name}: Context` for the run's Context, or rename it"):
        one.task(scope["send"])
    assert one.tasks == {}


def test_a_ctx_parameter_with_another_type_or_not_first_is_an_ordinary_parameter() -> None:
    one = app()

    @one.task
    async def typed(ctx: dict[str, int]) -> None: ...

    @one.task
    async def later(to, ctx) -> None: ...  # type: ignore[no-untyped-def]

    @one.task
    async def own(ctx: Context, to: str) -> None: ...

    assert typed.job({"a": 1}).payload == '{"ctx":{"a":1}}'
    assert later.job("ada", 1).payload == '{"to":"ada","ctx":1}'
    assert own.job("ada").payload == '{"to":"ada"}'


# options of a wrong type

WRONG_TYPES: dict[str, Any] = {
    "queue": 5, "priority": "high", "timeout": [], "max_retries": "3", "backoff": "linear", "retry_on": "ValueError",
    "no_retry_on": 5, "concurrency": "5", "executor": 5, "soft_timeout": [], "memory_limit": [], "cpu_limit": [],
    "failed_ratio": "half", "breaker": "5", "on_failure": "mourn", "retention": 5, "unique_key": 5,
    "idempotency_key": b"x", "on_conflict": True, "debounce_limit": [], "expires": [], "tags": 5, "metadata": 5,
    "limit": 5,
}  # fmt: skip


def test_the_table_of_wrong_types_has_every_option() -> None:
    assert set(WRONG_TYPES) == set(TaskOptions.__annotations__)


@pytest.mark.parametrize("option", WRONG_TYPES)
def test_an_option_of_a_wrong_type_is_refused_when_the_task_is_registered(option: str) -> None:
    one = app()
    with pytest.raises(BadInput, match=f"option {option} of task 'work'"):
        one.task(**{option: WRONG_TYPES[option]})(work)
    assert one.tasks == {}


# states


def test_shown_state_has_the_values_of_shown() -> None:
    names = {name: value for name, value in vars(ShownState).items() if name.isupper()}
    assert tuple(names.values()) == SHOWN
    assert all(name.lower() == value for name, value in names.items())
    assert {state.name for state in State} <= set(names)


@pytest.mark.parametrize("shown", ["retrying", "scheduled"])
def test_state_refuses_a_shown_state_with_a_remedy(shown: str) -> None:
    with pytest.raises(ValueError, match=rf"the job's state is 'pending'. ShownState.{shown.upper()} is for"):
        State(shown)


async def test_a_shown_state_can_be_used_in_a_filter_and_compared(app: Mainspring) -> None:
    @app.task(backoff=Backoff.constant("1h"))
    async def fails() -> None:
        raise ValueError

    async with app:
        handle = await fails.enqueue()
        await app.drain()
        (job,) = await app.jobs.list(Filter(states=(ShownState.RETRYING,)))
        assert (job.id, job.shown(app.clock.now())) == (handle.id, ShownState.RETRYING)
