"""Runs and statistics of one schedule, computed from its newest ticks."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from ..clock import micros
from ..errors import BadInput
from ..ids import JobId
from ..insight.stats import MAX_WINDOW, Figures, Point, TopError, figures, resolution, time_series, top_errors
from ..records.run import WENT_WRONG, Execution
from ..records.tally import NOT_COUNTED, SPAN_SECONDS, RunSums, Tally, span_start
from ..schedule.record import BACKFILL, BY_HAND, MAX_KEPT_TICKS, Schedule, Tick
from ..store import Store

# Statistics cover the runs of this number of jobs, newest first.
MAX_SAMPLED_JOBS = 500
# Jobs read per store call.
BATCH_JOBS = 100
DEFAULT_WINDOW = timedelta(days=7)
# Ticks are numbered from 1. Every client can represent this number exactly, and every store can hold it.
MAX_TICK_NUMBER = 2**53 - 1


class ScheduleRun(Struct, frozen=True):
    """One run of a schedule's job, and the tick that the job was made for."""

    tick: Tick
    execution: Execution


class RunSample(Struct, frozen=True, kw_only=True):
    """What the statistics were computed from: the newest fired ticks of the window, and the runs of their jobs."""

    since: datetime
    ticks: int
    jobs: int
    """Ticks whose job has run and is still kept."""
    runs: int
    complete: bool
    """False: the window has more fired ticks than were read, or than are on record."""


class ScheduleStats(Struct, frozen=True, kw_only=True):
    """Statistics of a schedule: ticks and jobs since it was created, and its runs within a window."""

    fired: int
    skipped: int
    missed: int
    completed: int
    failed: int
    failures: int
    """Consecutive failures up to now."""
    success: float | None
    """Share of the jobs that succeeded; None if none has ended."""
    reasons: Mapping[str, int]
    """Reasons for which ticks on record were not fired, with their number."""
    next_at: datetime | None = None
    window: timedelta = DEFAULT_WINDOW
    runs: Figures = Figures()
    """Runs of jobs whose tick was fired within the window."""
    late_p50: float | None = None
    late_p95: float | None = None
    late_p99: float | None = None
    """Seconds from a tick to the start of its job, without ticks by hand and of backfills."""
    series: list[Point] = []
    errors: list[TopError] = []
    sample: RunSample | None = None
    """None: the server does not record runs."""


def checked_tick_number(before: object) -> None:
    if before is None:
        return
    if isinstance(before, bool) or not isinstance(before, int) or not 0 <= before <= MAX_TICK_NUMBER:
        raise BadInput(f"before= takes the number of a tick, from 0 to {MAX_TICK_NUMBER}; got {before!r:.80}")


async def runs_of(store: Store, name: str, *, limit: int, before: int | None) -> list[ScheduleRun]:
    """Ended runs by tick, newest first, of the next `limit` ticks below `before` that have any."""
    found: list[ScheduleRun] = []
    ticks = await store.ticks(name, limit=MAX_KEPT_TICKS, before=before)
    async for tick, runs in _runs(store, _fired(ticks)):
        if runs:
            found += [ScheduleRun(tick, run) for run in reversed(runs)]
            limit -= 1
        if not limit:
            break
    return found


