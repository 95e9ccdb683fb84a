"""Jobs of a filter counted by state, with bounded work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..clock import Clock
from ..records.job import FINAL, SHOWN, Shown
from ..records.query import Filter
from ..records.queue import Queue
from ..store import Store

# Jobs of a state that are looked at, and seconds after which no further state is.
MAX_JOBS = 100
MAX_SECONDS = 1.0
# States that the figures of a queue have.
_OF_QUEUE: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running")


class FilteredCounts(Struct, frozen=True, kw_only=True):
    """How many jobs of a filter are in each state."""

    counts: dict[Shown, int]
    """States for which there was no time are left out. A figure of MAX_JOBS may be larger."""
    up_to: int = MAX_JOBS


async def filtered_counts(store: Store, which: Filter, clock: Clock) -> FilteredCounts:
    """What is most asked for comes first: each state that is asked for costs one page of jobs."""
    now, end = clock.now(), clock.monotonic() + MAX_SECONDS
    counts = _by_queue(which, await store.queues(now=now)) if _of_queues_only(which) else {}
    which = replace(which, states=None).by_error()
    counts |= {state: 0 for state in SHOWN if state not in (which.states or SHOWN)}
    if not counts and (few := await _few(store, which, now)) is not None:
        return FilteredCounts(counts=few)
    for state in SHOWN:
        if state in counts:
            continue
        if clock.monotonic() >= end:
            break
        counts[state] = await _count(store, replace(which, states=(state,)), now)
    return FilteredCounts(counts={state: counts[state] for state in SHOWN if state in counts})


def _of_queues_only(which: Filter) -> bool:
    said = [name for name, value in asdict(which).items() if value is not None and name != "states"]
    return said == ["queues"]


def _by_queue(which: Filter, queues: Iterable[Queue]) -> dict[Shown, int]:
    meant = [queue for queue in queues if queue.name in (which.queues or ())]
    return {state: sum(getattr(queue, state) for queue in meant) for state in _OF_QUEUE}


async def _few(store: Store, which: Filter, now: datetime) -> dict[Shown, int] | None:
    """Where few jobs match, one page has them all."""
    found = await store.jobs(which, now=now, limit=MAX_JOBS, brief=True)
    if len(found) == MAX_JOBS:
        return None
    counts = Counter(job.shown(now) for job in found)
    return {state: counts[state] for state in SHOWN}


async def _count(store: Store, which: Filter, now: datetime) -> int:
    # What waits is among the newest jobs, what has ended among the oldest: so a walk along all of them is short.
    newest = not set(which.states or ()) <= FINAL
    return len(await store.jobs(which, now=now, limit=MAX_JOBS, newest=newest, brief=True))
