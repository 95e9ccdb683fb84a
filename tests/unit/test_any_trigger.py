"""@app.on(trigger) and the constants of cron: a function can be scheduled with any trigger."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import BadInput, Mainspring, Trigger, at, cron, every
from mainspring.trigger import Cron

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)

CONSTANTS = {
    "EVERY_MINUTE": "* * * * *", "EVERY_5_MINUTES": "*/5 * * * *", "EVERY_10_MINUTES": "*/10 * * * *",
    "EVERY_15_MINUTES": "*/15 * * * *", "EVERY_30_MINUTES": "*/30 * * * *", "HOURLY": "0 * * * *",
    "DAILY": "0 0 * * *", "WEEKDAYS": "0 0 * * mon-fri", "WEEKLY": "0 0 * * sun", "MONTHLY": "0 0 1 * *",
    "QUARTERLY": "0 0 1 1,4,7,10 *", "YEARLY": "0 0 1 1 *",
}  # fmt: skip


async def report() -> None: ...


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_cron_constant_is_the_expression_of_its_name(name: str) -> None:
    assert getattr(cron, name) == cron(CONSTANTS[name])


def test_the_table_of_cron_constants_is_complete() -> None:
    assert {name for name in vars(type(cron)) if name.isupper()} == set(CONSTANTS)


@pytest.mark.parametrize(("name", "macro"), [("HOURLY", "@hourly"), ("DAILY", "@daily"), ("YEARLY", "@yearly")])
def test_a_cron_constant_has_the_ticks_of_its_macro(name: str, macro: str) -> None:
    assert getattr(cron, name).next(NEW_YEAR) == cron(macro).next(NEW_YEAR)


def test_a_cron_constant_can_be_given_another_zone() -> None:
    assert cron(cron.DAILY, tz="Asia/Tokyo") == Cron(expr="0 0 * * *", tz="Asia/Tokyo")
    assert cron(cron("0 9 * * *", tz="Asia/Tokyo")) == cron("0 9 * * *", tz="Asia/Tokyo")
    app = Mainspring("memory://")
    app.cron(cron.DAILY, tz="Asia/Tokyo")(report)
    assert app._registry.schedules["report"].spec.trigger == Cron(expr="0 0 * * *", tz="Asia/Tokyo")


@pytest.mark.parametrize(
    "trigger",
    [every().day.at("09:00"), every(5).minutes, every("1h30m"), cron("0 9 * * *"), cron.HOURLY, at(NEW_YEAR)],
    ids=lambda trigger: trigger.explain(),
)
def test_app_on_accepts_any_trigger(trigger: Trigger) -> None:
    app = Mainspring("memory://")
    task = app.on(trigger, overlap="skip", grace="10m")(report)
    spec = app._registry.schedules["report"].spec
    assert (spec.trigger, spec.overlap, spec.grace) == (trigger, "skip", 600)
    assert app.tasks["report"] is task


def test_app_on_decorators_can_be_stacked_on_a_task() -> None:
    app = Mainspring("memory://")
    task = app.task(queue="reports")(report)
    assert app.on(cron.HOURLY, name="often")(app.on(cron.DAILY)(task)) is task
    assert list(app._registry.schedules) == ["report", "often"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0 9 * * *", "app.on() takes a trigger, e.g. cron('0 9 * * *')"),
        (timedelta(minutes=5), "app.on() takes a trigger, e.g. every(timedelta(…))"),
        (every(5), "app.on() takes a trigger, e.g. every(5).minutes"),
        (5, "app.on() takes a trigger, e.g. cron('0 9 * * *'), every(5).minutes or at(…)"),
    ],
)
def test_app_on_refuses_values_that_are_not_triggers_with_a_suggestion(given: Any, words: str) -> None:
    app = Mainspring("memory://")
    with pytest.raises(BadInput) as refused:
        app.on(given)(report)
    assert words in str(refused.value)
    assert app.tasks == {}


def test_app_every_refuses_an_interval_without_a_unit() -> None:
    app: Any = Mainspring("memory://")
    for wrong in (5, "5"):
        with pytest.raises(BadInput, match="give the unit"):
            app.every(wrong)
    with pytest.raises(BadInput, match="use one form"):
        app.every("5m", hours=1)


async def test_a_function_decorated_with_a_trigger_runs_at_its_ticks() -> None:
    app, ran = Mainspring("memory://"), []

    @app.on(every().day.at("09:00"))
    async def morning() -> None:
        ran.append(app.clock.now().hour)

    async with app.testing() as jobs:
        await jobs.advance("3d")
    assert ran == [9, 9, 9]
