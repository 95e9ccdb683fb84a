"""How the SQLite store fires schedules: the next revision, its jobs and ticks are written together, or nothing is.

A firing is refused if a schedule has changed since it was planned, or if a key of its jobs is held; so a tick fires
once, however many schedulers plan it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...failpoint import failpoint
from ...records.job import Action
from ...records.query import Filter
from ...schedule.record import Fired, Firing
from ..rules import CANCELLED_BY_SCHEDULE, firing_is_current, held_keys
from .change import change
from .enqueue import all_new, enqueue, holder, insert_new
from .schedules import record_ticks, revisions, write_schedules


def fire(db: sqlite3.Connection, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    if len(firings) > 1 and _are_independent(firings):
        return _fire_together(db, firings, now)
    return [_fire(db, firing, now) for firing in firings]


def _are_independent(firings: Sequence[Firing]) -> bool:
    """Whether no firing depends on another one of the call, as long as all keys are free."""
    names = {firing.schedule.name for firing in firings}
    read = {name for firing in firings for name, _ in firing.reads}
    return len(names) == len(firings) and not names & read and not any(firing.cancel for firing in firings)


def _fire_together(db: sqlite3.Connection, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Writes all firings with a few statements. If a key is held, fires them one by one instead."""
    known = revisions(db, {name for one in firings for name in (one.schedule.name, *(name for name, _ in one.reads))})
    current = [firing for firing in firings if firing_is_current(firing, lambda name: known.get(name, 0))]
    jobs = [job for firing in current for job in firing.jobs]
    if not all_new(db, jobs):
        return [_fire(db, firing, now) for firing in firings]
    write_schedules(db, [firing.schedule for firing in current])
    failpoint("fire.mid_step")
    insert_new(db, jobs, micros(now))
    record_ticks(db, [(firing.schedule.name, tick) for firing in current for tick in firing.ticks])
    names = {firing.schedule.name for firing in current}
    return [Fired(firing.schedule.name in names) for firing in firings]


def _fire(db: sqlite3.Connection, firing: Firing, now: datetime) -> Fired:
    schedule = firing.schedule
    known = revisions(db, {schedule.name, *(name for name, _ in firing.reads)})
    if not firing_is_current(firing, lambda name: known.get(name, 0)):
        return Fired(False)
    if held := held_keys(firing.jobs, lambda job: holder(db, job), now):
        return Fired(False, held)
    write_schedules(db, [schedule])
    failpoint("fire.mid_step")
    enqueue(db, firing.jobs, now, micros(now))
    record_ticks(db, [(schedule.name, tick) for tick in firing.ticks])
    if firing.cancel:
        which, reason = Filter(ids=firing.cancel), CANCELLED_BY_SCHEDULE.format(schedule.name)
        change(db, Action.CANCEL, which, now, len(firing.cancel), reason, None, None)
    return Fired(True)
