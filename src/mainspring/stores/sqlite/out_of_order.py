"""Jobs that were stored at another time than their id says, which are few: time leads to all others by their ids."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from ...clock import micros
from ...records.job import Job, NewJob

# Microseconds: so far apart are the making of an id and the storing of its job at most, as a rule.
SLACK = 5_000_000
_LAST = 2**48 - 1

_PUT = """INSERT OR IGNORE INTO mainspring_odd SELECT created_at, id FROM mainspring_jobs
    WHERE id IN (SELECT value FROM json_each(?)) AND created_at = ?"""


def earliest(us: int) -> str:
    """No id of a job that is stored at this instant, or later, comes before; but for the odd ones."""
    return _head(us - SLACK)


def latest(us: int) -> str:
    """No id of a job that is stored at this instant, or before, comes after; but for the odd ones."""
    return _head(us + SLACK) + "~"


def _head(us: int) -> str:
    text = f"{min(max(us // 1000, 0), _LAST):012x}"
    return f"{text[:8]}-{text[8:]}"


def is_odd(id: str, us: int) -> bool:
    return not earliest(us) <= id <= latest(us)


def put(db: sqlite3.Connection, jobs: Sequence[NewJob], us: int) -> None:
    """Writes down those of the new jobs that are odd."""
    first, last = earliest(us), latest(us)
    if strange := [job.id for job in jobs if not first <= job.id <= last]:
        db.execute(_PUT, (msgspec.json.encode(strange).decode(), us))


def drop(db: sqlite3.Connection, job: Job) -> None:
    us = micros(job.created_at)
    if is_odd(job.id, us):
        db.execute("DELETE FROM mainspring_odd WHERE created_at = ? AND job_id = ?", (us, job.id))
