"""How the PostgreSQL store fires schedules: the next revision, its jobs and ticks are written together, or nothing is.

Firings that are independent of each other, with new ids and free keys, are written with one statement: this repeats the
rule rules.fire.fire_one, and test_twin.py compares the two. All others are written by the rule. The number of
statements does not depend on the number of firings in either case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from ...failpoint import failpoint
from ...records.job import NewJob
from ...schedule.record import Fired, Firing
from ..rules import to_job
from ..rules.fire import fire_one, firing_is_current
from ..rules.keys import keys_of
from ..rules.read_sets import KnownValues, Name, of_firing
from . import schedules
from .handle import PostgresHandle
from .jobs import INSERT_NEW, find_jobs, lock_names, new_columns
from .pool import Session
from .tables import load, write


class PostgresFire(PostgresHandle):
    """The verb `fire`."""

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._transact(lambda db: _fire(db, firings, now))
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._announce("new", "final")
        return fired


async def _fire(db: Session, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Fires in order, inside a transaction."""
    await lock_names(db, _names_to_lock(firings, [job for firing in firings for job in firing.jobs]))
    if _are_independent(firings) and (fired := await _fire_together(db, firings, now)) is not None:
        return fired

    def needs(firing: Firing, known: KnownValues) -> Iterator[Name]:
        return of_firing(firing, known, now)

    tables = await load(db, firings, needs, keys_locked=True)
    fired = [fire_one(tables, firing, now) for firing in firings]
    await write(db, tables, "fire.mid_step")
    return fired


def _names_to_lock(firings: Sequence[Firing], jobs: Iterable[NewJob]) -> set[str]:
    """The keys of the jobs, and the names of new schedules, which have no row to lock yet."""
    keys = {key for job in jobs for key in (job.unique_key, job.idempotency_key) if key}
    return keys | {f"schedule {one.schedule.name}" for one in firings if one.schedule.revision == 1}


def _are_independent(firings: Sequence[Firing]) -> bool:
    """Whether no firing depends on another one of the call, as long as all keys are free."""
    names = {firing.schedule.name for firing in firings}
    read = {name for firing in firings for name, _ in firing.reads}
    if any(firing.cancel or any(job.step or job.plan or job.limit_key for job in firing.jobs) for firing in firings):
        return False
    return len(names) == len(firings) and not names & read


async def _fire_together(db: Session, firings: Sequence[Firing], now: datetime) -> list[Fired] | None:
    """Writes all firings with one statement. None, having written nothing, if an id or a key is taken."""
    names = {name for firing in firings for name in (firing.schedule.name, *(read for read, _ in firing.reads))}
    known = await schedules.lock_schedules(db, names)
    current = [firing for firing in firings if firing_is_current(firing, lambda name: known.get(name, 0))]
    jobs = [job for firing in current for job in firing.jobs]
    if not await _all_new(db, jobs):
        return None
    if current:
        failpoint("fire.mid_step")
        ticks = [(firing.schedule.name, tick) for firing in current for tick in firing.ticks]
        rows = schedules.schedule_values([firing.schedule for firing in current])
        await db.run(_WRITE_ALL, *rows, *new_columns([to_job(job, now) for job in jobs]), *schedules.tick_values(ticks))
        await schedules.trim_ticks(db, ticks)
    written = {firing.schedule.name for firing in current}
    return [Fired(firing.schedule.name in written) for firing in firings]


async def _all_new(db: Session, jobs: Sequence[NewJob]) -> bool:
    """Whether none of these jobs exists and none of their keys is held, in the store or twice in the list."""
    ids, keys = [job.id for job in jobs], [key for job in jobs for key in keys_of(job)]
    if len(set(ids)) < len(ids) or len(set(keys)) < len(keys):
        return False
    return not ids or not await find_jobs(db, keys, ids)


def _renumber(sql: str, values: int) -> str:
    """The statement with its placeholders numbered after `values` others."""
    return re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + values}", sql)


_SCHEDULE_VALUES, _JOB_VALUES = 6, 14
_WRITE_ALL = f"""WITH schedules AS ({schedules.WRITE}), jobs AS ({_renumber(INSERT_NEW, _SCHEDULE_VALUES)})
    {_renumber(schedules.RECORD, _SCHEDULE_VALUES + _JOB_VALUES)}"""
