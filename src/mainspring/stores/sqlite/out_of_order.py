"""The few jobs that were stored at another time than their id says; all others are found by time along their ids."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from ...clock import micros
from ...records.job import Job, NewJob

# A job whose id is further from its time of storage than this is out of order.
MAX_SKEW_MICROS = 5_000_000
# The last millisecond that an id can hold.
_MAX_MILLIS = 2**48 - 1

_PUT = """INSERT OR IGNORE INTO mainspring_odd SELECT created_at, id FROM mainspring_jobs
    WHERE id IN (SELECT value FROM json_each(?)) AND created_at = ?"""


def earliest_id(us: int) -> str:
    """A lower bound of the ids of jobs stored at `us` or later, except those out of order."""
    return _id_prefix(us - MAX_SKEW_MICROS)


def latest_id(us: int) -> str:
    """An upper bound of the ids of jobs stored at `us` or earlier, except those out of order."""
    return _id_prefix(us + MAX_SKEW_MICROS) + "~"


def _id_prefix(us: int) -> str:
    text = f"{min(max(us // 1000, 0), _MAX_MILLIS):012x}"
    return f"{text[:8]}-{text[8:]}"


def is_out_of_order(id: str, us: int) -> bool:
    return not earliest_id(us) <= id <= latest_id(us)


def record_out_of_order(db: sqlite3.Connection, jobs: Sequence[NewJob | Job], us: int) -> None:
    """Records those of the new jobs that are out of order."""
    first, last = earliest_id(us), latest_id(us)
    if ids := [job.id for job in jobs if not first <= job.id <= last]:
        db.execute(_PUT, (msgspec.json.encode(ids).decode(), us))


def record_any_out_of_order(db: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """The same for jobs that were created at different times."""
    times = {micros(job.created_at) for job in jobs}
    first, last = earliest_id(max(times)), latest_id(min(times))
    if odd := [job for job in jobs if not first <= job.id <= last]:
        for us in {micros(job.created_at) for job in odd}:
            record_out_of_order(db, [job for job in odd if micros(job.created_at) == us], us)


def drop_out_of_order(db: sqlite3.Connection, job: Job) -> None:
    us = micros(job.created_at)
    if is_out_of_order(job.id, us):
        db.execute("DELETE FROM mainspring_odd WHERE created_at = ? AND job_id = ?", (us, job.id))
