"""How the PostgreSQL store fires schedules: the next revision, its jobs and ticks are written together, or nothing is.

A firing is refused if a schedule has changed since it was planned, or if a key of its jobs is held; so a tick fires
once, however many schedulers plan it. One transaction locks keys and schedules, reads all that the firings need,
decides in memory firing by firing (_FiringBatch), and writes, most often with one statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ...failpoint import failpoint
from ...ids import JobId
from ...records.job import Action, Job, NewJob, State
from ...schedule.record import Fired, Firing, Tick
from ..rules import CANCELLED_BY_SCHEDULE, apply_action, expire_if_due, firing_is_current, held_keys, refusal_of
from ..rules.job_ends import ScheduleBatch, transition_of
from . import schedules
from .enqueue import Admission
from .jobs import INSERT_NEW, Holders, JobPair, counted_schedules_of, find_jobs, lock_jobs, lock_names, new_columns
from .pool import Session


async def fire(db: Session, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Fires in order, inside a transaction. The number of statements does not depend on the number of firings."""
    jobs = [job for firing in firings for job in firing.jobs]
    names = {name for firing in firings for name in (firing.schedule.name, *(read for read, _ in firing.reads))}
    await lock_names(db, _names_to_lock(firings, jobs))
    revisions = await schedules.lock_schedules(db, names)
    holders = await Holders.of_new(db, jobs)
    ending = {id for firing in firings for id in firing.cancel}
    ending |= {job.id for job in holders.all() if job.shown(now) == "expired"}
    ending_jobs: dict[JobId, Job] = {}
    if ending:
        ending_jobs = await _lock_jobs(db, ending, names)
        holders = await Holders.of_new(db, jobs)
    touched = counted_schedules_of(ending_jobs.values()) | {
        job.schedule for job in jobs if job.schedule and job.id in ending
    }
    locked = await schedules.lock_batch(db, touched)
    batch = _FiringBatch(revisions, locked, ending_jobs, Admission(holders, now), now)
    fired = [batch.fire(firing) for firing in firings]
    await batch.write(db)
    return fired


def _names_to_lock(firings: Sequence[Firing], jobs: Iterable[NewJob]) -> set[str]:
    """The keys of the jobs, and the names of new schedules, which have no row to lock yet."""
    keys = {key for job in jobs for key in (job.unique_key, job.idempotency_key) if key}
    return keys | {f"schedule {one.schedule.name}" for one in firings if one.schedule.revision == 1}


async def _lock_jobs(db: Session, ids: Iterable[JobId], held: set[str]) -> dict[JobId, Job]:
    """Locks these jobs until the commit, after their schedules; `held` names the schedules that are locked already."""
    chosen = sorted(ids)
    await schedules.lock_schedules(db, counted_schedules_of(await find_jobs(db, chosen)) - held)
    return {job.id: job for job in await lock_jobs(db, chosen, finished=True)}


class _FiringBatch:
    """Decides for the firings of one call, in order and in memory, and then writes schedules, jobs and ticks."""

    def __init__(
        self,
        revisions: Mapping[str, int],
        schedules: ScheduleBatch,
        ending_jobs: Mapping[JobId, Job],
        admission: Admission,
        now: datetime,
    ) -> None:
        """`ending_jobs` are the locked jobs that the firings may cancel or expire."""
        self._revisions, self._schedules, self._ending_jobs, self._admission = (
            revisions,
            schedules,
            ending_jobs,
            admission,
        )
        self._now = now
        self._ticks: list[tuple[str, Tick]] = []

    def _revision(self, name: str) -> int:
        row = self._schedules.rows.get(name)
        return self._revisions.get(name, 0) if row is None else row.revision

    def fire(self, firing: Firing) -> Fired:
        if not firing_is_current(firing, self._revision):
            return Fired(False)
        if held := held_keys(firing.jobs, self._admission.holders.holder, self._now):
            return Fired(False, held)
        self._schedules.put_schedule(firing.schedule)
        seen = len(self._admission.ended)
        for job in firing.jobs:
            self._admission.admit(job)
        self._follow(self._admission.ended[seen:])
        self._ticks += [(firing.schedule.name, tick) for tick in firing.ticks]
        if firing.cancel:
            reason = CANCELLED_BY_SCHEDULE.format(firing.schedule.name)
            self._follow([pair for id in sorted(firing.cancel) for pair in self._cancel(id, reason)])
        return Fired(True)

    def _cancel(self, id: JobId, reason: str) -> list[JobPair]:
        job = self._admission.current(id) or self._ending_jobs.get(id)
        if job is None or refusal_of(Action.CANCEL, expire_if_due(job, self._now)) is not None:
            return []
        new = apply_action(Action.CANCEL, job, self._now, reason)
        if new is not job:
            self._admission.put(job, new)
        return [(job, new)]

    def _follow(self, pairs: Iterable[JobPair]) -> None:
        self._schedules.apply([change for old, new in pairs if (change := transition_of(old, new)) is not None])

    async def write(self, db: Session) -> None:
        """Writes with one statement, unless other jobs are changed too."""
        made, ticks = self._admission, self._ticks
        if not self._schedules.changed:
            return  # every firing was refused
        failpoint("fire.mid_step")
        if made.changed or any(job.state is not State.PENDING for job in made.new.values()):
            await schedules.write_schedules(db, self._schedules.changed.values())
            await made.write(db)
            await schedules.record_ticks(db, ticks)
        else:
            rows = schedules.schedule_values(self._schedules.changed.values())
            await db.run(_WRITE_ALL, *rows, *new_columns(made.new.values()), *schedules.tick_values(ticks))
            await schedules.trim_ticks(db, ticks)


def _renumber(sql: str, values: int) -> str:
    """The statement with its placeholders numbered after `values` others."""
    return re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + values}", sql)


_SCHEDULE_VALUES, _JOB_VALUES = 6, 14
_WRITE_ALL = f"""WITH schedules AS ({schedules.WRITE}), jobs AS ({_renumber(INSERT_NEW, _SCHEDULE_VALUES)})
    {_renumber(schedules.RECORD, _SCHEDULE_VALUES + _JOB_VALUES)}"""
