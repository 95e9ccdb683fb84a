"""The testing kit: monitor, concurrency tester, stress test, retry tracker, plugin and stop-safety suite."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from kits import USERS_PYTEST
from mainspring import Backoff, BadInput, Context, Mainspring, Retry, Snooze, State
from mainspring.middleware import Next
from mainspring.records.run import Ending
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing import (
    ConcurrencyTester,
    Faults,
    FaultStore,
    Percentiles,
    QueueMonitor,
    RetryTracker,
    VirtualClock,
    backoff_table,
    stress,
)
from mainspring.testing.retries import Wait
from mainspring.testing.stops import Loop, StopSafety


@pytest.fixture
def app(clock: VirtualClock) -> Mainspring:
    """An app on the memory store whose worker polls rarely, because these tests let hours pass."""
    return Mainspring("memory://", clock=clock, beat=60, lease=300, sweep=60, poll_interval=60)


# queue monitor


async def test_monitor_samples_at_its_interval_on_the_apps_clock(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with app, QueueMonitor(app, every=10) as monitor:
        await clock.elapse(seconds=15)  # samples at 0 and 10
        await app.enqueue_many(send.job() for _ in range(4))
        await clock.elapse(seconds=10)  # 20
        await app.drain()
        await clock.elapse(seconds=10)  # 30
    began = clock.now() - timedelta(seconds=35)
    assert monitor.series("mail") == [
        (began + timedelta(seconds=at), n) for at, n in [(0, 0), (10, 0), (20, 4), (30, 0)]
    ]
    assert (monitor.peak("mail"), monitor.mean("mail")) == (4, 1.0)


async def test_monitor_counts_each_state(app: Mainspring, clock: VirtualClock) -> None:
    release = asyncio.Event()

    @app.task(max_retries=1)
    async def work(kind: str) -> None:
        if kind == "bad":
            raise ValueError
        await release.wait()

    monitor = QueueMonitor(app)
    async with app:
        await work.using(delay=60).enqueue("later")
        await work.enqueue("bad")
        await work.enqueue("long")
        async with app.worker():
            await clock.settle()
            await monitor.sample()
            release.set()
    peaks = {state: monitor.peak(state=state) for state in ("pending", "scheduled", "retrying", "running")}
    assert peaks == {"pending": 0, "scheduled": 1, "retrying": 1, "running": 1}


async def test_monitor_oldest_is_the_greatest_age_of_a_due_job(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    @app.task(backoff=Backoff.constant(600))
    async def fail() -> None:
        raise ValueError

    monitor = QueueMonitor(app)
    async with app:
        await fail.enqueue()
        await app.drain()  # a retry that is not due yet does not count
        await work.using(delay=30).enqueue()
        clock.advance(seconds=20)
        assert (await monitor.sample()).ages == {}
        clock.advance(seconds=20)
        await work.enqueue()
        assert (await monitor.sample()).ages == {"default": 10}
        await app.drain()
        await monitor.sample()
    assert monitor.oldest() == 10
    assert monitor.oldest("mail") == 0


def test_monitor_without_samples_returns_zeros(app: Mainspring) -> None:
    monitor = QueueMonitor(app)
    assert (monitor.series(), monitor.peak(), monitor.mean(), monitor.oldest()) == ([], 0, 0.0, 0.0)


async def test_monitor_stop_raises_if_its_app_was_closed(app: Mainspring, clock: VirtualClock) -> None:
    monitor = QueueMonitor(app, every=1)
    async with app:
        await monitor.start()
        await clock.elapse(seconds=1)
    await clock.elapse(seconds=1)
    with pytest.raises(Exception, match="closed"):
        await monitor.stop()


# concurrency tester


async def crowd(clock: VirtualClock, tester: ConcurrencyTester) -> None:
    app = Mainspring("memory://", clock=clock, middleware=[tester])

    @app.task(concurrency=2)
    async def few() -> None:
        await clock.sleep(1)

    @app.task(queue="mail")
    async def many() -> None:
        await clock.sleep(1)

    async with app:
        await app.enqueue_many([few.job() for _ in range(6)] + [many.job() for _ in range(6)])
        async with app.worker(concurrency=5):
            await clock.elapse(seconds=10)


async def test_concurrency_tester_counts_peaks_overall_per_task_and_per_queue(clock: VirtualClock) -> None:
    tester = ConcurrencyTester()
    await crowd(clock, tester)
    assert (tester.runs, tester.peak) == (12, 5)
    assert (tester.peak_of(task="few"), tester.peak_of(queue="default")) == (2, 2)
    assert tester.peak_of(task="many") == tester.peak_of(queue="mail") >= 3


async def test_assert_never_more_than_checks_the_limit(clock: VirtualClock) -> None:
    tester = ConcurrencyTester()
    await crowd(clock, tester)
    tester.assert_never_more_than(5)
    tester.assert_never_more_than(2, task="few")
    with pytest.raises(AssertionError, match=r"^5 runs at once, which is more than 4$"):
        tester.assert_never_more_than(4)
    with pytest.raises(AssertionError, match="2 runs of task 'few' at once"):
        tester.assert_never_more_than(1, task="few")
    with pytest.raises(AssertionError, match="runs of queue 'mail' at once"):
        tester.assert_never_more_than(1, queue="mail")


async def test_assert_never_more_than_fails_without_a_run(clock: VirtualClock) -> None:
    tester = ConcurrencyTester()
    with pytest.raises(AssertionError, match="no run was seen"):
        tester.assert_never_more_than(1)
    await crowd(clock, tester)
    with pytest.raises(AssertionError, match="no run of task 'other' was seen"):
        tester.assert_never_more_than(1, task="other")
    with pytest.raises(BadInput, match="ask for one"):
        tester.peak_of(task="few", queue="mail")


async def test_concurrency_tester_counts_the_end_of_failed_runs(clock: VirtualClock) -> None:
    tester = ConcurrencyTester()
    app = Mainspring("memory://", clock=clock, middleware=[tester])

    @app.task(max_retries=0)
    async def fail() -> None:
        raise ValueError

    async with app:
        for _ in range(3):
            await fail.enqueue()
            await app.drain()
    assert (tester.runs, tester.peak) == (3, 1)


# stress


async def test_stress_reports_rate_and_percentiles(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work(n: int) -> None:
        await clock.sleep(1 if n < 95 else 10)

    async with app:
        found = await stress(app, work, jobs=100, workers=1, concurrency=100, arguments=lambda n: (n,))
    assert found.rate == pytest.approx(100 / found.duration.total_seconds())
    assert found.run_time == Percentiles(*(timedelta(seconds=s) for s in (1, 1, 10, 10)))
    assert found.latency.p50 >= found.run_time.p50
    assert found.latency.p50 <= found.latency.p95 <= found.latency.p99 <= found.latency.max == found.duration


def test_stress_percentiles_are_by_nearest_rank() -> None:
    assert Percentiles.of([]) == Percentiles()
    one = timedelta(seconds=1)
    assert Percentiles.of([one]) == Percentiles(one, one, one, one)
    assert Percentiles.of(n * one for n in range(1, 101)) == Percentiles(50 * one, 95 * one, 99 * one, 100 * one)


async def test_stress_counts_jobs_and_runs(app: Mainspring) -> None:
    seen: list[int] = []

    @app.task
    async def work(n: int) -> None:
        seen.append(n)

    before = list(app.middleware)
    async with app:
        told = await stress(app, work, jobs=600, workers=3, concurrency=10, arguments=lambda n: (n,))
        assert await app.workers.list() == []
    assert (told.jobs, told.completed, told.failed, told.lost, told.duplicates, told.runs) == (600, 600, 0, 0, 0, 600)
    assert sorted(seen) == list(range(600))
    assert app.middleware == before


async def test_stress_duration_is_on_the_apps_clock(app: Mainspring, clock: VirtualClock) -> None:
    failed: set[int] = set()

    @app.task(backoff=Backoff.constant(3600, jitter=0))
    async def work(n: int) -> None:
        if n not in failed:
            failed.add(n)
            raise ValueError

    async with app:
        told = await stress(app, work, jobs=5, arguments=lambda n: (n,))
    assert (told.completed, told.runs) == (5, 10)
    assert timedelta(hours=1) <= told.duration < timedelta(hours=1, seconds=2)


async def test_stress_runs_on_the_system_clock() -> None:
    app = Mainspring("memory://")

    @app.task
    def work() -> None: ...

    async with app:
        told = await stress(app, work, jobs=50)
    assert (told.completed, told.duplicates) == (50, 0)
    assert timedelta(0) < told.duration < timedelta(seconds=60)


async def test_stress_counts_dead_jobs_as_failed(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def work(n: int) -> None:
        if n % 2:
            raise ValueError

    async with app:
        told = await stress(app, work, jobs=10, arguments=lambda n: (n,))
    assert (told.completed, told.failed, told.lost) == (5, 5, 0)


async def test_stress_counts_unfinished_jobs_as_lost(app: Mainspring) -> None:
    @app.task(timeout=None)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with app:
        with pytest.raises(AssertionError, match="3 of 3 jobs were lost, 0 done twice"):
            await stress(app, hang, jobs=3, patience=0.05)


async def test_stress_counts_a_job_done_twice_as_duplicate(clock: VirtualClock) -> None:
    """The store loses an outcome, so the job runs again."""
    faults = Faults()
    app = Mainspring(FaultStore(open_store("memory://", clock=clock), faults), clock=clock)
    spoiled: set[str] = set()

    async def spoil(ctx: Context, call_next: Next) -> Any:
        await call_next(ctx)
        if not spoiled:
            spoiled.add(ctx.job.id)
            raise ConnectionError("after the effect")

    app.middleware.insert(0, spoil)

    @app.task
    async def work() -> None: ...

    async with app:
        told = await stress(app, work, jobs=4, check=False)
        assert (told.completed, told.duplicates, told.runs) == (4, 1, 5)
        spoiled.clear()
        with pytest.raises(AssertionError, match="0 of 4 jobs were lost, 1 done twice"):
            await stress(app, work, jobs=4)


# retries


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(initial=1, jitter=0), [(1, 1), (2, 2), (4, 4), (8, 8)]),
        (Backoff(initial=4, max=10), [(3, 4), (6, 8), (7.5, 10), (7.5, 10)]),
        (Backoff.constant(5, jitter=0.5), [(2.5, 5)] * 4),
        (Backoff.linear(2, jitter=0), [(2, 2), (4, 4), (6, 6), (8, 8)]),
        (lambda n: 3 * n, [(3, 3), (6, 6), (9, 9), (12, 12)]),
    ],
)
def test_backoff_table_has_the_bounds_of_each_delay(backoff: Any, waits: list[tuple[float, float]]) -> None:
    table = backoff_table(backoff, 4)
    assert [(wait.least, wait.most) for wait in table] == waits
    assert [wait.retry for wait in table] == [1, 2, 3, 4]
    assert table[-1].total_least == pytest.approx(sum(least for least, _ in waits))
    assert table[-1].total_most == pytest.approx(sum(most for _, most in waits))


def test_backoff_table_without_retries_is_empty() -> None:
    assert backoff_table(Backoff(), 0) == []
    assert backoff_table(Backoff(), 1) == [Wait(1, 0.75, 1.0, 0.75, 1.0)]


def test_backoff_table_bounds_every_delay() -> None:
    backoff = Backoff(initial=2, max=100, jitter=0.4)
    for wait in backoff_table(backoff, 8):
        delays = [backoff.delay(wait.retry, seed=str(n)) for n in range(200)]
        assert wait.least <= min(delays) <= max(delays) <= wait.most


CURVE = Backoff(initial=10, multiplier=3, max=200)


@pytest.fixture
def flaky(app: Mainspring) -> Any:
    @app.task(max_retries=4, backoff=CURVE)
    async def flaky(good: int) -> None:
        flaky_runs.append(good)
        if len(flaky_runs) % 10 < good:
            raise ValueError

    flaky_runs: list[int] = []
    return flaky


async def live(app: Mainspring, clock: VirtualClock) -> None:
    async with app.worker():
        await clock.elapse(minutes=20)


async def test_retry_tracker_has_attempts_delays_and_outcome(app: Mainspring, clock: VirtualClock, flaky: Any) -> None:
    tracker = RetryTracker(app)
    async with app:
        began = clock.now()
        id = (await flaky.enqueue(3)).id
        await live(app, clock)
    waits = [CURVE.delay(n, seed=id) for n in (1, 2)]
    assert [(attempt.number, attempt.ending) for attempt in tracker.attempts(id)] == [
        (1, Ending.FAILED),
        (2, Ending.FAILED),
        (3, Ending.COMPLETED),
    ]
    assert tracker.attempts(id)[0].started_at == began
    assert tracker.delays(id) == pytest.approx(waits)
    assert tracker.outcome(id) is State.COMPLETED
    tracker.assert_follows(CURVE)
    tracker.assert_follows(CURVE, job=id)


async def test_assert_follows_fails_for_another_backoff(app: Mainspring, clock: VirtualClock, flaky: Any) -> None:
    tracker = RetryTracker(app)
    async with app:
        id = (await flaky.enqueue(5)).id
        await live(app, clock)
    with pytest.raises(AssertionError, match=rf"retry 1 of job {id} was due after .* s, not 1 s"):
        tracker.assert_follows(Backoff(jitter=0))
    with pytest.raises(AssertionError, match="retry 2"):
        tracker.assert_follows(lambda n: CURVE.delay(n, seed=id) if n == 1 else 1.0)


async def test_assert_follows_fails_without_a_retry(app: Mainspring, clock: VirtualClock, flaky: Any) -> None:
    tracker = RetryTracker(app)
    async with app:
        id = (await flaky.enqueue(0)).id
        await live(app, clock)
    assert (tracker.delays(id), tracker.outcome(id)) == ([], State.COMPLETED)
    assert (tracker.attempts("nobody"), tracker.outcome("nobody")) == ([], None)
    with pytest.raises(AssertionError, match="no retry was seen"):
        tracker.assert_follows(CURVE)
    with pytest.raises(AssertionError, match="no retry of job nobody was seen"):
        tracker.assert_follows(CURVE, job="nobody")


async def test_retry_tracker_does_not_count_a_snooze(app: Mainspring, clock: VirtualClock) -> None:
    tracker, steps = RetryTracker(app), iter([Snooze(5), Retry(after=7), None])

    @app.task
    async def steered() -> Any:
        if (step := next(steps)) is not None:
            raise step

    async with app:
        id = (await steered.enqueue()).id
        await live(app, clock)
    assert [attempt.ending for attempt in tracker.attempts(id)] == ["snoozed", "failed", "completed"]
    assert tracker.delays(id) == [7]
    tracker.assert_follows(lambda n: 7)


async def test_assert_follows_fails_for_an_early_attempt(app: Mainspring, clock: VirtualClock) -> None:
    """A wrong clock simulates a store whose claims return jobs that are not due."""
    tracker = RetryTracker(app)

    @app.task(max_retries=1, backoff=Backoff.constant(60, jitter=0))
    async def fail() -> None:
        raise ValueError

    async with app:
        id = (await fail.enqueue()).id
        await app.drain()
        clock.advance(minutes=1)
        clock._now -= timedelta(seconds=10)
        await app.jobs.cancel(id)
        await app.jobs.retry(id)  # due at once
        await app.drain()
    with pytest.raises(AssertionError, match=rf"of job {id} ran 10 s before it was due"):
        tracker.assert_follows(lambda n: 60)


# the fixtures


async def test_mainspring_app_fixture_uses_the_store_and_clock_fixtures(
    mainspring_app: Mainspring, mainspring_store: Store, mainspring_clock: VirtualClock
) -> None:
    @mainspring_app.task
    async def work() -> int:
        return 1

    assert await mainspring_app.connect() is mainspring_store
    assert mainspring_app.clock.now() == mainspring_clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
    mainspring_clock.advance(minutes=1)
    assert mainspring_app.clock.now() == mainspring_clock.now()
    handle = await work.enqueue()
    assert await mainspring_app.drain() == 1
    assert await handle.result() == 1


USER_TESTS = """
import asyncio
from mainspring import ShuttingDown
import pytest

