"""Schedules fired into the PostgreSQL store: the next revision, its jobs and ticks, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...failpoint import failpoint
from ...job import Action, Filter
from ...schedule import Fired, Firing
from ..rules import CANCELLED_BY, standing, taken
from . import series
from .change import change
from .enqueue import enqueue
from .jobs import Holders, lock_names
from .pool import Session


async def fire(db: Session, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Inside a transaction."""
    keys = {key for one in firings for job in one.jobs for key in (job.unique_key, job.idempotency_key) if key}
    # A schedule that is not there yet has no row to lock: its name stands for it.
    names = {f"schedule {one.schedule.name}" for one in firings if one.schedule.revision == 1}
    await lock_names(db, keys | names)
    await series.lock(db, {name for one in firings for name in _names(one)})
    return [await _fire(db, firing, now) for firing in firings]


def _names(firing: Firing) -> set[str]:
    return {firing.schedule.name, *(name for name, _ in firing.reads)}


async def _fire(db: Session, firing: Firing, now: datetime) -> Fired:
    schedule = firing.schedule
    revisions = await series.lock(db, _names(firing))
    if not standing(firing, lambda name: revisions.get(name, 0)):
        return Fired(False)
    holders = await Holders.of(db, firing.jobs)
    if held := taken(firing.jobs, holders.holder, now):
        return Fired(False, held)
    await series.write(db, schedule)
    failpoint("fire.mid_step")
    await enqueue(db, firing.jobs, now)
    await series.record(db, schedule.name, firing.ticks)
    if firing.cancel:
        which, reason = Filter(ids=firing.cancel), CANCELLED_BY.format(schedule.name)
        await change(db, Action.CANCEL, which, now, len(firing.cancel), reason, None, None)
    return Fired(True)