async def stats_of(store: Store, row: Schedule, window: timedelta, now: datetime) -> ScheduleStats:
    """One store call for the ticks, and one for every BATCH_JOBS of up to MAX_SAMPLED_JOBS jobs."""
    if not isinstance(window, timedelta) or not timedelta(0) < window <= MAX_WINDOW:
        raise BadInput(f"statistics of a schedule reach back up to {MAX_WINDOW.days} days, got {window!r:.80}")
    span = resolution(window)
    since = span_start(now - window, span)
    ticks = await store.ticks(row.name, limit=MAX_KEPT_TICKS)
    fired = [tick for tick in _fired(ticks) if tick.seen_at >= since]
    whole = len(ticks) < MAX_KEPT_TICKS or ticks[-1].seen_at < since
    sampled: list[tuple[Tick, Sequence[Execution]]] = []
    async for one in _runs(store, fired[:MAX_SAMPLED_JOBS]):
        sampled.append(one)
    counted = [(tick, [run for run in runs if run.ending not in NOT_COUNTED]) for tick, runs in sampled if runs]
    tallies = [_tally(row, run, span_start(run.finished_at, span)) for _, runs in counted for run in runs]
    late = sorted(_lateness(tick, runs) for tick, runs in sampled if runs and tick.reason not in (BY_HAND, BACKFILL))
    reasons, ends = Counter[str](), row.completed + row.failed
    for tick in ticks:
        if tick.what != "fired":
            reasons[tick.reason] += tick.count
    return ScheduleStats(
        fired=row.fired,
        skipped=row.skipped,
        missed=row.missed,
        completed=row.completed,
        failed=row.failed,
        failures=row.failures,
        success=row.completed / ends if ends else None,
        reasons=dict(reasons),
        next_at=row.next_run_at if row.status == "active" else None,
        window=window,
        runs=_figures(counted),
        late_p50=_percentile(late, 0.5),
        late_p95=_percentile(late, 0.95),
        late_p99=_percentile(late, 0.99),
        series=time_series(tallies, since, now, timedelta(seconds=SPAN_SECONDS[span])),
        errors=top_errors(tallies),
        sample=RunSample(
            since=since,
            ticks=len(sampled),
            jobs=len(counted),
            runs=len(tallies),
            complete=whole and len(fired) <= MAX_SAMPLED_JOBS,
        ),
    )


def _fired(ticks: Sequence[Tick]) -> list[Tick]:
    return [tick for tick in ticks if tick.what == "fired" and tick.job_id is not None]


async def _runs(store: Store, ticks: Sequence[Tick]) -> AsyncIterator[tuple[Tick, Sequence[Execution]]]:
    """Yields each tick with the ended runs of its job, first to last; none if the job is gone."""
    for n in range(0, len(ticks), BATCH_JOBS):
        some, found = ticks[n : n + BATCH_JOBS], defaultdict[JobId | None, list[Execution]](list)
        for run in await store.executions([tick.job_id or "" for tick in some]):
            found[run.job_id].append(run)
        for tick in some:
            yield tick, found[tick.job_id]
        await asyncio.sleep(0)  # a store that answers without waiting would starve other tasks


def _tally(row: Schedule, run: Execution, at: datetime) -> Tally:
    sums = RunSums(last=micros(run.finished_at))
    sums.count(run.outcome, [run.duration])
    if run.failure is not None and run.ending in WENT_WRONG:
        sums.add_failure(run.failure, run.finished_at)
    return Tally(at, row.spec.queue, row.spec.task, sums)


def _figures(counted: Sequence[tuple[Tick, Sequence[Execution]]]) -> Figures:
    """Figures with exact percentiles: every run is available."""
    sums = RunSums()
    for _, runs in counted:
        for run in runs:
            sums.count(run.outcome, [run.duration])
            sums.last = max(sums.last, micros(run.finished_at))
    took = sorted(run.duration.total_seconds() for _, runs in counted for run in runs)
    waits = sorted(max(0.0, (runs[0].started_at - tick.seen_at).total_seconds()) for tick, runs in counted if runs)
    return replace(
        figures(sums),
        p50=_percentile(took, 0.5),
        p95=_percentile(took, 0.95),
        p99=_percentile(took, 0.99),
        wait_p50=_percentile(waits, 0.5),
        wait_p95=_percentile(waits, 0.95),
    )


def _lateness(tick: Tick, runs: Sequence[Execution]) -> float:
    return max(0.0, (runs[0].started_at - tick.at).total_seconds())


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that is not exceeded by this share of the values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
