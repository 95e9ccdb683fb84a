"""Options of a schedule: every bad option is refused by name, with a remedy, and nothing is registered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from mainspring import BadInput, BadPayload, BadTask, Mainspring, cron, every

HOURLY = every(1).hours
NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://")

    @app.task
    async def report(kind: str = "daily") -> None: ...

    @app.task
    async def send(to: str) -> None: ...

    return app


TRIGGERS: list[tuple[Any, str]] = [
    ("0 9 * * *", "schedule 'x' takes a trigger, e.g. cron('0 9 * * *'); got '0 9 * * *'"),
    (every(5), "e.g. every(5).minutes; got every(5)"),
    (timedelta(hours=1), "e.g. every(timedelta(…)); got datetime.timedelta"),
    (NEW_YEAR, "e.g. at(datetime(…)); got datetime.datetime(2030"),
    (5, "e.g. cron('0 9 * * *'), every(5).minutes or at(…); got 5"),
]


@pytest.mark.parametrize(("trigger", "words"), TRIGGERS)
def test_a_value_that_is_not_a_trigger_is_refused_with_a_suggestion(app: Mainspring, trigger: Any, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        app.schedule("x", trigger, app.tasks["report"])
    assert words in str(refused.value)


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"overlop": "skip"}, "schedule 'x' has no option 'overlop'; did you mean 'overlap'?"),
    ({"colour_of_it": "UTC"}, "schedule 'x' has no option 'colour_of_it'; known: adapt, after, catch_up,"),
    ({"overlap": "never"}, "option overlap of schedule 'x': is one of skip, queue, allow, cancel; got 'never'"),
    ({"catch_up": True}, "option catch_up of schedule 'x': is one of latest, skip, all; got True"),
    ({"catch_up_window": -1}, "option catch_up_window of schedule 'x': it takes a span such as"),
    ({"grace": "soon"}, "option grace of schedule 'x': it takes a span such as 30, '4s', '1h30m' or"),
    ({"jitter": float("nan")}, "option jitter of schedule 'x': it takes a span"),
    ({"jitter": 10**9}, "schedule 'x': jitter is from 0 to 604800 seconds"),
    ({"window": "08-18"}, "option window of schedule 'x': '08-18' is not a window: write it as ('08:00', '18:00')"),
    ({"window": ("8", "9")}, "option window of schedule 'x': '8' is not a time of day: write it as '09:00'"),
    ({"window": ("08:00", "18:00", "funday")}, "option window of schedule 'x': 'funday' is not a weekday"),
    ({"exclude": "2030-12-25"}, "option exclude of schedule 'x': takes dates, e.g. [date(2030, 12, 25)]; got"),
    ({"exclude": 5}, "option exclude of schedule 'x': takes dates, e.g. [date(2030, 12, 25)]; got 5"),
    ({"exclude": [NEW_YEAR]}, "option exclude of schedule 'x': takes dates"),
    ({"start_at": datetime(2030, 1, 1)}, "option start_at of schedule 'x': needs a datetime with a time zone"),
    ({"end_at": "2030"}, "option end_at of schedule 'x': needs a datetime with a time zone"),
    ({"start_at": NEW_YEAR, "end_at": NEW_YEAR - timedelta(1)}, "schedule 'x': end_at 2029-12-31"),
    ({"max_runs": 0}, "option max_runs of schedule 'x': a whole number of at least 1, got 0"),
    ({"run_on_start": 1}, "option run_on_start of schedule 'x': is True or False, got 1"),
    ({"after": "end"}, "option after of schedule 'x': is one of start, finish; got 'end'"),
    ({"adapt": 60}, "schedule 'x': adapt (60 s) is the longest its interval may grow to"),
    ({"adapt": 0}, "option adapt of schedule 'x': must be more than 0 seconds, got 0"),
    ({"pause_after_failures": True}, "option pause_after_failures of schedule 'x': a whole number of at least 1"),
    ({"depends_on": "x"}, "schedule 'x' cannot depend on itself"),
    ({"depends_on": 5}, "option depends_on of schedule 'x': a schedule name is 1 to 200 printable characters"),
    ({"kwargs": [1]}, "schedule 'x': kwargs takes a mapping of argument names to values, got [1]"),
    ({"kwargs": {"knd": "x"}}, "schedule 'x': task 'report' has no argument 'knd' (takes: kind)"),
    ({"kwargs": {"kind": 1}}, "schedule 'x': arguments of task 'report' do not fit: Expected `str`, got `int`"),
    ({"kwargs": {}, "input": lambda tick: {}}, "schedule 'x': give kwargs= or input=, not both"),
    ({"input": {"kind": "x"}}, "option input of schedule 'x': takes a function of one argument, the tick's instant"),
    ({"input": lambda: {"kind": "x"}}, "option input of schedule 'x': takes a function of one argument"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_each_bad_schedule_option_is_refused_by_name(app: Mainspring, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        app.schedule("x", HOURLY, app.tasks["report"], **options)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["", " x", "x\n", 5, ["x"], "x" * 201])
def test_a_schedule_name_that_is_not_printable_text_is_refused(app: Mainspring, name: Any) -> None:
    with pytest.raises(BadInput, match="a schedule name is 1 to 200 printable characters without spaces around"):
        app.schedule(name, HOURLY, app.tasks["report"])


def test_a_schedule_name_cannot_be_declared_twice(app: Mainspring) -> None:
    app.schedule("x", HOURLY, app.tasks["report"])
    with pytest.raises(BadInput, match="a schedule named 'x' is declared already; give this one another name"):
        app.schedule("x", HOURLY, app.tasks["report"])


def test_a_schedule_without_required_arguments_of_its_task_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadPayload, match=r"schedule 'x': .*`to`; arguments are given as kwargs= or made by input="):
        app.schedule("x", HOURLY, app.tasks["send"])


def test_a_schedule_refuses_anything_but_a_task_of_its_app(app: Mainspring) -> None:
    other = Mainspring("memory://")

    @other.task
    async def alien() -> None: ...

    with pytest.raises(BadTask, match="schedule 'x': task 'alien' is of another app; register it here"):
        app.schedule("x", HOURLY, alien)
    with pytest.raises(BadInput, match="schedule 'x' takes a task, got <built-in function print>; make one of it with"):
        app.schedule("x", HOURLY, print)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="schedule 'x' takes the task itself, not its name, 'report'"):
        app.schedule("x", HOURLY, "report")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["delay", "run_at", "unique_key", "idempotency_key"])
def test_a_schedule_refuses_a_task_with_a_run_time_or_key_option(app: Mainspring, option: str) -> None:
    value = {"delay": 5, "run_at": NEW_YEAR, "unique_key": "k", "idempotency_key": "k"}[option]
    asked = app.tasks["report"].using(**{option: value})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=f"schedule 'x': option {option} does not belong here: its ticks decide when"):
        app.schedule("x", HOURLY, asked)


def test_a_schedule_refuses_expires_that_is_not_a_span(app: Mainspring) -> None:
    with pytest.raises(BadInput, match="schedule 'x': expires must be a span, "):
        app.schedule("x", HOURLY, app.tasks["report"].using(expires=NEW_YEAR))


def decorators(app: Mainspring) -> list[tuple[Callable[[], Any], str]]:
    wrong: Any = app
    return [
        (lambda: app.cron("61 * * * *"), "cron '61 * * * *': minute 61 is not within 0-59"),
        (lambda: app.cron("0 9 * * *", tz="Nowhere"), "'Nowhere'"),
        (lambda: wrong.cron(app.tasks["report"]), "a cron expression and its zone are text, as in cron('0 9 * * *'"),
        (lambda: wrong.cron("0 9 * * *")(5), "@app.task takes a function, got 5"),
        (lambda: app.cron("0 9 * * *")(lambda: None), "this function has no name of its own"),
        (lambda: app.every(), "app.every() needs an interval, e.g. app.every(minutes=5)"),
        (lambda: wrong.every(hour=5), "app.every() has no option 'hour'; did you mean 'hours'?"),
        (lambda: wrong.every(minutes="5"), "minutes='5') is not an interval: give numbers of weeks, days"),
        (lambda: app.every(minutes=-5), "an interval of -300"),
        (lambda: app.every(seconds=float("nan")), "seconds=nan) is not an interval"),
    ]


def test_a_schedule_decorator_refuses_bad_options_before_it_decorates(app: Mainspring) -> None:
    for make, words in decorators(app):
        with pytest.raises(BadInput) as refused:
            make()
        assert words in str(refused.value)


def test_a_refused_schedule_registers_no_task(app: Mainspring) -> None:
    async def work() -> None: ...

    with pytest.raises(BadInput):
        app.every(minutes=5, max_runs=0)(work)
    assert "work" not in app.tasks
    app.every(minutes=5, max_runs=1)(work)


def test_exclude_and_depends_on_accept_a_single_value(app: Mainspring) -> None:
    app.schedule("x", cron("0 9 * * *"), app.tasks["report"], exclude=date(2030, 12, 25), depends_on="y")
    spec = app._registry.schedules["x"].spec
    assert (spec.exclude, spec.depends_on) == ((date(2030, 12, 25),), ("y",))


async def test_an_unknown_dependency_of_a_schedule_is_warned_of_at_the_start(
    app: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    app.schedule("load", HOURLY, app.tasks["report"])
    app.schedule("x", HOURLY, app.tasks["report"], depends_on=["laod", "load"])
    with caplog.at_level(logging.WARNING, "mainspring"):
        async with app:
            await app.drain()
    assert caplog.messages == ["schedule 'x' depends on 'laod', which does not exist: it never fires"]
