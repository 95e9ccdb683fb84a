"""Many jobs, several workers; then counts whether anything was lost or done twice."""

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

BATCH = 500
# How often, in seconds of the app's clock, it looks whether all is done; on a virtual one more and more seldom.
LOOK, SELDOM = 0.05, 60.0


class Percentiles(Struct, frozen=True):
    """How long things took: the time within which 50, 95 and 99 of 100 were done, and the longest."""

    p50: timedelta = timedelta(0)
    p95: timedelta = timedelta(0)
    p99: timedelta = timedelta(0)
    max: timedelta = timedelta(0)

    @classmethod
    def of(cls, spans: Iterable[timedelta]) -> Percentiles:
        """By nearest rank: each is one of the spans."""
        ranked = sorted(spans)
        if not ranked:
            return cls()
        return cls(*(ranked[ceil(len(ranked) * share / 100) - 1] for share in (50, 95, 99, 100)))


class Stress(Struct, frozen=True, kw_only=True):
    """What became of the jobs."""

    jobs: int
    completed: int
    failed: int
    """Ended dead, cancelled or expired."""
    lost: int
    """Not final when the patience was over, or not in the store at all."""
    duplicates: int
    """Times a task returned for a job it had returned for before."""
    runs: int
    duration: timedelta
    """From the first enqueue to the last outcome, by the app's clock."""
    latency: Percentiles = Percentiles()
    """Of completed jobs, from when each was enqueued to its end."""
    run_time: Percentiles = Percentiles()
    """Of completed jobs, from the start of the last run to its end."""

    @property
    def rate(self) -> float:
        """Completed jobs a second; 0 if no time has passed, as on a virtual clock."""
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
    """Enqueues the jobs, the n-th with `arguments(n)`, and runs workers until all are final, or patience ends.

    `patience` is in real seconds. A virtual clock is moved along. Unless `check` is False, a job lost or done
    twice is an AssertionError. The rate and the percentiles are by the app's clock, too.
    """
    books, began = _Books(), app.clock.now()
    app.middleware.append(books.around)
    app.events.subscribe(JobStarted, books.started)
    try:
        ids = await _enqueue(app, task, jobs, arguments)
        async with AsyncExitStack() as running:
            for _ in range(workers):
                worker = await running.enter_async_context(app.worker(concurrency=concurrency))
                running.push_async_callback(worker.stop, grace=0)  # all is done, or there is no patience left
            found = await _watch(app, ids, patience)
        result = books.result(ids, found, began)
    finally:
        app.middleware.remove(books.around)
        app.events.unsubscribe(JobStarted, books.started)
    if check and (result.lost or result.duplicates):
        raise AssertionError(f"of {result.jobs} jobs {result.lost} were lost, {result.duplicates} done again: {result}")
    return result


class _Books:
    """Counts what the tasks themselves did, whatever the store says of it."""

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
        well = [(job, job.finished_at) for job in ended if job.state is State.COMPLETED and job.finished_at is not None]
        completed = len(well)
        last = max((job.finished_at for job in ended if job.finished_at is not None), default=began)
        return Stress(
            jobs=len(ids), completed=completed, failed=len(ended) - completed, lost=len(ids) - len(ended),
            duplicates=sum(times - 1 for times in self.returned.values()), runs=self.runs, duration=last - began,
            latency=Percentiles.of(end - job.created_at for job, end in well),
            run_time=Percentiles.of(end - job.started_at for job, end in well if job.started_at),
        )  # fmt: skip


async def _enqueue(
    app: Mainspring, task: Task[Any, Any], jobs: int, arguments: Callable[[int], Sequence[Any]]
) -> list[JobId]:
    ids: dict[JobId, None] = {}  # a job with a key may come twice
    for first in range(0, jobs, BATCH):
        batch = [task.job(*arguments(n)) for n in range(first, min(first + BATCH, jobs))]
        ids |= dict.fromkeys(handle.id for handle in await app.enqueue_many(batch))
    return list(ids)


async def _watch(app: Mainspring, ids: Sequence[JobId], patience: float) -> dict[JobId, Job]:
    """The jobs, once all of them are final or patience is over.

    They are looked at in batches, the next one once all of the last are final: so each is read a few times, however
    many there are.
    """
    loop, clock, span = asyncio.get_running_loop(), app.clock._clock, LOOK
    found, first, end = dict[JobId, Job](), 0, loop.time() + patience
    while first < len(ids):
        found |= await _look(app, ids[first : first + BATCH])
        if loop.time() >= end or all(id in found and found[id].state.final for id in ids[first : first + BATCH]):
            first += BATCH
        elif isinstance(clock, VirtualClock):
            await clock.elapse(seconds=span)
            span = min(2 * span, SELDOM)
        else:
            await clock.sleep(LOOK)
    return found


async def _look(app: Mainspring, ids: Sequence[JobId]) -> dict[JobId, Job]:
    which = Filter(ids=tuple(ids))
    found = await (await app.opened()).jobs(which, now=app.clock.now(), limit=len(ids), brief=True)
    return {job.id: job for job in found}
