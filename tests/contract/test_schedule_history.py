"""Runs and statistics of a schedule, and changes of many schedules, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import AuditFilter, BadInput, Context, Filter, Mainspring, ScheduleNotFound, act_as, every
from mainspring.codec import decode_or_text
from mainspring.control import ScheduleFilter, schedule_history
from mainspring.control.schedule_bulk import BATCH_ROWS
from mainspring.testing import VirtualClock


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue(request.param).fresh())


@asynccontextmanager
async def ticking(url: str) -> AsyncIterator[tuple[Mainspring, VirtualClock]]:
    """An app whose minutely schedule takes 1, 2, 3, … seconds; its third run fails twice, its fourth is partial."""
    clock = VirtualClock()
    app = Mainspring(url, clock=clock, retry_initial_delay=1)

    @app.task(max_retries=3)
    async def work(ctx: Context) -> None:
        n = len(await app.jobs.list(Filter(schedules=("minutely",))))
        clock.advance(seconds=n)
        if n == 3 and ctx.attempt < 3:
            raise OSError(f"disk {ctx.attempt} is full")
        if n == 4:
            ctx.items(success=9, failed=1)

    async with app:
        await app.schedules.create("minutely", every(minutes=1), "work")
        yield app, clock


async def run(app: Mainspring, clock: VirtualClock, ticks: int) -> None:
    for _ in range(ticks):
        row = await app.schedules.get("minutely")
        assert row.next_run_at is not None
        clock.set(row.next_run_at)
        for _ in range(3):  # retries are due after 1 and 2 seconds
            await app.drain()
            clock.advance(seconds=3)


# runs


async def test_executions_are_runs_with_their_ticks_newest_first(url: str) -> None:
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        found = await app.schedules.executions("minutely")
        outcomes = [one.execution.outcome for one in found]
        assert outcomes == ["partial", "completed", "failed", "failed", "completed", "completed"]
        assert [one.tick.n for one in found] == [4, 3, 3, 3, 2, 1]
        assert all(one.tick.job_id == one.execution.job_id for one in found)
        first = await app.schedules.executions("minutely", limit=2)
        assert [one.tick.n for one in first] == [4, 3, 3, 3]
        rest = await app.schedules.executions("minutely", limit=2, before=first[-1].tick.n)
        assert [one.tick.n for one in rest] == [2, 1]
        assert await app.schedules.executions("minutely", before=1) == []


async def test_ticks_without_a_kept_job_do_not_hide_older_runs(url: str) -> None:
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        newest = [one.execution.job_id for one in await app.schedules.executions("minutely", limit=2)]
        await app.jobs.delete(Filter(ids=tuple(set(newest))))
        assert [one.tick.n for one in await app.schedules.executions("minutely", limit=1)] == [2]


async def test_schedule_stats_have_percentiles_a_time_series_errors_and_their_sample(url: str) -> None:
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        stats = await app.schedules.stats("minutely", timedelta(minutes=10))
        runs = stats.runs
        assert (runs.runs, runs.completed, runs.partial, runs.failed) == (6, 3, 1, 2)
        assert runs.success_rate == pytest.approx(4 / 6)
        assert (runs.p50, runs.p95, runs.p99) == pytest.approx((3, 4, 4), abs=0.01)
        assert runs.average == pytest.approx((1 + 2 + 3 + 3 + 3 + 4) / 6, abs=0.01)
        assert stats.late_p99 == pytest.approx(0, abs=1.1)
        assert [(one.error, one.count, one.tasks) for one in stats.errors] == [
            ("OSError: disk … is full", 2, ("work",))
        ]
        assert sum(point.completed + point.partial + point.failed for point in stats.series) == 6
        assert len(stats.series) == 11
        assert stats.sample is not None
        assert (stats.sample.ticks, stats.sample.jobs, stats.sample.runs, stats.sample.complete) == (4, 4, 6, True)
        assert (stats.fired, stats.completed, stats.success) == (4, 4, 1.0)
        assert stats.next_at == (await app.schedules.get("minutely")).next_run_at


async def test_a_schedule_stats_window_leaves_out_older_runs(url: str) -> None:
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        stats = await app.schedules.stats("minutely", timedelta(seconds=10))
        assert (stats.runs.runs, stats.fired) == (1, 4)
        for bad in (timedelta(0), timedelta(days=400), 5):
            with pytest.raises(BadInput, match="reach back up to 366 days"):
                await app.schedules.stats("minutely", bad)  # type: ignore[arg-type]


async def test_triggered_and_backfilled_runs_do_not_count_as_late(url: str) -> None:
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        await app.schedules.pause("minutely")
        before = await app.schedules.stats("minutely", timedelta(minutes=30))
        first = (await app.schedules.ticks("minutely"))[-1].at
        filled = await app.schedules.backfill("minutely", first - timedelta(seconds=90), first)
        assert len(filled.made) == 1
        for _ in range(2):
            clock.advance(seconds=30)  # without a worker
            await app.drain()
            await app.schedules.trigger("minutely")
        stats = await app.schedules.stats("minutely", timedelta(minutes=30))
        assert stats.runs.runs == before.runs.runs + 2
        assert (stats.late_p50, stats.late_p99) == (before.late_p50, before.late_p99)


async def test_schedule_stats_read_a_bounded_number_of_jobs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_history, "MAX_SAMPLED_JOBS", 2)
    async with ticking(url) as (app, clock):
        await run(app, clock, 4)
        stats = await app.schedules.stats("minutely", timedelta(minutes=10))
        assert stats.sample is not None
        assert (stats.sample.ticks, stats.sample.complete, stats.runs.runs) == (2, False, 4)


async def test_stats_and_executions_of_an_unknown_schedule_raise_schedule_not_found(url: str) -> None:
    async with ticking(url) as (app, _):
        for ask in (app.schedules.stats, app.schedules.executions):
            with pytest.raises(ScheduleNotFound):
                await ask("hourly")
        stats = await app.schedules.stats("minutely")
        assert (stats.runs.runs, stats.runs.p99, stats.late_p50, stats.errors) == (0, None, None, [])


# many


async def many(app: Mainspring, n: int, **options: Any) -> list[str]:
    names = [f"s{i:04}" for i in range(n)]
    for name in names:
        await app.schedules.create(name, every(hours=1), "work", **options)
    return names


async def audited(app: Mainspring) -> list[tuple[str, Any]]:
    return [(one.action, decode_or_text(one.outcome or "null")) for one in await app.audit.list(AuditFilter(who="ada"))]


async def test_a_bulk_pause_resume_or_delete_of_schedules_is_one_audit_entry(url: str) -> None:
    async with ticking(url) as (app, _):
        names = await many(app, BATCH_ROWS + 1)
        which = ScheduleFilter(q="S0")
        with act_as("ada"):
            tried = await app.schedules.many.pause(which, "deploy", dry_run=True)
            assert (tried.done, tried.dry_run) == (names, True)
            assert (await app.schedules.get("s0000")).paused_at is None
            assert (await app.schedules.many.pause(which, "deploy")).done == names
            row = await app.schedules.get("s0100")
            assert (row.status, row.note) == ("paused", "deploy")
            resumed = await app.schedules.many.resume(ScheduleFilter(status="paused"))
            assert resumed.done == names
            assert (await app.schedules.get("s0100")).status == "active"
            deleted = await app.schedules.many.delete(ScheduleFilter(names=(*names, "nobody")))
            assert (deleted.done, deleted.refused) == (names, {"nobody": "there is no schedule 'nobody'"})
        assert [row.name for row in await app.schedules.list()] == ["minutely"]
        acts = await audited(app)
        assert [action for action, _ in acts] == ["schedules.delete", "schedules.resume", "schedules.pause"]
        assert acts[0][1] == {"done": 101, "refused": 1, "ids": names[:100]}


async def test_a_bulk_trigger_makes_one_job_for_each_schedule(url: str) -> None:
    async with ticking(url) as (app, _):
        names = await many(app, 3)
        with act_as("ada"):
            found = await app.schedules.many.trigger(ScheduleFilter(names=tuple(names)))
        assert sorted(found.jobs) == names
        jobs = await app.jobs.list(Filter(ids=tuple(found.jobs.values())))
        assert {job.schedule for job in jobs} == set(names)
        assert [action for action, _ in await audited(app)] == ["schedules.trigger"]


async def test_a_bulk_action_on_schedules_continues_after_its_cursor(url: str) -> None:
    async with ticking(url) as (app, _):
        names = await many(app, 5)
        for which in (ScheduleFilter(q="s0"), ScheduleFilter(names=tuple(names))):
            seen: list[str] = []
            after: str | None = None
            while True:
                part = await app.schedules.many.pause(which, limit=2, after=after)
                seen, after = seen + part.done, part.next
                if after is None:
                    break
            assert seen == names


async def test_a_bulk_pause_reads_a_concurrently_changed_schedule_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ticking(url) as (app, _):
        names = await many(app, 3)
        chosen = app.schedules.many._choose

        async def late(*args: Any) -> Any:
            found = await chosen(*args)
            await app.schedules.update("s0001", grace=5)
            await app.schedules.delete("s0002")
            return found

        monkeypatch.setattr(app.schedules.many, "_choose", late)
        found = await app.schedules.many.pause(ScheduleFilter(q="s0"))
        assert (found.done, found.refused) == (names[:2], {"s0002": "it was gone already"})
        row = await app.schedules.get("s0001")
        assert (row.spec.grace, row.status) == (5, "paused")
