"""One look at the store: everything the view shows, in one bounded round of reads."""

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
from ..loading import place
from ..text import safe

RUNNING, DEAD, GROUPS, SCHEDULES = 200, 50, 50, 1000
# Queues asked for their oldest job, those with most pending first.
ASKED = 10


class Scene(Struct, frozen=True, kw_only=True):
    """What the store said, and when."""

    store: str
    now: datetime
    took: float
    """Seconds that the look took."""
    stats: Stats
    waits: Mapping[str, timedelta]
    """How long the oldest due job of a queue has waited, where that was asked."""
    workers: Sequence[WorkerRow]
    running: Sequence[Job]
    """The longest first."""
    dead: Sequence[Job]
    groups: Sequence[DeadGroup]
    ticking: Sequence[Schedule]
    """Those that are active, the next to run first."""


class TopTrouble(Struct, frozen=True):
    """Why there is no scene."""

    store: str
    now: datetime
    reason: str


async def look(app: Mainspring) -> Scene | TopTrouble:
    """Never raises for what the store does: it is told."""
    began, reason = app.clock.monotonic(), ""
    try:
        health = await app.health()
        if health.ready:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                return await _scene(app, began)
        reason = "; ".join(health.reasons)
    except TimeoutError:
        reason = f"the store has not answered within {STORE_TIMEOUT_SECONDS:g} s"
    except MainspringError as error:
        reason = str(error)
    return TopTrouble(place(app), app.clock.now(), safe(reason))


async def _scene(app: Mainspring, began: float) -> Scene:
    stats, workers = await app.stats(), await app.workers.list()
    running = await app.jobs.list(Filter(states=("running",)), limit=RUNNING, newest=False)
    dead, groups = await app.dead.list(limit=DEAD), await app.dead.groups(limit=GROUPS)
    ticking = await _ticking(app)
    waits, now = await _waits(app, stats.queues), app.clock.now()
    return Scene(
        store=place(app), now=now, took=app.clock.monotonic() - began, stats=stats, waits=waits, workers=workers,
        running=sorted(running, key=lambda job: job.started_at or now), dead=dead, groups=groups,
        ticking=ticking,
    )  # fmt: skip


async def _waits(app: Mainspring, queues: Sequence[Queue]) -> dict[str, timedelta]:
    now, waits = app.clock.now(), {}
    busiest = sorted((queue for queue in queues if queue.pending), key=lambda queue: -queue.pending)
    for queue in busiest[:ASKED]:
        # Chosen by time and not by state: then an index finds it, however many are due later.
        for job in await app.jobs.list(Filter(queues=(queue.name,)), limit=1, newest=False, sort="due"):
            waits[queue.name] = max(timedelta(0), now - job.run_at)
    return waits


async def _ticking(app: Mainspring) -> list[Schedule]:
    """Straight from the store: whoever watches writes nothing down, not even what the app declares."""
    rows = await (await app.opened()).schedules(limit=SCHEDULES)
    active = [row for row in rows if row.status == "active"]
    return sorted(active, key=lambda row: (row.due_at is None, row.due_at or row.created_at, row.name))
