"""How the SQLite store enqueues jobs.

Jobs without keys are inserted in chunks, and a job whose id exists is left as it is: this repeats the rule
rules.enqueue.enqueue, and test_twin.py compares the two. A call that has jobs with keys is written by the rule.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ...clock import micros
from ...errors import BadInput, StoreUnavailable
from ...records.job import Enqueued, NewJob
from ...sync import is_sync_caller, run_blocking
from ..rows import new_row
from ..rules import enqueue as rules
from ..rules.finish import older_workers_text
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name, of_new_jobs
from . import file
from .batch import chunks, flatten
from .flow_rows import older_workers
from .handle import SqliteHandle
from .job_rows import INSERT, add_tags, existing_ids, insert_new
from .out_of_order import record_out_of_order
from .tables import fetch, load, write
from .writer_thread import translate_error

T = TypeVar("T")


class SqliteEnqueue(SqliteHandle):
    """The verb enqueue."""

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        us = micros(now)
        self._idle = False
        if within is not None:
            return await self._in_caller_thread(lambda: self._enqueue_within(within, jobs, now, us))
        answers = await self._write(lambda db: _enqueue(db, jobs, now, us))
        self._waiters.wake_all()
        return answers

    async def _in_caller_thread(self, act: Callable[[], T]) -> T:
        """Runs `act` in the caller's own thread, to which its connection belongs."""
        self._check()
        if not is_sync_caller():
            return act()
        with self._clock.outside():
            return await run_blocking(act)

    def _enqueue_within(self, within: Any, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
        from ..caller_connection import driver_connection, is_async, unwrap_proxy

        thing = unwrap_proxy(within)
        db = thing if is_async(thing) else driver_connection(thing).connection
        if not isinstance(db, sqlite3.Connection):
            takes = (
                f"a sqlite3.Connection to {self.path!r} here, or SQLAlchemy's or Django's over one that is not awaited"
            )
            raise BadInput(f"within= takes {takes}; got {type(within).__name__}")
        try:
            file.check_caller_connection(db, self.path)
            return _enqueue(db, jobs, now, us)
        except sqlite3.Error as error:
            raise translate_error(error) from error


def _are_items(jobs: Sequence[NewJob]) -> bool:
    """Whether all jobs are items of maps, or of batches."""
    return all(
        job.step is not None and job.step.index and not (job.unique_key or job.idempotency_key or job.plan)
        for job in jobs
    )


def _enqueue_items(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued] | None:
    """Stores items of maps set-wise. None, having written nothing, if a flow makes no more of them, or one is given
    twice."""
    from ..rules.batch_jobs import number_jobs
    from ..rules.flows import may_add_item

    tables, ids = LoadedTables(flows=True), {job.id for job in jobs}
    # Items of one map are alike.
    maps = {(job.step.flow, job.step.position - job.step.index): job.step for job in jobs if job.step is not None}
    fetch(db, tables, {Name("flow", flow) for flow, _ in maps})
    if len(ids) < len(jobs) or not all(may_add_item(tables, ref) for ref in maps.values()):
        return None
    known = existing_ids(db, ids)
    new = number_jobs(tables, [job for job in jobs if job.id not in known] if known else jobs, now)
    insert_new(db, new, us)
    made = Counter((job.step.flow, job.step.position - job.step.index) for job in new if job.step is not None)
    for which, count in made.items():
        tables.flow_changes.note_made_item(maps[which], now, count)
    write(db, tables)
    return [Enqueued(job.id) for job in jobs]


def _refuse_older_workers(db: sqlite3.Connection, us: int) -> None:
    """Raises StoreUnavailable while workers of a release without limits live: they would claim the jobs at once."""
    from .limited_jobs import older_workers

    if alive := older_workers(db, us):
        raise StoreUnavailable(
            f"workers of an older release are alive, which do not know limits: {', '.join(alive[:5])}; "
            "jobs with a limit are enqueued when they have stopped"
        )


def _enqueue(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if any(job.limit_key is not None for job in jobs):
        _refuse_older_workers(db, us)
    if not any(job.unique_key or job.idempotency_key or job.step or job.plan for job in jobs):
        if any(job.limit_key is not None for job in jobs):
            first_by_id = {job.id: job for job in reversed(jobs)}
            known = existing_ids(db, first_by_id)
            insert_new(db, [job for id, job in reversed(first_by_id.items()) if id not in known], us)
            return [Enqueued(job.id) for job in jobs]
        if any(job.tags for job in jobs):
            first_by_id = {job.id: job for job in reversed(jobs)}
            known = existing_ids(db, first_by_id)
            add_tags(db, [job for job in first_by_id.values() if job.tags and job.id not in known])
        for chunk in chunks(jobs):
            db.execute(INSERT[len(chunk)], flatten([new_row(job, us) for job in chunk]))
        record_out_of_order(db, jobs, us)
        return [Enqueued(job.id) for job in jobs]

    def needs(jobs: Sequence[NewJob], known: KnownValues) -> Iterator[Name]:
        return of_new_jobs(jobs, known, now)

    if _are_items(jobs) and (answers := _enqueue_items(db, jobs, now, us)) is not None:
        return answers
    if any(job.plan is not None for job in jobs) and (alive := older_workers(db, us)):
        raise StoreUnavailable(older_workers_text(alive))
    tables = load(db, [jobs], needs)
    answers = rules.enqueue(tables, jobs, now)
    write(db, tables)
    return answers
