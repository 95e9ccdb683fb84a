"""Spans: one text means the same wherever a span of time is taken, and a wrong one is refused by name."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Backoff, BadInput, Breaker, Key, Mainspring, Retention, Retry, Snooze, every
from mainspring.config import load
from mainspring.span import parse_span, seconds
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import NOW

TEXT, SECONDS = "1h30m", 5400.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90), ("2.5", 2.5), ("4s", 4), (" 4 S ", 4), ("250ms", 0.25), ("5m", 300), ("1h30m", 5400),
        ("1.5h", 5400), ("1h 30m", 5400), ("1 hour and 30 minutes", 5400), ("1 hour, 5 min", 3900),
        ("2 days", 172_800), ("1w", 604_800), ("0", 0), ("0.1s", 0.1), ("1d2h3m4s", 93_784),
    ],
)  # fmt: skip
def test_a_span_is_parsed_from_text(text: str, expected: float) -> None:
    assert (parse_span(text), seconds(text, "it")) == (expected, expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        "soon",
        "5x",
        "5m5m",
        "1h 30",
        "-5m",
        "1e3",
        "5m!",
        "٥m",
        "1.2.3m",
        "2 months",
        "1m" * 99,
        "and",
        "nan",
    ],
)
def test_a_text_that_is_not_a_span_is_refused(text: str) -> None:
    assert parse_span(text) is None
    with pytest.raises(BadInput, match="it takes a span"):
        seconds(text, "it")


@pytest.mark.parametrize("value", [True, None, [], -1, float("nan"), float("inf"), -timedelta(1)])
def test_a_value_that_is_not_a_span_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="it takes a span"):
        seconds(value, "it")


def _task(**options: Any) -> Any:
    return Mainspring("memory://").task(**options)(work).options


def _using(**options: Any) -> Any:
    app = Mainspring("memory://", clock=VirtualClock(NOW))
    return app.task(work).using(**options).job()


def _schedule(**options: Any) -> Any:
    app = Mainspring("memory://")
    app.schedule("x", every(5).minutes, app.task(work), **options)
    return app._registry.schedules["x"].spec


async def work() -> None: ...


PLACES: dict[str, Callable[[str], Any]] = {
    "task timeout": lambda text: _task(timeout=text).timeout,
    "task soft_timeout": lambda text: _task(soft_timeout=text).soft_timeout,
    "task cpu_limit": lambda text: _task_in_a_process(text).cpu_limit,
    "task debounce_limit": lambda text: _task(debounce_limit=text).debounce_limit,
    "task expires": lambda text: _task(expires=text).expires,
    "stub timeout": lambda text: Mainspring("memory://").stub(timeout=text)(work).options.timeout,
    "using delay": lambda text: (_using(delay=text).run_at - NOW).total_seconds(),
    "using timeout": lambda text: _using(timeout=text).timeout,
    "using expires": lambda text: (_using(expires=text).expires_at - NOW).total_seconds(),
    "using debounce_limit": lambda text: _using(debounce_limit=text).debounce_limit,
    "backoff initial": lambda text: Backoff(initial=text, max="2h").initial,
    "backoff max": lambda text: Backoff(max=text).max,
    "constant backoff": lambda text: Backoff.constant(text).initial,
    "linear backoff": lambda text: Backoff.linear(text, max="2h").initial,
    "breaker": lambda text: Breaker(3, text).cooldown,
    "retention": lambda text: Retention(age=text).age.total_seconds(),  # type: ignore[union-attr]
    "retry": lambda text: Retry(after=text).after,
    "snooze": lambda text: Snooze(text).delay,
    "key": lambda text: _period(text),
    "schedule grace": lambda text: _schedule(grace=text).grace,
    "schedule jitter": lambda text: _schedule(jitter=text).jitter,
    "schedule catch_up_window": lambda text: _schedule(catch_up_window=text).catch_up_window,
    "schedule adapt": lambda text: _schedule(adapt=text).adapt,
    "schedule timeout": lambda text: _schedule(timeout=text).timeout,
    "schedule expires": lambda text: _schedule(expires=text).expires,
    "every": lambda text: every(text).seconds,
    "app.every": lambda text: _interval(text),
    "setting": lambda text: load({"default_timeout": text}, {}).default_timeout,
    "variable": lambda text: load({}, {"MAINSPRING_DEFAULT_TIMEOUT": text}).default_timeout,
    "leader": lambda text: Mainspring("memory://").leader("x", ttl=text)._ttl,
}


def _task_in_a_process(text: str) -> Any:
    return _task(cpu_limit=text, executor="process")


def _period(text: str) -> float:
    """The seconds of the period, checked by the period number in a key."""
    number = int(Key(period=text).make("x", {}, "q", NOW).rpartition("=")[2])
    return SECONDS if number == int(NOW.timestamp() // SECONDS) else -1


def _interval(text: str) -> Any:
    app = Mainspring("memory://")
    app.every(text)(work)
    return app._registry.schedules["work"].spec.trigger.seconds  # type: ignore[union-attr]


@pytest.mark.parametrize("place", PLACES)
def test_every_option_that_takes_a_span_accepts_text(place: str) -> None:
    assert PLACES[place](TEXT) == SECONDS


@pytest.mark.parametrize("place", PLACES)
def test_every_option_that_takes_a_span_refuses_a_wrong_text(place: str) -> None:
    with pytest.raises(BadInput, match="soon"):
        PLACES[place]("soon")


async def test_control_methods_accept_a_span_as_text(app: Mainspring, clock: VirtualClock) -> None:
    task = app.task(work)
    async with app:
        handle = await task.using(delay="1d").enqueue()
        await app.jobs.reschedule(handle.id, TEXT)
        assert (await handle.job()).run_at == clock.now() + timedelta(seconds=SECONDS)
        await app.jobs.update(handle.id, timeout=TEXT)
        assert (await handle.job()).timeout == SECONDS
        assert (await app.stats(TEXT)).window == timedelta(seconds=SECONDS)
        assert await app.queues.history(TEXT) == []
        assert (await app.jobs.wait(handle.id, "0s")).id == handle.id
        with pytest.raises(TimeoutError):
            await handle.result("0s")


async def test_harness_advance_accepts_a_span_as_text() -> None:
    app, ran = Mainspring("memory://"), []

    @app.every("30m")
    async def tick() -> None:
        ran.append(1)

    async with app.testing() as jobs:
        await jobs.advance("2h")
        with pytest.raises(BadInput, match="did you mean 'hours'"):
            await jobs.advance(hour=2)
    assert len(ran) == 4


async def test_a_backoff_function_may_return_a_span_as_text(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(backoff=lambda n: f"{n}h", max_retries=1)
    async def fails() -> None:
        raise ValueError

    async with app:
        handle = await fails.enqueue()
        await app.drain()
        assert (await handle.job()).run_at == clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("value", [1e10, "9" * 90 + "w", timedelta(days=367)])
def test_a_span_of_more_than_a_year_is_refused_with_the_bound(value: Any) -> None:
    with pytest.raises(BadInput, match="it takes at most 366 days"):
        seconds(value, "it")
