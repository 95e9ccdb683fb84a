"""Counts of a filter's jobs by state, with bounded work."""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from datetime import datetime
from typing import cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..clock import Clock
from ..records.job import FINAL, SHOWN, Shown
from ..records.query import Filter
from ..store import CountingStore, Store

# Jobs counted per state, and seconds after which no finished state is counted.
MAX_COUNTED_JOBS = 100
MAX_SECONDS = 1.0
_UNFINISHED_SHOWN: tuple[Shown, ...] = tuple(state for state in SHOWN if state not in FINAL)
_FINAL_SHOWN: tuple[Shown, ...] = tuple(state for state in SHOWN if state in FINAL)
# States whose counts a queue has.
_QUEUE_STATES: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running")


class FilteredCounts(Struct, frozen=True, kw_only=True):
    """The number of a filter's jobs in each state."""

    counts: dict[Shown, int]
    """States for which there was no time are missing. A count equal to `up_to` is a lower bound."""
    up_to: int = MAX_COUNTED_JOBS


async def filtered_counts(store: Store, which: Filter, clock: Clock) -> FilteredCounts:
    """Counts in one call of the store, or else by a page of jobs for each state: first of all unfinished states."""
    now, end = clock.now(), clock.monotonic() + MAX_SECONDS
    wanted = replace(which, states=None).by_error()
    counts: dict[Shown, int] = {state: 0 for state in SHOWN if state not in (wanted.states or SHOWN)}
    if store.capabilities.counts:
        by_queue = _QUEUE_STATES if _of_queues_only(which) else ()
        rest = tuple(state for state in SHOWN if state not in counts and state not in by_queue)
        counting = cast(CountingStore, store).count_by_state(
            replace(wanted, states=rest), now=now, up_to=MAX_COUNTED_JOBS
        )
        # Together: a store with several connections counts the queue's jobs meanwhile.
        for found in await gather(_by_queue(store, which, now), counting):
            counts |= found
        return FilteredCounts(counts={state: counts[state] for state in SHOWN if state in counts})
    counts |= await _by_queue(store, which, now)
    which = wanted
    if not counts:
        counts = await _count_few(store, which, now)
    for group in (_UNFINISHED_SHOWN, _FINAL_SHOWN):
        left: list[Shown] = [state for state in group if state not in counts]
        if clock.monotonic() >= end:
            break
        each = await gather(*(_count(store, replace(which, states=(state,)), now) for state in left))
        counts |= dict(zip(left, each, strict=True))
    return FilteredCounts(counts={state: counts[state] for state in SHOWN if state in counts})


def _of_queues_only(which: Filter) -> bool:
    given = [name for name, value in asdict(which).items() if value is not None and name != "states"]
    return given == ["queues"]


async def _by_queue(store: Store, which: Filter, now: datetime) -> dict[Shown, int]:
    """The counts that the queues have, if the filter names nothing but queues."""
    if not _of_queues_only(which):
        return {}
    queues = (await store.overview(now=now, finished=False)).queues
    matching = [queue for queue in queues if queue.name in (which.queues or ())]
    return {state: sum(getattr(queue, state) for queue in matching) for state in _QUEUE_STATES}


async def _count_few(store: Store, which: Filter, now: datetime) -> dict[Shown, int]:
    """All counts if the matching jobs fit on one page; those of unfinished jobs if these seem to; else none."""
    for states in (None, _UNFINISHED_SHOWN):
        which = replace(which, states=states)
        found = await store.jobs(which, now=now, limit=MAX_COUNTED_JOBS, newest=True, brief=True)
        counts = Counter(job.shown(now) for job in found)
        if len(found) < MAX_COUNTED_JOBS:
            return {state: counts[state] for state in states or SHOWN}
        if FINAL.isdisjoint(counts):  # the newest jobs are unfinished, so there are too many
            break
    return {}


async def _count(store: Store, which: Filter, now: datetime) -> int:
    # Unfinished jobs are among the newest, finished ones among the oldest.
    newest = not set(which.states or ()) <= FINAL
    return len(await store.jobs(which, now=now, limit=MAX_COUNTED_JOBS, newest=newest, sort="created", brief=True))
