"""A snapshot of the whole cluster at one moment, read from the store in a few calls."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..clock import EPOCH
from ..counters import MAX_LABEL_SETS
from ..insight.queue_depth import longest_waits
from ..insight.stats import sum_tallies
from ..records.circuit import Circuit
from ..records.job import Shown
from ..records.queue import Queue
from ..records.tally import Tally
from ..records.worker import WorkerRow
from ..schedule.record import LeaderTerm, Schedule
from ..store import Store

PAGE_SCHEDULES = 1_000
MAX_SCHEDULES = 10_000


class ClusterSnapshot(Struct, frozen=True, kw_only=True):
    at: datetime
    counts: dict[Shown, int]
    queues: list[Queue]
    oldest: dict[str, float]
    """Seconds for which the oldest waiting job has been due, for each queue with a label of its own."""
    tallies: list[Tally]
    """Tallies of all runs ever, by task."""
    workers: list[WorkerRow]
    leaders: list[LeaderTerm]
    circuits: list[Circuit]
    schedules: list[Schedule]
    """Oldest first, so that a new schedule does not take the label of another."""


async def read_snapshot(store: Store, now: datetime) -> ClusterSnapshot:
    overview = await store.overview(now=now)
    schedules = await _schedules(store)
    return ClusterSnapshot(
        at=now, counts=overview.states, queues=overview.queues,
        oldest=await longest_waits(store, overview.queues[:MAX_LABEL_SETS], now),
        tallies=sum_tallies(await store.tallies("ever", since=EPOCH)), workers=await store.workers(now=now),
        leaders=await store.terms(now=now), circuits=overview.circuits,
        schedules=sorted(schedules, key=lambda one: (one.created_at, one.name)),
    )  # fmt: skip


async def _schedules(store: Store) -> list[Schedule]:
    found: list[Schedule] = []
    after = None
    while len(found) < MAX_SCHEDULES:
        page = await store.schedules(limit=PAGE_SCHEDULES, after=after)
        found += page
        if len(page) < PAGE_SCHEDULES:
            break
        after = page[-1].name
    return found
