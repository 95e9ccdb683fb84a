"""One look at everything the demo shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from ..app import Mainspring
from ..cli.loading import place
from ..insight.stats import Stats
from ..records.job import Job
from ..records.query import Filter
from ..records.queue import Queue
from ..schedule.record import Schedule
from ..worker.worker import Worker
from .tally import DemoTally

RUNNING = 60
LATEST = datetime.max.replace(tzinfo=UTC)


class Scene(Struct, frozen=True, kw_only=True):
    store: str
    worker: str
    slots: int
    now: datetime
    elapsed: float
    draining: bool
    stats: Stats
    queues: Sequence[Queue]
    running: Sequence[Job]
    schedules: Sequence[Schedule]
    """The one that is due first comes first."""
    tally: DemoTally


async def look(app: Mainspring, worker: Worker, slots: int, tally: DemoTally, *, draining: bool) -> Scene:
    """What the store says now, beside what the events have added up to."""
    stats = await app.stats()
    found = {queue.name: queue for queue in stats.queues}
    names = sorted({task.options.queue for task in app.tasks.values()} | found.keys())
    return Scene(
        store=place(app), worker=worker.id, slots=slots, now=app.clock.now(), elapsed=tally.elapsed,
        draining=draining, stats=stats, queues=[found.get(name) or Queue(name=name) for name in names],
        running=await app.jobs.list(Filter(states=("running",)), limit=RUNNING, newest=False),
        schedules=await timetable(app), tally=tally,
    )  # fmt: skip


async def timetable(app: Mainspring) -> list[Schedule]:
    """Its schedules, the one that is due first on top, then those that wait for something."""
    return sorted(await app.schedules.list(), key=lambda row: (row.due_at or LATEST, row.name))
