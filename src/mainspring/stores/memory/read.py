"""Lists and counts of the memory store, each by a walk over the jobs in the requested states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from ...clock import EPOCH
from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import UNFINISHED, Job, Shown, State
from ...records.query import Cursor, Filter, Sort
from ...records.queue import DeadGroup, Overview, Queue
from ..rules import matches_filter
from .jobs import JobTable


def matching(jobs: JobTable, which: Filter, now: datetime) -> list[Job]:
    """The jobs that match the filter, in order of id."""
    if which.ids is not None:
        ids: Collection[JobId] = set(which.ids)
    elif which.states is not None:
        ids = [id for state in State if _may_be_shown_as(state, which.states) for id in jobs.in_state(state)]
    else:
        ids = jobs.ids()
    return [job for job in jobs.some(sorted(ids)) if matches_filter(job, which, now)]


def _may_be_shown_as(state: State, shown: Collection[Shown]) -> bool:
    """Whether a job stored in this state may be shown in one of those."""
    return state.value in shown or (state is State.PENDING and not _SHOWN_OF_PENDING.isdisjoint(shown))


# The results of Job.shown() for a pending job.
_SHOWN_OF_PENDING: frozenset[Shown] = frozenset({"pending", "scheduled", "retrying", "expired"})


def _jobs_in(jobs: JobTable, states: Collection[State]) -> Iterator[Job]:
    return (job for state in states for job in jobs.some(jobs.in_state(state)))


def page(
    jobs: JobTable, which: Filter, now: datetime, limit: int, after: Cursor | None, newest: bool, sort: Sort
) -> list[Job]:
    found = [(key, job) for job in matching(jobs, which, now) if (key := _key(job, sort)) is not None]
    found.sort(key=lambda pair: pair[0], reverse=newest)
    if after is not None:
        end = (EPOCH if sort == "created" else after.at or EPOCH, after.id)
        found = [(key, job) for key, job in found if (key < end if newest else key > end)]
    return [job for _, job in found[:limit]]


def _key(job: Job, sort: Sort) -> tuple[datetime, JobId] | None:
    """The job's sort key; None if that order does not include it."""
    match sort:
        case "created":
            return EPOCH, job.id
        case "due":
            return (job.run_at, job.id) if job.state is State.PENDING else None
        case _:
            return (job.finished_at or EPOCH, job.id) if job.state.final else None


def overview(jobs: JobTable, paused: Collection[str], circuits: list[Circuit], now: datetime) -> Overview:
    tally: dict[str, Counter[Shown]] = {name: Counter() for name in paused}
    for job in _jobs_in(jobs, UNFINISHED):
        tally.setdefault(job.queue, Counter())[job.shown(now)] += 1
    states = sum(tally.values(), Counter[Shown]())
    states.update({state.value: len(ids) for state in State if state.final and (ids := jobs.in_state(state))})
    return Overview(dict(states), _queues(tally, paused), circuits)


def _queues(tally: Mapping[str, Counter[Shown]], paused: Collection[str]) -> list[Queue]:
    return [
        Queue(
            name=name,
            paused=name in paused,
            pending=count["pending"],
            scheduled=count["scheduled"],
            retrying=count["retrying"],
            running=count["running"],
        )
        for name, count in sorted(tally.items())
    ]


def dead_groups(jobs: JobTable, limit: int) -> list[DeadGroup]:
    groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job in _jobs_in(jobs, [State.DEAD]):
        if job.failure is not None:
            groups[job.task, job.failure.kind].append(job)
    found = [_dead_group(task, error, some) for (task, error), some in groups.items()]
    return sorted(found, key=lambda group: (-group.count, group.task, group.error))[:limit]


def _dead_group(task: str, error: str, jobs: list[Job]) -> DeadGroup:
    newest = max(jobs, key=lambda job: (job.finished_at or EPOCH, job.id))
    last_at = newest.finished_at or EPOCH
    return DeadGroup(task=task, error=error, count=len(jobs), newest=newest.id, last_at=last_at)


def finished_groups(jobs: JobTable) -> list[tuple[State, str]]:
    return sorted({(job.state, job.task) for job in _jobs_in(jobs, [state for state in State if state.final])})


def prunable(jobs: JobTable, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Job]:
    which = Filter(states=(state.value,), tasks=(task,))
    found = page(jobs, which, EPOCH, len(jobs.ids()), None, False, "finished")
    old = [job for job in found[: max(0, len(found) - keep)] if (job.finished_at or before) < before]
    return old[:limit]
