"""How the SQLite store fires schedules: the next revision, its jobs and ticks are written together, or nothing is.

Firings that are independent of each other, with new ids and free keys, are written with a few statements: this repeats
the rule rules.fire.fire_one, and test_twin.py compares the two. All others are written by the rule.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from ...clock import micros
from ...failpoint import failpoint
from ...records.job import NewJob
from ...schedule.record import Fired, Firing
from ..rules.fire import fire_one, firing_is_current
from ..rules.read_sets import KnownValues, Name, of_firing
from .handle import SqliteHandle
from .job_rows import insert_new
from .schedules import record_ticks, revisions, write_schedules
from .tables import load, write

_encode = msgspec.json.Encoder().encode


class SqliteFire(SqliteHandle):
    """The verb fire."""

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._write(lambda db: _fire(db, firings, now))
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._waiters.wake_all()
        return fired


def _fire(db: sqlite3.Connection, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    if _are_independent(firings) and (fired := _fire_together(db, firings, now)) is not None:
        return fired

    def needs(firing: Firing, known: KnownValues) -> Iterator[Name]:
        return of_firing(firing, known, now)

    tables = load(db, firings, needs)
    fired = [fire_one(tables, firing, now) for firing in firings]
    write(db, tables, "fire.mid_step")
    return fired


def _are_independent(firings: Sequence[Firing]) -> bool:
    """Whether no firing depends on another one of the call, as long as all keys are free."""
    names = {firing.schedule.name for firing in firings}
    read = {name for firing in firings for name, _ in firing.reads}
    return len(names) == len(firings) and not names & read and not any(firing.cancel for firing in firings)


def _fire_together(db: sqlite3.Connection, firings: Sequence[Firing], now: datetime) -> list[Fired] | None:
    """Writes all firings with a few statements. None, having written nothing, if an id or a key is taken."""
    known = revisions(db, {name for one in firings for name in (one.schedule.name, *(name for name, _ in one.reads))})
    current = [firing for firing in firings if firing_is_current(firing, lambda name: known.get(name, 0))]
    jobs = [job for firing in current for job in firing.jobs]
    if not _all_new(db, jobs):
        return None
    write_schedules(db, [firing.schedule for firing in current])
    failpoint("fire.mid_step")
    insert_new(db, jobs, micros(now))
    record_ticks(db, [(firing.schedule.name, tick) for firing in current for tick in firing.ticks])
    names = {firing.schedule.name for firing in current}
    return [Fired(firing.schedule.name in names) for firing in firings]


_CONFLICTS = """SELECT id FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(:ids))
    UNION ALL SELECT :held FROM mainspring_jobs WHERE unique_key IN (SELECT value FROM json_each(:unique))
        AND state IN ('pending', 'running', 'waiting', 'paused')
    UNION ALL SELECT :held FROM mainspring_jobs WHERE idempotency_key IN (SELECT value FROM json_each(:idempotent))
        AND state IN ('pending', 'running', 'waiting', 'paused', 'completed') LIMIT 1"""


def _all_new(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> bool:
    """Whether none of these jobs exists and none of their keys is held, in the store or twice in the list."""
    given = {
        "ids": [job.id for job in jobs],
        "unique": [job.unique_key for job in jobs if job.unique_key is not None],
        "idempotent": [job.idempotency_key for job in jobs if job.idempotency_key is not None],
    }
    if any(len(set(values)) < len(values) for values in given.values()):
        return False
    texts = {name: _encode(values).decode() for name, values in given.items()}
    return db.execute(_CONFLICTS, texts | {"held": ""}).fetchone() is None
