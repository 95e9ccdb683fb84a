"""A stress test: many jobs on several workers, and whether any was lost or done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..events import JobStarted
from ..ids import JobId
from ..middleware import Next
from ..records.job import Job, State
from ..records.query import Filter
from ..task.context import Context
from ..task.task import Task
from .clock import VirtualClock

if TYPE_CHECKING:
    from ..app import Mainspring

BATCH_JOBS = 500
# Seconds of the app's clock between two checks whether all jobs are done.
POLL_SECONDS = 0.05
# On a virtual clock the interval doubles up to this.
MAX_POLL_SECONDS = 60.0


class Percentiles(Struct, frozen=True):
    """The 50th, 95th and 99th percentile of durations, and the maximum."""

    p50: timedelta = timedelta(0)
    p95: timedelta = timedelta(0)
    p99: timedelta = timedelta(0)
    max: timedelta = timedelta(0)

    @classmethod
    def of(cls, spans: Iterable[timedelta]) -> Percentiles:
        """By nearest rank: each percentile is one of the spans."""
        ranked = sorted(spans)
        if not ranked:
            return cls()
        return cls(*(ranked[ceil(len(ranked) * share / 100) - 1] for share in (50, 95, 99, 100)))


class Stress(Struct, frozen=True, kw_only=True):
    """The result of a stress test."""

    jobs: int
    completed: int
    failed: int
    """Jobs that ended dead, cancelled or expired."""
    lost: int
    """Jobs that were not final after `patience` seconds, or not in the store at all."""
    duplicates: int
    """Number of returns of a task for a job that had returned before."""
    runs: int
    duration: timedelta
    """Time from the first enqueue to the last outcome, on the app's clock."""
    latency: Percentiles = Percentiles()
    """Of completed jobs: from enqueue to end."""
    run_time: Percentiles = Percentiles()
    """Of completed jobs: from the start to the end of the last run."""

    @property
    def rate(self) -> float:
        """Completed jobs per second; 0 if no time has passed, as on a virtual clock."""
        took = self.duration.total_seconds()
        return self.completed / took if took > 0 else 0.0


async def stress(
    app: Mainspring,
    task: Task[Any, Any],
    *,
    jobs: int = 1000,
    workers: int = 2,
    concurrency: int | None = None,
    arguments: Callable[[int], Sequence[Any]] = lambda n: (),
    patience: float = 60.0,
    check: bool = True,
) -> Stress:
    """Enqueues `jobs` jobs, the n-th with `arguments(n)`, and runs workers until all are final.

    Gives up after `patience` real seconds. A virtual clock is moved along. Raises AssertionError if a job was lost or
    done twice, unless `check` is False. Rate and percentiles are measured on the app's clock.
    """
    runs, began = _RunCounter(), app.clock.now()
    app.middleware.append(runs.around)
    app.events.subscribe(JobStarted, runs.started)
    try:
        ids = await _enqueue(app, task, jobs, arguments)
        async with AsyncExitStack() as running:
            for _ in range(workers):
                worker = await running.enter_async_context(app.worker(concurrency=concurrency))
                running.push_async_callback(worker.stop, grace=0)  # all is done, or the time is up
            found = await _watch(app, ids, patience)
        result = runs.result(ids, found, began)
    finally:
        app.middleware.remove(runs.around)
        app.events.unsubscribe(JobStarted, runs.started)
    if check and (result.lost or result.duplicates):
        raise AssertionError(f"{result.lost} of {result.jobs} jobs were lost, {result.duplicates} done twice: {result}")
    return result


class _RunCounter:
    """Counts runs and returns in the tasks themselves, independently of the store."""

    def __init__(self) -> None:
        self.runs = 0
        self.returned: Counter[JobId] = Counter()

    async def around(self, ctx: Context, call_next: Next) -> Any:
        value = await call_next(ctx)
        self.returned[ctx.job.id] += 1
        return value

    def started(self, event: JobStarted) -> None:
        self.runs += 1

    def result(self, ids: Sequence[JobId], found: Mapping[JobId, Job], began: datetime) -> Stress:
        ended = [job for job in found.values() if job.state.final]
        done = [(job, job.finished_at) for job in ended if job.state is State.COMPLETED and job.finished_at is not None]
        completed = len(done)
        last = max((job.finished_at for job in ended if job.finished_at is not None), default=began)
        return Stress(
            jobs=len(ids),
            completed=completed,
            failed=len(ended) - completed,
            lost=len(ids) - len(ended),
            duplicates=sum(times - 1 for times in self.returned.values()),
            runs=self.runs,
            duration=last - began,
            latency=Percentiles.of(end - job.created_at for job, end in done),
            run_time=Percentiles.of(end - job.started_at for job, end in done if job.started_at),
        )


async def _enqueue(
    app: Mainspring, task: Task[Any, Any], jobs: int, arguments: Callable[[int], Sequence[Any]]
) -> list[JobId]:
    ids: dict[JobId, None] = {}  # a job with a key may be returned twice
    for first in range(0, jobs, BATCH_JOBS):
        batch = [task.job(*arguments(n)) for n in range(first, min(first + BATCH_JOBS, jobs))]
        ids |= dict.fromkeys(handle.id for handle in await app.enqueue_many(batch))
    return list(ids)


async def _watch(app: Mainspring, ids: Sequence[JobId], patience: float) -> dict[JobId, Job]:
    """Returns the jobs once all of them are final, or after `patience` real seconds.

    Reads them in batches, and the next batch only when all of the last one are final: so each job is read a few
    times, however many there are.
    """
    loop, clock, span = asyncio.get_running_loop(), app.clock._clock, POLL_SECONDS
    found, first, end = dict[JobId, Job](), 0, loop.time() + patience
    while first < len(ids):
        found |= await _read(app, ids[first : first + BATCH_JOBS])
        if loop.time() >= end or all(id in found and found[id].state.final for id in ids[first : first + BATCH_JOBS]):
            first += BATCH_JOBS
        elif isinstance(clock, VirtualClock):
            await clock.elapse(seconds=span)
            span = min(2 * span, MAX_POLL_SECONDS)
        else:
            await clock.sleep(POLL_SECONDS)
    return found


async def _read(app: Mainspring, ids: Sequence[JobId]) -> dict[JobId, Job]:
    which = Filter(ids=tuple(ids))
    found = await (await app.connect()).jobs(which, now=app.clock.now(), limit=len(ids), brief=True)
    return {job.id: job for job in found}
