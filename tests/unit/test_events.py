"""The event bus: events reach their subscribers in order, and errors of subscribers are not raised by emit()."""

import logging
from datetime import UTC, datetime

import pytest

from mainspring import Mainspring
from mainspring.events import Bus, Event, WorkerStarted, WorkerStopped

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STARTED, STOPPED = WorkerStarted(at=NOW, worker="ada"), WorkerStopped(at=NOW, worker="ada")


def test_subscriber_receives_only_its_kind_of_event() -> None:
    bus, heard = Bus(), []
    bus.subscribe(WorkerStarted, heard.append)
    bus.emit(STARTED)
    bus.emit(STOPPED)
    assert heard == [STARTED]


def test_subscriber_to_event_receives_all_events_in_order() -> None:
    bus, heard = Bus(), []
    bus.subscribe(Event, heard.append)
    for event in (STARTED, STOPPED, STARTED):
        bus.emit(event)
    assert heard == [STARTED, STOPPED, STARTED]


class Farewell(WorkerStopped, frozen=True, kw_only=True):
    """A kind of WorkerStopped."""


def test_subscriber_receives_subclasses_of_its_kind() -> None:
    bus, heard = Bus(), []
    bus.subscribe(WorkerStopped, heard.append)
    farewell = Farewell(at=NOW, worker="ada")
    bus.emit(farewell)
    assert heard == [farewell]
    assert bus.wants(Farewell)


def test_subscribers_are_called_in_order_of_subscription() -> None:
    bus, told = Bus(), []
    for name in ("first", "second", "third"):
        bus.subscribe(WorkerStarted, lambda event, name=name: told.append(name))
    bus.emit(STARTED)
    assert told == ["first", "second", "third"]


def test_subscriber_receives_an_event_once() -> None:
    bus, heard = Bus(), []
    bus.subscribe(WorkerStarted, heard.append)
    bus.subscribe(Event, heard.append)
    bus.emit(STARTED)
    assert heard == [STARTED, STARTED]


def test_subscriber_that_raises_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    bus, heard = Bus(), []

    def broken(event: Event) -> None:
        raise RuntimeError("no")

    bus.subscribe(WorkerStarted, broken)
    bus.subscribe(WorkerStarted, heard.append)
    with caplog.at_level(logging.ERROR, "mainspring"):
        bus.emit(STARTED)
    assert heard == [STARTED]
    assert "broken" in caplog.text
    assert "raised on WorkerStarted" in caplog.text
    assert "RuntimeError: no" in caplog.text


def test_subscriber_that_exits_does_not_end_the_process() -> None:
    bus, heard = Bus(), []

    def leave(event: Event) -> None:
        raise SystemExit(1)

    bus.subscribe(WorkerStarted, leave)
    bus.subscribe(WorkerStarted, heard.append)
    bus.emit(STARTED)
    assert heard == [STARTED]


def test_bus_wants_only_subscribed_events() -> None:
    bus = Bus()
    assert not bus.wants(WorkerStarted)
    bus.subscribe(WorkerStarted, print)
    assert bus.wants(WorkerStarted)
    assert not bus.wants(WorkerStopped)


def test_bus_with_a_subscriber_to_event_wants_all_events() -> None:
    bus = Bus()
    bus.subscribe(Event, print)
    assert bus.wants(WorkerStarted)
    assert bus.wants(WorkerStopped)


def test_unsubscribed_function_receives_no_events() -> None:
    bus, heard = Bus(), []
    bus.subscribe(WorkerStarted, heard.append)
    bus.unsubscribe(WorkerStarted, heard.append)
    bus.emit(STARTED)
    assert heard == []
    assert not bus.wants(WorkerStarted)


def test_unsubscribe_without_subscribe_is_no_error() -> None:
    Bus().unsubscribe(WorkerStarted, print)


def test_subscriber_may_unsubscribe_during_an_event() -> None:
    bus, heard = Bus(), []

    def once(event: Event) -> None:
        bus.unsubscribe(WorkerStarted, once)
        heard.append("once")

    bus.subscribe(WorkerStarted, once)
    bus.subscribe(WorkerStarted, lambda event: heard.append("always"))
    bus.emit(STARTED)
    bus.emit(STARTED)
    assert heard == ["once", "always", "always"]


def test_app_on_subscribes_by_decorator() -> None:
    app, heard = Mainspring("memory://"), []

    @app.on(WorkerStarted)
    def started(event: WorkerStarted) -> None:
        heard.append(event)

    app.events.emit(STARTED)
    assert heard == [STARTED]
    assert started.__name__ == "started"
