"""Coroutine subscribers: in order, one at a time, bounded; their errors and the events they miss are counted."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Context, Mainspring, State, every
from mainspring import events as module
from mainspring.counters import Counters
from mainspring.events import Bus, Event, JobDied, JobEnded, JobLost, JobStarted, WorkerStarted
from mainspring.survived_errors import METRIC, count_in
from mainspring.task.context import running
from mainspring.testing import VirtualClock
from mainspring.testing.contract.build import NOW


def started(worker: str) -> WorkerStarted:
    return WorkerStarted(at=NOW, worker=worker)


@pytest.fixture
def meter() -> Counters:
    meter = Counters()
    count_in(meter)
    return meter


@pytest.fixture
def live() -> Mainspring:
    """On the real clock, with a worker that beats often."""
    return Mainspring("memory://", poll_interval=0.1, beat=0.1, lease=2)


def counted(meter: Counters, error: str) -> float:
    """How many errors of this kind a subscriber had."""
    found = meter.whole().totals.get(METRIC, {})
    return sum(number for labels, number in found.items() if error in labels and "subscriber" in labels)


async def test_events_reach_a_coroutine_subscriber_in_order_and_one_at_a_time() -> None:
    bus, seen, inside = Bus(), [], 0

    async def act(event: WorkerStarted) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        seen.append(event.worker)
        inside -= 1

    bus.subscribe(WorkerStarted, act)
    for n in range(100):
        bus.emit(started(str(n)))
    assert seen == []  # emit does not wait for the subscriber
    await bus.flush()
    assert seen == [str(n) for n in range(100)]


async def test_a_coroutine_subscriber_that_never_waits_does_not_starve_other_tasks() -> None:
    bus, seen, turns = Bus(), list[str](), list[int]()

    async def act(event: WorkerStarted) -> None:
        seen.append(event.worker)

    async def other() -> None:
        while len(seen) < 5000:
            turns.append(len(seen))
            await asyncio.sleep(0)

    bus.subscribe(WorkerStarted, act)
    for n in range(5000):
        bus.emit(started(str(n)))
    await asyncio.gather(other(), bus.flush())
    assert len(set(turns)) > 20


async def test_an_error_of_a_coroutine_subscriber_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture, meter: Counters
) -> None:
    bus, seen = Bus(), []

    async def act(event: WorkerStarted) -> None:
        if event.worker == "bad":
            raise ValueError("no such worker")
        seen.append(event.worker)

    bus.subscribe(WorkerStarted, act)
    for worker in ("a", "bad", "b"):
        bus.emit(started(worker))
    await bus.flush()
    assert seen == ["a", "b"]
    assert "raised on WorkerStarted" in caplog.text
    assert "no such worker" in caplog.text
    assert counted(meter, "ValueError") == 1


async def test_events_beyond_the_limit_are_dropped_and_counted(
    caplog: pytest.LogCaptureFixture, meter: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_EVENTS", 10)
    bus, seen = Bus(), []

    async def act(event: WorkerStarted) -> None:
        seen.append(event.worker)

    bus.subscribe(WorkerStarted, act)
    with caplog.at_level(logging.WARNING):
        for n in range(30):
            bus.emit(started(str(n)))
    await bus.flush()
    assert seen == [str(n) for n in range(10)]
    assert counted(meter, "EventsDropped") == 20
    assert caplog.text.count("events beyond the limit are dropped") == 1  # logged once, not once per event


async def test_flush_cancels_a_subscriber_that_does_not_end(meter: Counters) -> None:
    bus, cancelled = Bus(), []

    async def act(event: WorkerStarted) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(event.worker)
            raise

    bus.subscribe(WorkerStarted, act)
    bus.emit(started("a"))
    bus.emit(started("b"))
    await bus.flush(timeout=0.05)
    await asyncio.sleep(0)
    assert cancelled == ["a"]
    assert counted(meter, "EventsDropped") == 1
    await bus.flush(timeout=0.05)  # nothing is left


async def test_an_unsubscribed_coroutine_receives_no_events() -> None:
    bus, seen = Bus(), []

    async def act(event: WorkerStarted) -> None:
        seen.append(event)

    bus.subscribe(WorkerStarted, act)
    bus.unsubscribe(WorkerStarted, act)
    bus.emit(started("a"))
    await bus.flush()
    assert seen == []
    assert not bus.wants(WorkerStarted)


async def test_closing_an_app_delivers_pending_events_to_coroutine_subscribers(live: Mainspring) -> None:
    seen: list[str] = []

    @live.task
    async def work() -> None: ...

    @live.on(JobEnded)
    async def ended(event: JobEnded) -> None:
        await live.jobs.get(event.job.id)  # the app is still open
        seen.append(event.job.id)

    async with live:
        ids = [(await work.enqueue()).id for _ in range(20)]
        async with live.worker(concurrency=1):
            await asyncio.gather(*(live.jobs.wait(id, 20) for id in ids))
    assert sorted(seen) == sorted(ids)


async def test_closing_an_app_waits_for_a_busy_coroutine_subscriber(live: Mainspring) -> None:
    seen: list[str] = []

    @live.on(WorkerStarted)
    async def act(event: WorkerStarted) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        await live.jobs.list(limit=1)  # the app is still open
        seen.append(event.worker)

    async with live:
        for n in range(20):
            live.events.emit(started(str(n)))
    assert seen == [str(n) for n in range(20)]


async def test_a_coroutine_subscriber_does_not_run_in_the_context_of_a_run(app: Mainspring) -> None:
    seen: list[object] = []

    @app.task
    async def work(ctx: Context) -> None:
        app.events.emit(started("inside"))

    @app.on(WorkerStarted)
    async def act(event: WorkerStarted) -> None:
        if event.worker == "inside":
            seen.append(running.get(None))

    async with app:
        await work.enqueue()
        await app.drain()
    assert seen == [None]


@pytest.mark.parametrize("kind", [5, int, "JobEnded"])
def test_app_on_refuses_a_class_that_is_not_an_event(kind: Any) -> None:
    with pytest.raises(BadInput, match=r"a kind of event|takes a trigger"):
        Mainspring("memory://").on(kind)(print)


def test_app_on_refuses_schedule_options_for_an_event() -> None:
    with pytest.raises(BadInput, match=r"app.on\(JobEnded\) takes no options: those are for schedules"):
        Mainspring("memory://").on(JobEnded, overlap="skip")  # type: ignore[call-overload]


async def test_job_ended_event_has_the_duration_of_the_run(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[JobEnded] = []
    app.on(JobEnded)(seen.append)

    @app.task(max_retries=0)
    async def work(fails: bool) -> None:
        await clock.sleep(90)
        if fails:
            raise ValueError

    async with app:
        await app.enqueue_many([work.job(False), work.job(True)])
        draining = asyncio.create_task(app.drain())
        await clock.elapse(seconds=200)
        await draining
        for event in seen:
            run = await app.executions.get(event.job.id, 1)
            assert event.duration == run.duration == timedelta(seconds=90)
    assert {type(event) for event in seen} == {JobEnded, JobDied}
    lost = JobLost(at=seen[0].at + timedelta(seconds=5), job=seen[0].job)
    assert lost.duration == timedelta(seconds=95)


async def test_worker_running_lists_the_jobs_that_it_runs(live: Mainspring) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    @live.task
    async def work(n: int) -> None:
        if n == 1:
            begun.set()
        await go.wait()

    async with live, live.worker(concurrency=2) as worker:
        assert worker.running == []
        ids = [(await work.enqueue(n)).id for n in range(3)]
        await asyncio.wait_for(begun.wait(), 20)
        assert [job.id for job in worker.running] == ids[:2]
        assert {job.state for job in worker.running} == {State.RUNNING}
        go.set()
        for id in ids:
            await live.jobs.wait(id, 20)
        assert worker.running == []


async def test_workers_list_has_the_number_of_running_jobs(live: Mainspring) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    @live.task
    async def work() -> None:
        begun.set()
        await go.wait()

    async with live, live.worker():
        await work.enqueue()
        await asyncio.wait_for(begun.wait(), 20)
        while not (rows := await live.workers.list())[0].running:
            await live.clock.sleep(0.1)
        assert rows[0].running == rows[0].info.running == 1
        go.set()


def test_app_on_accepts_both_events_and_triggers() -> None:
    app = Mainspring("memory://")
    seen: list[Event] = []
    app.on(JobStarted)(seen.append)
    app.on(every().day.at("09:00"))(print_report)
    assert list(app._registry.schedules) == ["print_report"]
    assert app.events.wants(JobStarted)


async def print_report() -> None: ...
