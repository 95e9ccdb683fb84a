"""The breaker: its circuit opens after failures in a row on any worker; deferred jobs lose no attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Breaker, Discard, Mainspring, Snooze, State, Task
from mainspring.events import JobStarted
from mainspring.records.circuit import Circuit
from mainspring.testing import Recorder, VirtualClock

DOWN = Breaker(failures=3, cooldown=60)


class Service:
    """A service that the task needs; down until the test repairs it."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.answer: Callable[[], Any] = self.refuse

    def refuse(self) -> None:
        raise ConnectionError("refused")


def flaky(app: Mainspring, clock: VirtualClock, service: Service, **options: Any) -> Task[..., Any]:
    async def call(n: int = 0) -> Any:
        service.calls.append(clock.monotonic())
        return service.answer()

    return app.task(name="call", **{"breaker": DOWN, "max_retries": 0, **options})(call)


async def circuit(app: Mainspring) -> Circuit | None:
    return next(iter((await (await app.connect()).overview(now=app.clock.now())).circuits), None)


async def attempts(app: Mainspring) -> list[int]:
    return [job.attempt for job in await app.jobs.list(newest=False) if job.state is State.PENDING]


async def test_a_circuit_opens_after_failures_in_a_row_and_deferred_jobs_lose_no_attempt(
    app: Mainspring, clock: VirtualClock
) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app:
        await app.enqueue_many(task.job(n) for n in range(10))
        async with app.worker(concurrency=1):
            await clock.elapse(seconds=20)
            assert len(service.calls) == 3
            assert await attempts(app) == [0] * 7
            found = await circuit(app)
    assert found is not None
    assert (found.failures, found.probe) == (3, None)
    assert found.open_until is not None


async def test_failures_of_two_workers_add_up_and_open_the_circuit_for_both(
    app: Mainspring, clock: VirtualClock
) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app:
        async with app.worker(queues=["a"]), app.worker(queues=["b"]):
            for queue in ("a", "b", "a"):
                await task.using(queue=queue).enqueue()
                await clock.elapse(seconds=1)
            for queue in ("a", "b"):
                await task.using(queue=queue).enqueue()
            await clock.elapse(seconds=30)
            ran = [run for job in await app.jobs.list() for run in await app.executions.list(job_id=job.id)]
        assert await attempts(app) == [0, 0]
    assert len(service.calls) == 3
    assert len({run.worker for run in ran}) == 2


async def test_a_success_resets_the_failure_count_of_a_circuit(app: Mainspring, clock: VirtualClock) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app, app.worker():
        for answer in (service.refuse, service.refuse, lambda: 1, service.refuse, service.refuse):
            service.answer = answer
            await task.enqueue()
            await clock.elapse(seconds=1)
        found = await circuit(app)
    assert found is not None
    assert (found.failures, found.open_until) == (2, None)


async def test_one_probe_runs_after_the_cooldown_and_closes_the_circuit(app: Mainspring, clock: VirtualClock) -> None:
    service, go = Service(), asyncio.Event()

    @app.task(breaker=DOWN, max_retries=0)
    async def call(n: int) -> int:
        service.calls.append(clock.monotonic())
        if n < 3:
            raise ConnectionError
        await go.wait()
        return n

    async with app:
        await app.enqueue_many(call.job(n) for n in range(3))
        async with app.worker(), app.worker():
            await clock.elapse(seconds=1)
            waiting = await app.enqueue_many(call.job(n) for n in range(3, 8))
            await clock.elapse(seconds=58)
            assert len(service.calls) == 3
            await clock.elapse(seconds=10)
            assert service.calls[3:] == [60]
            assert (await app.stats()).running == 1
            (reason,) = await app.jobs.why(waiting[1].id)
            assert (reason.code, reason.holders) == ("breaker_open", (waiting[0].id,))
            go.set()
            await clock.elapse(seconds=5)
            assert [await handle.result(0) for handle in waiting] == [3, 4, 5, 6, 7]
            assert await circuit(app) is None


async def test_a_probe_that_fails_opens_the_circuit_for_another_cooldown(app: Mainspring, clock: VirtualClock) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app:
        await app.enqueue_many(task.job(n) for n in range(10))
        async with app.worker(concurrency=1):
            await clock.elapse(seconds=200)
    assert service.calls[3:] == [60, 120, 180]


