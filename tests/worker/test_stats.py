"""Statistics equal a recount of the executions, and percentiles are close to exact."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, Discard, Execution, Mainspring, Snooze
from mainspring.clock import EPOCH
from mainspring.histogram import bucket_of, midpoint, percentile
from mainspring.insight.stats import Figures, TopError
from mainspring.records.run import WENT_WRONG, Ending, Failure
from mainspring.records.tally import MAX_ERROR_KINDS, OTHER_ERRORS, RunSums
from mainspring.testing import Faults, FaultStore, VirtualClock


async def executions(app: Mainspring) -> list[tuple[str, str, Execution]]:
    """Every run with its task and queue."""
    return [
        (job.task, job.queue, run)
        for job in await app.jobs.list(limit=1000)
        for run in await app.executions.list(job_id=job.id)
    ]


def recount(runs: list[Execution]) -> Counter[Ending]:
    return Counter(run.ending for run in runs if run.ending not in (Ending.SNOOZED, Ending.RELEASED))


def check(shown: Figures, runs: list[Execution]) -> None:
    """The figures are those of these executions."""
    counted = recount(runs)
    good, bad = counted[Ending.COMPLETED], sum(counted[kind] for kind in WENT_WRONG)
    assert (shown.runs, shown.completed, shown.failed) == (counted.total(), good, bad)
    assert shown.cancelled == counted[Ending.CANCELLED]
    assert shown.success_rate == (good / (good + bad) if good + bad else None)
    took = sorted(run.duration.total_seconds() for run in runs if run.ending in counted)
    assert shown.average == pytest.approx(sum(took) / len(took))
    assert shown.last_at == max(run.finished_at for run in runs if run.ending in counted)


async def play(app: Mainspring, clock: VirtualClock, seed: int = 7) -> None:
    """A few minutes with every ending there is but a crash."""
    chance = random.Random(seed)

    @app.task(max_retries=1, timeout=20)
    async def work(seconds: float, how: str) -> None:
        await clock.sleep(seconds)
        if how == "fail":
            raise ValueError(f"number {seconds}")
        if how == "discard":
            raise Discard("useless")
        if how == "snooze" and chance.random() < 0.5:
            raise Snooze(1)

    other = app.task(name="other")(work.fn)
    async with app.worker():
        for n in range(40):
            how = chance.choice(["fine", "fine", "fail", "discard", "snooze"])
            task = (work if n % 3 else other).using(queue=chance.choice(["a", "b"]))
            handle = await task.enqueue(chance.choice([0.5, 2, 5, 25]), how)
            await clock.elapse(seconds=chance.choice([1, 6]))
            if n % 10 == 0:
                await app.jobs.cancel(handle.id) if (await handle.job()).state == "running" else None
        await clock.elapse(seconds=60)


async def test_stats_figures_equal_a_recount_of_the_executions(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await play(app, clock)
        stats = await app.stats()
        found = await executions(app)
        check(stats.total, [run for *_, run in found])
        for name in ("work", "other"):
            check(stats.by_task[name], [run for task, _, run in found if task == name])
        for name in ("a", "b"):
            check(stats.by_queue[name], [run for _, queue, run in found if queue == name])
        ever = await app.stats(None)
        assert (ever.total, ever.series) == (stats.total, [])
        day = await app.stats(timedelta(days=2))
        assert day.total == stats.total
        states = Counter(str(job.state) for job in await app.jobs.list(limit=1000))
        assert {name: getattr(stats, name) for name in ("completed", "dead", "cancelled")} == {
            name: states[name] for name in ("completed", "dead", "cancelled")
        }
        assert stats.total.cancelled > 0 < stats.total.failed
    assert sum(point.completed for point in stats.series) == stats.total.completed
    assert sum(point.failed for point in stats.series) == stats.total.failed


async def test_the_time_series_has_a_point_for_each_minute(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(fail: bool = False) -> None:
        if fail:
            raise ValueError

    async with app:
        start = clock.now()
        for fail in (False, True, False):
            await work.enqueue(fail)
            await app.drain()
            clock.advance(minutes=2)
        series = (await app.stats(timedelta(minutes=10))).series
    assert [point.at for point in series] == [start + timedelta(minutes=n) for n in range(-4, 7)]
    assert [(point.completed, point.failed) for point in series][4:] == [
        (1, 0), (0, 0), (0, 1), (0, 0), (1, 0), (0, 0), (0, 0),
    ]  # fmt: skip


async def test_a_stats_window_leaves_out_older_runs(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        for hours in (30, 3, 0):
            await work.enqueue()
            await app.drain()
            clock.advance(hours=hours)
        spans = [timedelta(hours=1), timedelta(hours=4), timedelta(days=2), timedelta(days=31), None]
        assert [(await app.stats(span)).total.runs for span in spans] == [1, 2, 3, 3, 3]
        assert [len((await app.stats(span)).series) for span in spans] == [61, 5, 49, 32, 0]


@pytest.mark.parametrize("window", [timedelta(0), timedelta(days=367)])
async def test_a_stats_window_beyond_retention_is_refused(app: Mainspring, window: timedelta) -> None:
    async with app:
        with pytest.raises(BadInput, match=r"statistics reach back up to 366 days, or for ever \(None\)"):
            await app.stats(window)


async def test_stats_without_runs_have_no_rates(app: Mainspring) -> None:
    async with app:
        stats = await app.stats()
    assert (stats.total, stats.by_task, stats.errors) == (Figures(), {}, [])
    assert (stats.total.success_rate, stats.total.p99, stats.total.last_at) == (None, None, None)


@pytest.mark.parametrize("scale", [0.001, 0.1, 1.0])
async def test_percentiles_of_known_durations_are_within_13_percent(
    app: Mainspring, clock: VirtualClock, scale: float
) -> None:
    @app.task
    async def work(seconds: float) -> None:
        await clock.sleep(seconds)

    durations = [round(scale * n, 6) for n in range(1, 101)]
    async with app:
        await app.enqueue_many(work.job(seconds) for seconds in durations)
        async with app.worker():
            await clock.elapse(seconds=scale * 101)
        total = (await app.stats(timedelta(hours=1))).total
    assert total.average == pytest.approx(sum(durations) / 100)
    for shown, share in ((total.p50, 50), (total.p95, 95), (total.p99, 99)):
        assert shown == pytest.approx(durations[share - 1], rel=0.13)


async def test_stats_have_wait_times_by_queue_and_over_time(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work(seconds: float) -> None:
        await clock.sleep(seconds)

    async with app:
        await app.enqueue_many([work.using(queue="a").job(0.5), work.using(queue="b", delay=2).job(0.5)])
        clock.advance(minutes=1)
        async with app.worker():
            await clock.elapse(seconds=1)
        stats = await app.stats(timedelta(minutes=3))
    assert stats.by_queue["a"].wait_p50 == stats.by_queue["a"].wait_p95 == pytest.approx(60, rel=0.13)
    assert stats.by_queue["b"].wait_p50 == pytest.approx(58, rel=0.13)
    assert stats.total.wait_p95 == stats.by_task["work"].wait_p95 == pytest.approx(60, rel=0.13)
    *before, point = stats.series
    assert (point.p50, point.p95) == (stats.total.p50, stats.total.p95)
    assert (point.wait_p50, point.wait_p95) == (stats.total.wait_p50, stats.total.wait_p95)
    assert {(one.p50, one.p95, one.wait_p50, one.wait_p95) for one in before} == {(None,) * 4}


async def test_stats_can_be_filtered_by_queue_or_task(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        await play(app, clock)
        whole = await app.stats()
        for name in ("a", "b"):
            alone = await app.stats(queue=name)
            assert (alone.total, alone.by_queue) == (whole.by_queue[name], {name: whole.by_queue[name]})
            assert sum(point.completed + point.failed for point in alone.series) > 0
            assert sum(point.completed for point in alone.series) == alone.total.completed
            assert (alone.completed, alone.queues) == (whole.completed, whole.queues)
        assert (await app.stats(task="other")).total == whole.by_task["other"]
        both = [(await app.stats(queue=name, task="other")).total.runs for name in ("a", "b")]
        assert 0 < both[0] < sum(both) == whole.by_task["other"].runs
        assert (await app.stats(queue="c")).total == Figures()


@pytest.mark.parametrize("seed", range(20))
def test_a_histogram_bucket_is_accurate_to_an_eighth(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        took = int(10 ** chance.uniform(0, 12))
        assert midpoint(bucket_of(took)) * 1e6 == pytest.approx(took, rel=0.125, abs=0.51)


def test_histogram_buckets_are_monotonic() -> None:
    numbers = [bucket_of(took) for took in range(100_000)]
    assert numbers == sorted(numbers)


def test_a_percentile_of_nothing_is_none() -> None:
    assert percentile({}, 0.5) is None


async def test_top_errors_are_sorted_by_count_without_cancellations(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def one(n: int) -> None:
        raise ValueError(f"order {n} is gone")

    @app.task(max_retries=0)
    async def two(n: int) -> None:
        if n < 2:
            raise ValueError(f"order {n} is gone")
        if n == 2:
            raise KeyError("name")
        await clock.sleep(100)

    async with app:
        await app.enqueue_many([one.job(n) for n in range(3)] + [two.job(n) for n in range(4)])
        async with app.worker():
            await clock.elapse(seconds=1)
            for job in await app.jobs.list():
                if job.state == "running":
                    await app.jobs.cancel(job.id, "not needed")
            await clock.elapse(seconds=6)
        stats = await app.stats()
    assert stats.errors == [
        TopError("ValueError: order … is gone", 5, ("one", "two"), "ValueError: order 2 is gone"),
        TopError("KeyError: …", 1, ("two",), "KeyError: 'name'"),
    ]
    assert stats.total.cancelled == 1


def test_the_error_kinds_of_a_tally_are_bounded() -> None:
    sums = RunSums()
    for n in range(1000):
        sums.add(RunSums(errors={Failure("Error", "x" * n).kind + chr(97 + n % 26) * (n // 26): 1}))
    assert len(sums.errors) == MAX_ERROR_KINDS + 1
    assert sum(sums.errors.values()) == 1000
    assert sums.errors[OTHER_ERRORS] > 900


def test_a_tally_keeps_lines_of_listed_error_kinds_only() -> None:
    sums = RunSums()
    for n in range(1000):
        sums.add_failure(Failure(f"Error{chr(97 + n % 26) * (n // 26 + 1)}", "no"), EPOCH)
    assert sums.lines.keys() == sums.errors.keys() - {OTHER_ERRORS}


async def test_a_lost_reply_does_not_count_a_run_twice(app: Mainspring, clock: VirtualClock) -> None:
    faults = Faults()
    shaky = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]

    @shaky.task
    async def work() -> None: ...

    async with shaky:
        await work.enqueue()
        faults.fail("finish", times=2, moment="after")
        async with shaky.worker():
            await clock.elapse(seconds=10)
        assert (await shaky.stats()).total.runs == 1


async def test_stats_list_queues_with_their_waiting_jobs(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        await work.using(queue="a").enqueue()
        await work.using(queue="b", delay=60).enqueue()
        await app.queues.pause("c")
        stats = await app.stats()
    found: dict[str, Any] = {queue.name: (queue.pending, queue.scheduled, queue.paused) for queue in stats.queues}
    assert found == {"a": (1, 0, False), "b": (0, 1, False), "c": (0, 0, True)}
    assert (stats.pending, stats.scheduled) == (1, 1)


@pytest.mark.parametrize("seconds", [0.004, 0.9, 4.0, 4.19, 61.0])
async def test_percentiles_of_equal_runs_are_their_duration(
    app: Mainspring, clock: VirtualClock, seconds: float
) -> None:
    @app.task
    async def work() -> None:
        await clock.sleep(seconds)

    async with app:
        await app.enqueue_many(work.job() for _ in range(20))
        async with app.worker(concurrency=20):
            await clock.elapse(seconds=seconds + 1)
        stats = await app.stats(timedelta(hours=1))
    for figures in (stats.total, stats.by_task["work"], stats.by_queue["default"]):
        assert [figures.p50, figures.p95, figures.p99, figures.average] == [pytest.approx(seconds)] * 4


async def test_stats_figures_of_a_burst_are_consistent(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(n: int) -> None:
        if n % 8 == 0:
            raise ValueError("no")

    async with app:
        await app.enqueue_many(work.job(n) for n in range(168))
        await app.drain()
        clock.advance(seconds=20)
        stats = await app.stats(timedelta(hours=1))
        assert stats.total.runs == sum(point.runs for point in stats.series) == stats.per_minute == 168
        assert stats.total.failed == sum(point.failed for point in stats.series) == stats.dead == 21
        assert stats.total.completed == sum(point.completed for point in stats.series) == stats.completed
        clock.advance(minutes=3)
        assert (await app.stats(timedelta(hours=1))).per_minute == pytest.approx(168 / 3, rel=0.5)
        clock.advance(minutes=5)
        assert (await app.stats(timedelta(hours=1))).per_minute == 0
        assert (await app.stats(None)).per_minute is None
