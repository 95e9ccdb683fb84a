"""TopSnapshot: everything that the view shows, read in one bounded round."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from ...app import Mainspring
from ...errors import MainspringError
from ...health import STORE_TIMEOUT_SECONDS
from ...insight.stats import Stats
from ...records.job import Job
from ...records.query import Filter
from ...records.queue import DeadGroup, Queue
from ...records.worker import WorkerRow
from ...schedule.record import Schedule
from ..app_loader import store_name
from ..messages import safe

MAX_RUNNING_JOBS = 200
MAX_DEAD_JOBS = 50
MAX_DEAD_GROUPS = 50
MAX_SCHEDULES = 1000
# Queues whose oldest job is read, those with most pending jobs first.
MAX_WAITS = 10


class TopSnapshot(Struct, frozen=True, kw_only=True):
    """The state of the store at an instant."""

    store: str
    now: datetime
    took: float
    """Seconds that reading took."""
    stats: Stats
    waits: Mapping[str, timedelta]
    """How long the oldest due job of a queue has waited, for the busiest queues."""
    workers: Sequence[WorkerRow]
    running: Sequence[Job]
    """The longest run first."""
    dead: Sequence[Job]
    groups: Sequence[DeadGroup]
    schedules: Sequence[Schedule]
    """The active ones, the next to run first."""

    @property
    def running_count(self) -> int:
        """Number of running jobs: as listed, since the statistics were read at another moment."""
        listed = len(self.running)
        return listed if listed < MAX_RUNNING_JOBS else max(listed, self.stats.running)


class SnapshotFailure(Struct, frozen=True):
    """The reason why there is no snapshot."""

    store: str
    now: datetime
    reason: str


async def take_snapshot(app: Mainspring) -> TopSnapshot | SnapshotFailure:
    """Reads a snapshot. An error of the store is returned, not raised."""
    started, reason = app.clock.monotonic(), ""
    try:
        health = await app.health()
        if health.ready:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                return await _read(app, started)
        reason = "; ".join(health.reasons)
    except TimeoutError:
        reason = f"the store has not answered within {STORE_TIMEOUT_SECONDS:g} s"
    except MainspringError as error:
        reason = str(error)
    return SnapshotFailure(store_name(app), app.clock.now(), safe(reason))


async def _read(app: Mainspring, started: float) -> TopSnapshot:
    running = await app.jobs.list(Filter(states=("running",)), limit=MAX_RUNNING_JOBS, newest=False)
    stats, workers = await app.stats(), await app.workers.list()
    dead, groups = await app.dead.list(limit=MAX_DEAD_JOBS), await app.dead.groups(limit=MAX_DEAD_GROUPS)
    schedules = await _active_schedules(app)
    waits, now = await _waits(app, stats.queues), app.clock.now()
    return TopSnapshot(
        store=store_name(app),
        now=now,
        took=app.clock.monotonic() - started,
        stats=stats,
        waits=waits,
        workers=workers,
        running=sorted(running, key=lambda job: job.started_at or now),
        dead=dead,
        groups=groups,
        schedules=schedules,
    )


async def _waits(app: Mainspring, queues: Sequence[Queue]) -> dict[str, timedelta]:
    now, waits = app.clock.now(), {}
    busiest = sorted((queue for queue in queues if queue.pending), key=lambda queue: -queue.pending)
    for queue in busiest[:MAX_WAITS]:
        # Sorted by due time without a filter by state: an index finds it, however many jobs are due later.
        for job in await app.jobs.list(Filter(queues=(queue.name,)), limit=1, newest=False, sort="due"):
            waits[queue.name] = max(timedelta(0), now - job.run_at)
    return waits


async def _active_schedules(app: Mainspring) -> list[Schedule]:
    """Read directly from the store: app.schedules would write declared schedules, and a view writes nothing."""
    rows = await (await app.connect()).schedules(limit=MAX_SCHEDULES)
    active = [row for row in rows if row.status == "active"]
    return sorted(active, key=lambda row: (row.due_at is None, row.due_at or row.created_at, row.name))
