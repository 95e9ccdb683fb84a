"""Schedules fired into the SQLite store: the next revision, its jobs and ticks, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...failpoint import failpoint
from ...job import Action, Filter
from ...schedule import Fired, Firing
from ..rules import CANCELLED_BY, standing, taken
from .change import change
from .enqueue import enqueue, holder
from .series import record, revision, write


def fire(db: sqlite3.Connection, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    return [_fire(db, firing, now) for firing in firings]


def _fire(db: sqlite3.Connection, firing: Firing, now: datetime) -> Fired:
    schedule = firing.schedule
    if not standing(firing, lambda name: revision(db, name)):
        return Fired(False)
    if held := taken(firing.jobs, lambda job: holder(db, job), now):
        return Fired(False, held)
    write(db, schedule)
    failpoint("fire.mid_step")
    enqueue(db, firing.jobs, now, micros(now))
    record(db, schedule.name, firing.ticks)
    if firing.cancel:
        which, reason = Filter(ids=firing.cancel), CANCELLED_BY.format(schedule.name)
        change(db, Action.CANCEL, which, now, len(firing.cancel), reason, None, None)
    return Fired(True)