@pytest.mark.parametrize("gone", ["cancelled", "snoozed", "discarded"])
async def test_a_cancelled_snoozed_or_discarded_probe_lets_another_probe_run(
    app: Mainspring, clock: VirtualClock, gone: str
) -> None:
    service, go = Service(), asyncio.Event()

    @app.task(breaker=DOWN, max_retries=0)
    async def call(n: int) -> int:
        if n < 3:
            raise ConnectionError
        if n > 3:
            return n
        if gone == "snoozed":
            raise Snooze(3600)
        if gone == "discarded":
            raise Discard
        await go.wait()
        return n

    async with app:
        await app.enqueue_many(call.job(n) for n in range(3))
        async with app.worker():
            await clock.elapse(seconds=1)
            probe, other = await call.enqueue(3), await call.enqueue(4)
            await clock.elapse(seconds=61)
            if gone == "cancelled":
                await app.jobs.cancel(probe.id)
            await clock.elapse(seconds=8)
            assert await other.result(0) == 4
    assert service.calls == []


async def test_a_probe_whose_worker_dies_does_not_hold_the_circuit_for_ever(
    app: Mainspring, clock: VirtualClock
) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app:
        store = await app.connect()
        await app.enqueue_many(task.job(n) for n in range(3))
        await app.drain()
        await app.enqueue_many(task.job(n) for n in range(2))
        clock.advance(seconds=61)
        gone, now = app.worker(), clock.now()
        await store.beat(gone._info, until=now + timedelta(seconds=1), now=now)
        (probe,) = (await store.claim(None, worker=gone.id, tasks=["call"], limit=5, now=now)).jobs
        found = await circuit(app)
        assert found is not None
        assert found.probe == probe.id
        service.answer = lambda: "up again"
        async with app.worker():
            await clock.elapse(seconds=150)
        assert await circuit(app) is None
        assert (await app.stats()).completed == 2


async def test_why_says_that_the_breaker_is_open_and_until_when(app: Mainspring, clock: VirtualClock) -> None:
    service = Service()
    task = flaky(app, clock, service)
    async with app:
        await app.enqueue_many(task.job(n) for n in range(3))
        async with app.worker():
            await clock.settle()
            waiting = await task.enqueue()
            await clock.elapse(seconds=1)
            (reason,) = await app.jobs.why(waiting.id)
            found = await circuit(app)
    assert found is not None
    assert (reason.code, reason.until) == ("breaker_open", found.open_until)
    assert reason.text.startswith("task 'call' failed 3 times in a row, so its breaker is open until 2030-01-01")


async def test_an_open_circuit_does_not_stop_other_tasks(app: Mainspring, clock: VirtualClock) -> None:
    service = Service()
    task = flaky(app, clock, service)

    @app.task
    async def other() -> str:
        return "fine"

    async with app:
        await app.enqueue_many(task.job(n) for n in range(5))
        handle = await other.enqueue()
        async with app.worker(concurrency=2):
            await clock.elapse(seconds=5)
            assert await handle.result(0) == "fine"


@pytest.mark.parametrize("answer", [Discard("bad input"), Snooze(3600)], ids=repr)
async def test_discarded_and_snoozed_runs_do_not_count_for_the_breaker(
    app: Mainspring, clock: VirtualClock, answer: Exception
) -> None:
    service, recorder = Service(), Recorder(app)
    task = flaky(app, clock, service)

    def raising() -> None:
        raise answer

    service.answer = raising
    async with app:
        await app.enqueue_many(task.job(n) for n in range(6))
        async with app.worker(concurrency=1):
            await clock.elapse(seconds=30)
        assert await circuit(app) is None
    assert len(recorder.of(JobStarted)) == 6


def test_a_number_for_a_breaker_is_taken_with_a_deprecation_warning(app: Mainspring) -> None:
    with pytest.warns(DeprecationWarning, match=r"breaker=5 is deprecated: write breaker=Breaker\(failures=5\)"):

        @app.task(breaker=5)  # type: ignore[call-overload]
        async def work() -> None: ...

    assert work.options.breaker == Breaker(failures=5, cooldown=60)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "bad",
    [
        0, -1, True, 2.5, "5", Breaker(0), Breaker(5, 0), Breaker(5, -1), Breaker(5, NAN), Breaker(5, INF),
        Breaker(True), Breaker(2.5), Breaker("5"), Breaker(5, []), Breaker(5, 10**12),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
def test_a_bad_breaker_is_refused_by_name(app: Mainspring, bad: Any) -> None:
    with pytest.raises(BadInput, match=r"option breaker of task 'work': takes Breaker\(failures=5, cooldown=60\)"):

        @app.task(breaker=bad)
        async def work() -> None: ...
