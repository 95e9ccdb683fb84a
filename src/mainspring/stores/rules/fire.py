"""The rule of fire: a schedule's next revision, its jobs and its ticks are written together, or nothing is.

A firing is refused if a schedule has changed since it was planned, or if a key of its jobs is held; so a tick fires
once, however many schedulers plan it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ...records.job import Action, Job, NewJob
from ...schedule.record import Fired, Firing
from .change import change
from .enqueue import enqueue
from .tables import Tables

# The cancel reason of a run that makes room for the next run of its schedule.
CANCELLED_BY_SCHEDULE = "schedule {!r} has come to its next tick"


def fire_one(tables: Tables, firing: Firing, now: datetime) -> Fired:
    schedule = firing.schedule
    if not firing_is_current(firing, tables.revision):
        return Fired(False)
    if held := held_keys(firing.jobs, tables.holder, now):
        return Fired(False, held)
    tables.put_schedule(schedule)
    enqueue(tables, firing.jobs, now)
    tables.record_ticks(schedule.name, firing.ticks)
    if firing.cancel:
        cancelled = [job for id in sorted(set(firing.cancel)) if (job := tables.job(id)) is not None]
        change(tables, Action.CANCEL, cancelled, now, CANCELLED_BY_SCHEDULE.format(schedule.name))
    return Fired(True)


def firing_is_current(firing: Firing, revision: Callable[[str], int]) -> bool:
    """Whether the schedules still have the revisions the firing was planned with; a missing schedule has revision 0."""
    if revision(firing.schedule.name) != firing.schedule.revision - 1:
        return False
    return all(revision(name) == expected for name, expected in firing.reads) if firing.reads else True


def held_keys(
    jobs: Sequence[NewJob], holder: Callable[[NewJob], tuple[str | None, Job | None]], now: datetime
) -> tuple[str, ...]:
    """The keys of these jobs that another job holds, in the store or earlier in the list."""
    keys: list[str] = []
    own: set[tuple[str, str]] = set()
    for job in jobs:
        pairs = (("unique", job.unique_key), ("idempotent", job.idempotency_key))
        mine = {(kind, key) for kind, key in pairs if key is not None}
        key, held = holder(job)
        if key is not None and held is not None and held.shown(now) != "expired":
            keys.append(key)
        else:
            keys += sorted(key for _, key in mine & own)
        own |= mine
    return tuple(keys)
