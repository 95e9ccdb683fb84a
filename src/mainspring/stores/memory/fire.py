"""How the memory store fires a schedule: its next revision, jobs and ticks are written together, or nothing is.

A firing is refused if a schedule has changed since it was planned, or if a key of its jobs is held; so a tick fires
once, however many schedulers plan it.
"""

from __future__ import annotations

from datetime import datetime

from ...records.job import Action
from ...records.query import Filter
from ...schedule.record import Fired, Firing
from ..rules import CANCELLED_BY_SCHEDULE, firing_is_current, held_keys
from .change import change
from .enqueue import enqueue
from .jobs import JobTable
from .ledger import RunLedger


def fire_one(jobs: JobTable, ledger: RunLedger, firing: Firing, now: datetime) -> Fired:
    schedule = firing.schedule
    if not firing_is_current(firing, jobs.schedules.revision):
        return Fired(False)
    if held := held_keys(firing.jobs, jobs.holder, now):
        return Fired(False, held)
    jobs.schedules.write(schedule)
    enqueue(jobs, firing.jobs, now)
    jobs.schedules.record(schedule.name, firing.ticks)
    if firing.cancel:
        which, reason = Filter(ids=firing.cancel), CANCELLED_BY_SCHEDULE.format(schedule.name)
        change(jobs, ledger, Action.CANCEL, which, now, len(firing.cancel), reason, None, None)
    return Fired(True)
