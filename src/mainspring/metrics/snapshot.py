"""A snapshot of the whole cluster at one moment, read from the store in a few calls."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from msgspec import Struct

from ..clock import EPOCH
from ..counters import MAX_LABEL_SETS
from ..insight.queue_depth import longest_waits
from ..insight.stats import sum_tallies
from ..records.circuit import Circuit
from ..records.job import Shown
from ..records.query import Cursor, Filter
from ..records.queue import Queue
from ..records.tally import Tally
from ..records.worker import WorkerRow
from ..schedule.record import LeaderTerm, Schedule
from ..store import Store

PAGE_SCHEDULES = 1_000
MAX_SCHEDULES = 10_000
PAGE_JOBS = 1_000
MAX_READ_FLOWS = 10_000
_WAITING = Filter(states=("waiting",))


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
    flows: dict[str, float]
    """Flows whose steps are under way, by task. More than MAX_READ_FLOWS are estimated from the newest ones."""
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
        flows=await _open_flows(store, overview.states.get("waiting", 0), now),
        schedules=sorted(schedules, key=lambda one: (one.created_at, one.name)),
    )  # fmt: skip


async def _open_flows(store: Store, waiting: int, now: datetime) -> dict[str, float]:
    """Waiting jobs by task: only flows wait. Without any, nothing is read."""
    found: Counter[str] = Counter()
    after = None
    while waiting and found.total() < MAX_READ_FLOWS:
        page = await store.jobs(_WAITING, now=now, limit=PAGE_JOBS, after=after, newest=True, brief=True)
        found.update(job.task for job in page)
        if len(page) < PAGE_JOBS:
            return dict(found)
        after = Cursor(page[-1].id)
    share = max(1.0, waiting / max(1, found.total()))
    return {task: count * share for task, count in found.items()}


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
