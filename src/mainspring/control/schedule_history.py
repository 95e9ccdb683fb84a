"""Runs and statistics of one schedule, from its newest ticks."""

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
from ..insight.stats import LONGEST, Figures, Point, TopError, figures, resolution, series, top_errors
from ..records.run import WENT_WRONG, Execution
from ..records.tally import NOT_COUNTED, SPAN_SECONDS, RunSums, Tally, span_start
from ..schedule.record import BACKFILL, BY_HAND, TICKS_KEPT, Schedule, Tick
from ..store import Store

# Jobs whose runs statistics look at, the newest first, and how many of them are read at a time.
SAMPLE_JOBS, READ_JOBS = 500, 100
WEEK = timedelta(days=7)
# Ticks are numbered from 1; every client can write this number exactly, and every store has room for it.
MAX_TICK_NUMBER = 2**53 - 1


class ScheduleRun(Struct, frozen=True):
    """One run of a schedule's job, and the tick that the job was made for."""

    tick: Tick
    execution: Execution


class RunSample(Struct, frozen=True, kw_only=True):
    """What statistics were made from: the newest fired ticks of the window, and the runs of their jobs."""

    since: datetime
    ticks: int
    jobs: int
    """Those of them whose job has run and is still kept."""
    runs: int
    complete: bool
    """False: the window has more fired ticks than were looked at, or than are on record."""


class ScheduleStats(Struct, frozen=True, kw_only=True):
    """How a schedule has gone: ticks and jobs since it was made, and its runs within a window."""

    fired: int
    skipped: int
    missed: int
    completed: int
    failed: int
    failures: int
    """In a row, up to now."""
    success: float | None
    """Share of the jobs that ended well; None: none has ended."""
    reasons: Mapping[str, int]
    """Why ticks on record were not fired, and how many."""
    next_at: datetime | None = None
    window: timedelta = WEEK
    runs: Figures = Figures()
    """Runs of jobs whose tick was fired within the window."""
    late_p50: float | None = None
    late_p95: float | None = None
    late_p99: float | None = None
    """Seconds from a tick's instant to when its job first started; ticks by hand and of backfills are left out."""
    series: list[Point] = []
    errors: list[TopError] = []
    sample: RunSample | None = None
    """None: of a server that knows no runs."""


def checked_tick_number(before: object) -> None:
    if before is None:
        return
    if isinstance(before, bool) or not isinstance(before, int) or not 0 <= before <= MAX_TICK_NUMBER:
        raise BadInput(f"before= takes the number of a tick, from 0 to {MAX_TICK_NUMBER}; got {before!r:.80}")


async def runs_of(store: Store, name: str, *, limit: int, before: int | None) -> list[ScheduleRun]:
    """Runs that have ended, by tick, newest first: those of the next `limit` ticks below `before` that have one."""
    found: list[ScheduleRun] = []
    ticks = await store.ticks(name, limit=TICKS_KEPT, before=before)
    async for tick, runs in _runs(store, _fired(ticks)):
        if runs:
            found += [ScheduleRun(tick, run) for run in reversed(runs)]
            limit -= 1
        if not limit:
            break
    return found


async def stats_of(store: Store, row: Schedule, window: timedelta, now: datetime) -> ScheduleStats:
    """One read of its ticks, and one for every READ_JOBS of up to SAMPLE_JOBS jobs."""
    if not isinstance(window, timedelta) or not timedelta(0) < window <= LONGEST:
        raise BadInput(f"statistics of a schedule reach back up to {LONGEST.days} days, got {window!r:.80}")
    span = resolution(window)
    since = span_start(now - window, span)
    ticks = await store.ticks(row.name, limit=TICKS_KEPT)
    fired = [tick for tick in _fired(ticks) if tick.seen_at >= since]
    whole = len(ticks) < TICKS_KEPT or ticks[-1].seen_at < since
    sampled: list[tuple[Tick, Sequence[Execution]]] = []
    async for one in _runs(store, fired[:SAMPLE_JOBS]):
        sampled.append(one)
    counted = [(tick, [run for run in runs if run.ending not in NOT_COUNTED]) for tick, runs in sampled if runs]
    tallies = [_tally(row, run, span_start(run.finished_at, span)) for _, runs in counted for run in runs]
    late = sorted(_late(tick, runs) for tick, runs in sampled if runs and tick.reason not in (BY_HAND, BACKFILL))
    reasons, ends = Counter[str](), row.completed + row.failed
    for tick in ticks:
        if tick.what != "fired":
            reasons[tick.reason] += tick.count
    return ScheduleStats(
        fired=row.fired, skipped=row.skipped, missed=row.missed, completed=row.completed, failed=row.failed,
        failures=row.failures, success=row.completed / ends if ends else None, reasons=dict(reasons),
        next_at=row.next_run_at if row.status == "active" else None, window=window, runs=_figures(counted),
        late_p50=_rank(late, 0.5), late_p95=_rank(late, 0.95), late_p99=_rank(late, 0.99),
        series=series(tallies, since, now, timedelta(seconds=SPAN_SECONDS[span])), errors=top_errors(tallies),
        sample=RunSample(since=since, ticks=len(sampled), jobs=len(counted), runs=len(tallies),
                      complete=whole and len(fired) <= SAMPLE_JOBS),
    )  # fmt: skip


def _fired(ticks: Sequence[Tick]) -> list[Tick]:
    return [tick for tick in ticks if tick.what == "fired" and tick.job_id is not None]


async def _runs(store: Store, ticks: Sequence[Tick]) -> AsyncIterator[tuple[Tick, Sequence[Execution]]]:
    """Each tick with the runs of its job that have ended, first to last; none where the job is gone."""
    for n in range(0, len(ticks), READ_JOBS):
        some, found = ticks[n : n + READ_JOBS], defaultdict[JobId | None, list[Execution]](list)
        for run in await store.executions([tick.job_id or "" for tick in some]):
            found[run.job_id].append(run)
        for tick in some:
            yield tick, found[tick.job_id]
        await asyncio.sleep(0)  # a store that answers without waiting gives other tasks no turn


def _tally(row: Schedule, run: Execution, at: datetime) -> Tally:
    sums = RunSums(last=micros(run.finished_at))
    sums.count(run.outcome, [run.duration])
    if run.failure is not None and run.ending in WENT_WRONG:
        sums.add_failure(run.failure, run.finished_at)
    return Tally(at, row.spec.queue, row.spec.task, sums)


def _figures(counted: Sequence[tuple[Tick, Sequence[Execution]]]) -> Figures:
    """Their percentiles are exact: each run is at hand."""
    sums = RunSums()
    for _, runs in counted:
        for run in runs:
            sums.count(run.outcome, [run.duration])
            sums.last = max(sums.last, micros(run.finished_at))
    took = sorted(run.duration.total_seconds() for _, runs in counted for run in runs)
    waits = sorted(max(0.0, (runs[0].started_at - tick.seen_at).total_seconds()) for tick, runs in counted if runs)
    return replace(
        figures(sums), p50=_rank(took, 0.5), p95=_rank(took, 0.95), p99=_rank(took, 0.99),
        wait_p50=_rank(waits, 0.5), wait_p95=_rank(waits, 0.95),
    )  # fmt: skip


def _late(tick: Tick, runs: Sequence[Execution]) -> float:
    return max(0.0, (runs[0].started_at - tick.at).total_seconds())


def _rank(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of them does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