kept = []

def test_an_app(mainspring_app):
    mainspring_app.task(print)
    kept.append(mainspring_app)
    assert mainspring_app.sync.stats().pending == 0

def test_it_was_closed_and_the_next_one_is_another(mainspring_app):
    assert mainspring_app is not kept[0]
    with pytest.raises(ShuttingDown):
        asyncio.run(kept[0].stats())

async def test_a_coroutine(mainspring_clock):
    assert RUNNER == "theirs"
"""
USER_CONFTEST = """
import asyncio, inspect

def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj.__globals__["RUNNER"] = "theirs"
        asyncio.run(pyfuncitem.obj(mainspring_clock=pyfuncitem.funcargs["mainspring_clock"]))
        return True
"""


def user_pytest(folder: Path, *options: str) -> str:
    (folder / "test_theirs.py").write_text(USER_TESTS)
    (folder / "conftest.py").write_text(USER_CONFTEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder, env=os.environ | USERS_PYTEST, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_fixtures_entry_point_has_the_name_of_its_module() -> None:
    """Naming the plugin explicitly as well must not load it twice."""
    (ours,) = (found for found in entry_points(group="pytest11") if found.value.startswith("mainspring."))
    assert ours.name == ours.value == "mainspring.testing.fixtures"


def test_fixtures_alone_do_not_run_coroutine_tests(tmp_path: Path) -> None:
    assert "3 passed" in user_pytest(tmp_path, "-p", "mainspring.testing.fixtures")


def test_plugin_runs_coroutine_tests_beside_the_fixtures(tmp_path: Path) -> None:
    said = user_pytest(tmp_path, "-p", "mainspring.testing.plugin", "-p", "mainspring.testing.fixtures")
    assert "2 passed" in said
    assert "NameError: name 'RUNNER' is not defined" in said


# the stop-safety suite


class Sound:
    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = None

    async def start(self) -> None:
        self.task = asyncio.create_task(asyncio.Event().wait())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])


class StopsOnce(Sound):
    async def stop(self) -> None:
        assert self.task is not None, "not started"
        self.task.cancel()
        self.task = None


class StopsNever(Sound):
    async def stop(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])


class LeavesATask(Sound):
    async def stop(self) -> None:
        return None


class LeavesAThread(Sound):
    go = threading.Event()

    async def start(self) -> None:
        threading.Thread(target=self.go.wait, daemon=True).start()


class ShrugsOffACancel(Sound):
    async def run(self) -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


def suite(kind: type[Sound]) -> StopSafety:
    class Case(StopSafety):
        within = 0.05

        @asynccontextmanager
        async def make_loop(self) -> AsyncIterator[Loop]:
            made = kind()
            yield Loop(start=made.start, stop=made.stop, run=getattr(made, "run", None))

    return Case()


CHECKS = [name for name in vars(StopSafety) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS)
async def test_stop_safety_passes_a_sound_loop(check: str) -> None:
    await getattr(suite(Sound), check)()


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (StopsOnce, "test_ten_stops_in_a_row_are_as_good_as_one"),
        (StopsOnce, "test_a_hundred_stops_at_once_are_as_good_as_one"),
        (StopsOnce, "test_a_stop_before_the_start_does_no_harm"),
        (StopsOnce, "test_a_stop_in_the_middle_of_the_start_returns_in_time"),
        (StopsOnce, "test_a_stop_that_was_cancelled_can_be_repeated"),
        (StopsNever, "test_a_stop_while_it_works_returns_in_time"),
        (StopsNever, "test_a_cancel_ends_it_in_time"),
        (LeavesATask, "test_a_stop_returns_and_leaves_nothing_behind"),
        (LeavesAThread, "test_a_stop_returns_and_leaves_nothing_behind"),
        (ShrugsOffACancel, "test_a_cancel_ends_it_in_time"),
    ],
)
async def test_stop_safety_fails_an_unsound_loop(kind: type[Sound], check: str) -> None:
    with pytest.raises((AssertionError, TimeoutError)):
        await getattr(suite(kind), check)()
    if kind is LeavesAThread:
        LeavesAThread.go.set()
