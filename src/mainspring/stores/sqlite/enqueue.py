"""How the SQLite store enqueues jobs.

Jobs without keys are inserted in chunks, and a job whose id exists is left as it is: this repeats the rule
rules.enqueue.enqueue, and test_twin.py compares the two. A call that has jobs with keys is written by the rule.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime

from ...records.job import Enqueued, NewJob
from ..rows import new_row
from ..rules import enqueue as rules
from ..rules.read_sets import KnownValues, Name, of_new_jobs
from . import out_of_order
from .batch import chunks, flatten
from .job_rows import INSERT, add_tags, existing_ids
from .tables import load, write


def enqueue(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if all(job.unique_key is None and job.idempotency_key is None for job in jobs):
        if any(job.tags for job in jobs):
            first_by_id = {job.id: job for job in reversed(jobs)}
            known = existing_ids(db, first_by_id)
            add_tags(db, [job for job in first_by_id.values() if job.tags and job.id not in known])
        for chunk in chunks(jobs):
            db.execute(INSERT[len(chunk)], flatten([new_row(job, us) for job in chunk]))
        out_of_order.record(db, jobs, us)
        return [Enqueued(job.id) for job in jobs]

    def needs(jobs: Sequence[NewJob], known: KnownValues) -> Iterator[Name]:
        return of_new_jobs(jobs, known, now)

    tables = load(db, [jobs], needs)
    answers = rules.enqueue(tables, jobs, now)
    write(db, tables)
    return answers
