"""Statistics: figures computed from counts and tallies of runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from ..histogram import percentile
from ..records.queue import Queue
from ..records.run import PARTIAL, WENT_WRONG, Ending
from ..records.tally import RunSums, Span, Tally, last_at


class Figures(Struct, frozen=True, kw_only=True):
    """Runs that ended within the window. Durations are in seconds; None if nothing ran."""

    runs: int = 0
    """The sum of the four kinds below."""
    completed: int = 0
    partial: int = 0
    """Completed although some of their items failed; not among `completed`."""
    failed: int = 0
    """Failed, timed out, discarded and crashed."""
    cancelled: int = 0
    success_rate: float | None = None
    """Completed and partial runs divided by these and the failed ones."""
    average: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    """Time from when a job became due until a worker claimed it."""
    last_at: datetime | None = None


class Point(Struct, frozen=True):
    """One step of the time series: the runs that ended in it. Durations are in seconds; None if nothing ran."""

    at: datetime
    completed: int
    failed: int
    p50: float | None = None
    p95: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    runs: int = 0
    """All runs, including cancelled ones."""
    partial: int = 0
    """Completed although some of their items failed; not among `completed`."""


class TopError(Struct, frozen=True):
    """A kind of failure, how often it occurred, and in which tasks."""

    error: str
    count: int
    tasks: tuple[str, ...]
    message: str = ""
    """The start of the latest message, with the details that `error` leaves out; empty if it is not kept."""


class Stats(Struct, frozen=True, kw_only=True):
    """How many jobs are in each state now, and how runs ended within a window."""

    pending: int = 0
    scheduled: int = 0
    retrying: int = 0
    running: int = 0
    waiting: int = 0
    paused: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    queues: list[Queue] = []
    window: timedelta | None = timedelta(hours=1)
    """None: all time."""
    total: Figures = Figures()
    per_minute: float | None = None
    """Runs per minute: over the last five minutes if the series is by the minute, else over the whole window from
    its first run; None if there is no series."""
    by_task: Mapping[str, Figures] = {}
    by_queue: Mapping[str, Figures] = {}
    series: list[Point] = []
    errors: list[TopError] = []


# Windows up to this are counted by the minute.
_BY_MINUTE = timedelta(hours=2)
# Windows up to this are counted by the hour, longer ones by the day.
_BY_HOUR = timedelta(days=3)
MAX_WINDOW = timedelta(days=366)
# Points of a series by the minute from which runs per minute are computed.
RATE_POINTS = 5
MAX_TOP_ERRORS = 10


def resolution(window: timedelta | None) -> Span:
    """The span of the tallies that a window is computed from."""
    if window is None:
        return "ever"
    return "minute" if window <= _BY_MINUTE else "hour" if window <= _BY_HOUR else "day"


def filter_tallies(tallies: Iterable[Tally], queue: str | None, task: str | None) -> list[Tally]:
    """The tallies of a queue and a task; None: any."""
    return [one for one in tallies if queue in (None, one.queue) and task in (None, one.task)]


def sum_tallies(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each queue and task, summed over time."""
    found: dict[tuple[str, str], Tally] = {}
    for tally in tallies:
        key = (tally.queue, tally.task)
        if key not in found:
            found[key] = Tally(tally.at, tally.queue, tally.task, RunSums())
        found[key].sums.add(tally.sums)
    return list(found.values())


def figures(sums: RunSums) -> Figures:
    """The figures of summed runs."""
    endings = sums.endings
    runs = sum(endings.values())
    if not runs:
        return Figures()
    whole, part = endings.get(Ending.COMPLETED, 0), endings.get(PARTIAL, 0)
    good, bad = whole + part, sum(endings.get(kind, 0) for kind in WENT_WRONG)
    return Figures(
        runs=runs,
        completed=whole,
        partial=part,
        failed=bad,
        cancelled=endings.get(Ending.CANCELLED, 0),
        success_rate=good / (good + bad) if good + bad else None,
        average=sums.took / runs / 1e6,
        p50=percentile(sums.spread, 0.50, sums.took_ends),
        p95=percentile(sums.spread, 0.95, sums.took_ends),
        p99=percentile(sums.spread, 0.99, sums.took_ends),
        wait_p50=percentile(sums.waits, 0.50, sums.wait_ends),
        wait_p95=percentile(sums.waits, 0.95, sums.wait_ends),
        last_at=last_at(sums),
    )


def figures_by(tallies: Iterable[Tally], name: str) -> dict[str, Figures]:
    """Figures by "task" or "queue"."""
    sums: dict[str, RunSums] = {}
    for tally in tallies:
        sums.setdefault(getattr(tally, name), RunSums()).add_figures(tally.sums)
    return {key: figures(sums[key]) for key in sorted(sums)}


def total_figures(tallies: Iterable[Tally]) -> Figures:
    sums = RunSums()
    for tally in tallies:
        sums.add_figures(tally.sums)
    return figures(sums)


def time_series(tallies: Sequence[Tally], since: datetime, until: datetime, step: timedelta) -> list[Point]:
    """One point per step, including steps without runs. A run that ended after `until`, while the tallies were read,
    counts in the last step, so that the points add up to the total."""
    steps: dict[datetime, RunSums] = {}
    at = since
    while at <= until:
        steps[at] = RunSums()
        at += step
    last = max(steps, default=since)
    for tally in tallies:
        if (at := min(tally.at, last)) in steps:
            steps[at].add_figures(tally.sums)
    return [_point(at, figures(sums)) for at, sums in steps.items()]


def _point(at: datetime, all: Figures) -> Point:
    return Point(at, all.completed, all.failed, all.p50, all.p95, all.wait_p50, all.wait_p95, all.runs, all.partial)


def runs_per_minute(points: Sequence[Point], until: datetime, step: timedelta) -> float | None:
    """Stats.per_minute. The current step counts by its elapsed time; less than a minute counts as one."""
    if not points:
        return None
    recent = points[-RATE_POINTS:] if step <= timedelta(minutes=1) else points
    began = next((point.at for point in recent if point.runs), until)
    return sum(point.runs for point in recent) / max(1.0, (until - began) / timedelta(minutes=1))


def top_errors(tallies: Iterable[Tally], limit: int = MAX_TOP_ERRORS) -> list[TopError]:
    """The most frequent kinds of failure."""
    counts: dict[str, int] = {}
    tasks: dict[str, set[str]] = {}
    lines: dict[str, tuple[int, str]] = {}
    for tally in tallies:
        for kind, count in tally.sums.errors.items():
            counts[kind] = counts.get(kind, 0) + count
            tasks.setdefault(kind, set()).add(tally.task)
            lines[kind] = max(lines.get(kind, (0, "")), tally.sums.lines.get(kind, (0, "")))
    first = sorted(counts, key=lambda kind: (-counts[kind], kind))[:limit]
    return [TopError(kind, counts[kind], tuple(sorted(tasks[kind])), lines[kind][1]) for kind in first]
