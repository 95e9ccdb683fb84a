"""Errors that a loop survives: all are counted, and a flood of them is one log line a minute."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from mainspring import Mainspring, StoreUnavailable, survived_errors
from mainspring.counters import Counters, label_values
from mainspring.events import WorkerStarted
from mainspring.metrics.timed_store import measure
from mainspring.stores import open_store
from mainspring.survived_errors import LOG_EVERY_SECONDS, METRIC, SurvivedErrors, count_in
from mainspring.testing import Faults, FaultStore, VirtualClock


class Time:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    one = Time()
    monkeypatch.setattr(survived_errors, "_clock", one)
    return one


def survived_of(meter: Counters) -> dict[tuple[str, ...], float]:
    return {tuple(label_values(labels)): n for labels, n in meter.whole().totals.get(METRIC, {}).items()}


def test_survived_errors_of_one_kind_are_logged_once_a_minute(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    survived, meter = SurvivedErrors("feed", "readers wait"), Counters()
    count_in(meter)
    for _ in range(1000):
        survived(StoreUnavailable("no route"))
    survived(TimeoutError("late"))
    time.seconds += LOG_EVERY_SECONDS
    survived(StoreUnavailable("no route"))
    assert [record.getMessage() for record in caplog.records] == [
        "feed: StoreUnavailable: no route; readers wait",
        "feed: TimeoutError: late; readers wait",
        "feed: StoreUnavailable: no route; readers wait (999 more since the last such line)",
    ]
    assert survived_of(meter) == {("feed", "StoreUnavailable"): 1001, ("feed", "TimeoutError"): 1}


def test_a_survived_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with SurvivedErrors("feed", "readers wait").survive(ZeroDivisionError):
        _ = 1 / 0
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_survive_raises_an_error_of_another_kind() -> None:
    with pytest.raises(ZeroDivisionError), SurvivedErrors("feed", "readers wait").survive(KeyError):
        _ = 1 / 0


async def test_survived_errors_of_worker_loops_are_counted() -> None:
    clock, faults = VirtualClock(), Faults()
    app = Mainspring(FaultStore(open_store("memory://", clock=clock), faults), clock=clock)
    app.task(name="work")(lambda: None)
    app.on(WorkerStarted)(lambda event: 1 / 0)
    meter = measure(app)
    faults.fail("claim", times=2)
    faults.fail("put_documents")
    faults.fail("publish", times=3)
    async with app:
        now = clock.now()
        await (await app.connect()).news(after=0, limit=0, until=now + timedelta(minutes=1))
        app.herald.watch_until(now + timedelta(minutes=1))
        async with app.worker():
            await app.tasks["work"].enqueue()
            await clock.elapse(minutes=3)
    assert survived_of(meter) == {
        ("claiming", "StoreUnavailable"): 2, ("depth", "Fault"): 1, ("feed", "Fault"): 3,
        ("subscriber", "ZeroDivisionError"): 1,
    }  # fmt: skip
