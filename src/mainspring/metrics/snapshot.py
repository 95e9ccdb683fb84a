"""What the store knows of the whole cluster at one moment, read in a few calls."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..clock import EPOCH
from ..counters import MAX_LABEL_SETS
from ..insight.queue_depth import oldest
from ..insight.stats import summed
from ..records.circuit import Circuit
from ..records.job import Shown
from ..records.queue import Queue
from ..records.tally import Tally
from ..records.worker import WorkerRow
from ..schedule.record import LeaderTerm, Schedule
from ..store import Store

# So many schedules are read at a time, and at most.
PAGE, MOST_SCHEDULES = 1_000, 10_000


class ClusterSnapshot(Struct, frozen=True, kw_only=True):
    at: datetime
    counts: dict[Shown, int]
    queues: list[Queue]
    oldest: dict[str, float]
    """By queue that has a label of its own: for how many seconds the job that waits longest has been due."""
    tallies: list[Tally]
    """Of all runs ever, by task."""
    workers: list[WorkerRow]
    leaders: list[LeaderTerm]
    circuits: list[Circuit]
    schedules: list[Schedule]
    """Oldest first, so that a new one does not change who has a label of its own."""


async def read(store: Store, now: datetime) -> ClusterSnapshot:
    queues = await store.queues(now=now)
    schedules = await _schedules(store)
    return ClusterSnapshot(
        at=now, counts=await store.counts(now=now), queues=queues,
        oldest=await oldest(store, queues[:MAX_LABEL_SETS], now),
        tallies=summed(await store.tallies("ever", since=EPOCH)), workers=await store.workers(now=now),
        leaders=await store.leaders(now=now), circuits=await store.circuits(),
        schedules=sorted(schedules, key=lambda one: (one.created_at, one.name)),
    )  # fmt: skip


async def _schedules(store: Store) -> list[Schedule]:
    found: list[Schedule] = []
    after = None
    while len(found) < MOST_SCHEDULES:
        page = await store.schedules(limit=PAGE, after=after)
        found += page
        if len(page) < PAGE:
            break
        after = page[-1].name
    return found
