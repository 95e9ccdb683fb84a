"""Finds, locks and writes rows of the two tables of jobs: unfinished and finished.

Every verb takes its locks in this order: keys, schedules, flows, jobs, circuits. So deadlocks are rare; PostgreSQL ends
one of the transactions then, and the pool runs it again.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ..rows import COLUMNS, NEW_COLUMNS, Row, job_of, new_row, row_of
from ..rules.job_ends import transition_of
from . import schedules
from .pool import BIGINT_ARRAY, SEPARATOR, Session

EXTRA_COLUMNS = "error, tags, schedule"
ALL_COLUMNS = f"{COLUMNS}, {EXTRA_COLUMNS}"

# Number of advisory locks that all keys share: a batch of any size must fit into the server's lock table.
MAX_KEY_LOCKS = 512

JobPair = tuple[Job, Job]
"""A job before and after a change."""


def has_keys(jobs: Sequence[NewJob]) -> bool:
    return any(job.unique_key is not None or job.idempotency_key is not None for job in jobs)


def need_rule(jobs: Sequence[NewJob]) -> bool:
    """Whether one of the jobs has a key or a limit, or belongs to a flow: then the rule enqueues them."""
    return any(
        job.unique_key is not None
        or job.idempotency_key is not None
        or job.step is not None
        or job.plan is not None
        or job.limit_key is not None
        for job in jobs
    )


# locks


async def lock_keys(db: Session, jobs: Iterable[NewJob | Job]) -> None:
    """Locks the keys of these jobs until the commit, so that no other transaction assigns them."""
    keys = {key for job in jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
    await lock_names(db, keys)


async def lock_names(db: Session, names: Iterable[str]) -> None:
    buckets = sorted({zlib.crc32(name.encode()) % MAX_KEY_LOCKS for name in names})
    if buckets:
        sql = f"SELECT pg_advisory_xact_lock($1, bucket::integer) FROM unnest($2::{BIGINT_ARRAY}) AS bucket"
        await db.run(sql, db.url.lock, [*map(str, buckets)])


_LOCK = f"SELECT {COLUMNS} FROM {{}} WHERE id = ANY($1) {{}} ORDER BY id FOR NO KEY UPDATE"
_LOCK_RUNNING = _LOCK.format("mainspring_jobs", "AND state = 'running'")


async def lock_jobs(db: Session, ids: Collection[JobId]) -> dict[JobId, Job]:
    """Locks these jobs until the commit, and returns them by id; a deleted job is left out."""
    found = await lock_unfinished_first(db, ids)
    if rest := [id for id in ids if id not in found]:  # one that was put back to work between the two looks
        found.update(await _lock_in(db, "mainspring_jobs", rest))
    return found


async def _lock_in(db: Session, table: str, ids: Collection[JobId]) -> dict[JobId, Job]:
    return {row[0]: job_of(row) for row in await db.rows(_LOCK.format(table, ""), list(ids))}


async def lock_unfinished_first(db: Session, ids: Collection[JobId]) -> dict[JobId, Job]:
    """Like lock_jobs, for jobs that are nearly always unfinished, and that no other transaction moves."""
    found = await _lock_in(db, "mainspring_jobs", ids)
    if rest := [id for id in ids if id not in found]:
        found.update(await _lock_in(db, "mainspring_finished", rest))
    return found


async def lock_running_jobs(db: Session, ids: Collection[JobId]) -> dict[JobId, Job]:
    """Locks those of these jobs that are running."""
    return {row[0]: job_of(row) for row in await db.rows(_LOCK_RUNNING, list(ids))}


# writing


_NAMES = ALL_COLUMNS.split(", ")
# The columns of a job that has never run.
_NEW_NAMES = (*NEW_COLUMNS.split(", "), "tags", "schedule")
_NUMBERS = {"rank", "run_at", "created_at", "expires_at", "attempt", "crashes", "runs", "started_at", "finished_at"}
# Columns are sent as texts and arrays of texts, the only arrays that the driver knows; tags of jobs differ in number.
_CASTS = {**dict.fromkeys(_NUMBERS, "::bigint"), "tags": "::text[]"}
# Sent as one text, since the driver examines each item of an array. They never have the separator.
_JOINED = {"id", *_NUMBERS}
# Mostly the same in all rows of a batch, and never null: then sent once.
_ALIKE = {"queue", "task", "rank", "state", "run_at", "created_at"}


def _given(names: Sequence[str]) -> str:
    return ", ".join(_column(n, name) + _CASTS.get(name, "") for n, name in enumerate(names, 1))


def _column(n: int, name: str) -> str:
    return f"coalesce(given.{name}, ({_array(n, name)})[1])" if name in _ALIKE else f"given.{name}"


def _array(n: int, name: str) -> str:
    return f"string_to_array(${n}, '{SEPARATOR}', '')" if name in _JOINED else f"${n}::text[]"


def _batch(names: Sequence[str]) -> str:
    """A batch of rows as FROM item, with one parameter per column."""
    arrays = ", ".join(_array(n, name) for n, name in enumerate(names, 1))
    return f"unnest({arrays}) AS given ({', '.join(names)})"


def _insert(table: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {_given(names)} FROM {_batch(names)}"


_INSERT_UNFINISHED, _INSERT_FINISHED = _insert("mainspring_jobs", _NAMES), _insert("mainspring_finished", _NAMES)
_INSERT_LIMITED = _insert("mainspring_limited", (*_NAMES, "limit_key"))
# If an enqueue is repeated just when its job ends, the job may come back and run again; its last end wins.
OVERWRITE = " ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in [*_NAMES[1:], "ending"]
)
_UPDATE = f"""UPDATE mainspring_jobs AS job SET ({ALL_COLUMNS}) = ROW ({_given(_NAMES)}) FROM {_batch(_NAMES)}
    WHERE job.id = given.id AND job.id = ANY(string_to_array($1, '{SEPARATOR}'))"""
INSERT_NEW = _insert("mainspring_jobs", _NEW_NAMES)

Columns = list[Sequence[str | None] | str | None]
_SET_STATE = "UPDATE mainspring_jobs SET state = $2, lease = $3, worker = $4 WHERE id = $1"


def _columns(jobs: Sequence[Job], *, limited: bool = False) -> Columns:
    rows = [
        (*row_of(job), None if job.failure is None else job.failure.kind, array_text(job.tags), job.schedule)
        for job in jobs
    ]
    if limited:
        rows = [(*row, job.limit_key) for row, job in zip(rows, jobs, strict=True)]
        return _texts((*_NAMES, "limit_key"), rows)
    return _texts(_NAMES, rows)


def new_columns(jobs: Iterable[Job]) -> Columns:
    """The parameters of INSERT_NEW for jobs that were just admitted."""
    return _texts(
        _NEW_NAMES, [(*new_row(job, micros(job.created_at)), array_text(job.tags), job.schedule) for job in jobs]
    )


def _texts(names: Sequence[str], rows: Sequence[Row]) -> Columns:
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else ([] for _ in names)
    return [_column_value(name, column) for name, column in zip(names, columns, strict=True)]


def _column_value(name: str, column: Sequence[Any]) -> Sequence[str | None] | str | None:
    """A column of a batch as parameter: None if all of its values are null, one value if all are alike."""
    if column.count(None) == len(column):
        return None
    if name in _ALIKE and column.count(column[0]) == len(column):
        column = column[:1]
    return SEPARATOR.join(["" if value is None else str(value) for value in column]) if name in _JOINED else column


def array_text(texts: Sequence[str] | None) -> str | None:
    """The array in PostgreSQL's text form, since arrays of different lengths cannot be sent as one. None if empty."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts or ())
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}" if texts else None


async def write_jobs(db: Session, pairs: Sequence[JobPair]) -> None:
    """Writes changed jobs, which the caller has locked, into the table of their state.

    Of a job that cannot be decoded only state, lease and worker are written.
    """
    if broken := [new for _, new in pairs if new.unreadable]:
        await db.many(_SET_STATE, [(job.id, job.state.value, job.lease, job.worker) for job in broken])
        pairs = [pair for pair in pairs if not pair[1].unreadable]
    unfinished = [pair for pair in pairs if not (pair[0].state.final or pair[1].state.final)]
    if stay := [new for old, new in unfinished if old.limit_key == new.limit_key]:
        await db.run(_UPDATE, *_columns(stay))
    if other := [new for old, new in unfinished if old.limit_key != new.limit_key]:
        await _delete_rows(db, "mainspring_jobs", other)
        await _insert_unfinished(db, other)
    if ended := [new for old, new in pairs if new.state.final and not old.state.final]:
        await _delete_rows(db, "mainspring_jobs", ended)
        await db.run(_INSERT_FINISHED + OVERWRITE, *_columns(ended))
    if revived := [new for old, new in pairs if old.state.final and not new.state.final]:
        await _delete_rows(db, "mainspring_finished", revived)
        await _insert_unfinished(db, revived)


async def _delete_rows(db: Session, table: str, jobs: Sequence[Job]) -> None:
    await db.run(f"DELETE FROM {table} WHERE id = ANY($1)", [job.id for job in jobs])


async def _insert_unfinished(db: Session, jobs: Sequence[Job]) -> None:
    if plain := [job for job in jobs if job.limit_key is None]:
        await db.run(_INSERT_UNFINISHED, *_columns(plain))
    if limited := [job for job in jobs if job.limit_key is not None]:
        await db.run(_INSERT_LIMITED, *_columns(limited, limited=True))


async def insert_jobs(db: Session, jobs: Sequence[Job]) -> None:
    """Inserts new jobs into the table of their state."""
    new = [job for job in jobs if job.state is State.PENDING and job.limit_key is None]
    if new:
        await db.run(INSERT_NEW, *new_columns(new))
    if len(new) == len(jobs):
        return
    await _insert_unfinished(
        db,
        [job for job in jobs if not job.state.final and (job.state is not State.PENDING or job.limit_key is not None)],
    )
    if final := [job for job in jobs if job.state.final]:
        await db.run(_INSERT_FINISHED, *_columns(final))


async def apply_job_changes(db: Session, pairs: Iterable[JobPair]) -> None:
    """Applies the changes of these jobs to their schedules."""
    await schedules.apply_job_transitions(
        db, [change for old, new in pairs if (change := transition_of(old, new)) is not None]
    )


# One statement for both tables: hardly a job has checkpoints.
_DELETE_TOLD = """WITH checkpoints AS (DELETE FROM mainspring_checkpoints WHERE job_id = ANY($1))
    DELETE FROM mainspring_logs WHERE job_id = ANY($1)"""


async def delete_jobs(db: Session, ids: Sequence[JobId]) -> None:
    """Deletes the jobs with their runs, log lines and checkpoints."""
    await db.run(_DELETE_TOLD, list(ids))
    for table, column in (("executions", "job_id"), ("jobs", "id"), ("finished", "id")):
        await db.run(f"DELETE FROM mainspring_{table} WHERE {column} = ANY($1)", list(ids))


# holders of keys

# One statement, hence one snapshot: a job that ends meanwhile moves from one table to the other.
_HOLDERS = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE unique_key = ANY($1)
    UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE idempotency_key = ANY($2)
    UNION ALL SELECT {COLUMNS} FROM mainspring_done($2)"""
_HOLDERS_AND_JOBS = f"""{_HOLDERS} UNION ALL SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($3)
    UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($3)"""


_JOBS = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE id = ANY($1)
    UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = ANY($1)"""


async def rows_of_jobs(db: Session, ids: Collection[JobId]) -> list[Any]:
    """The jobs of these ids as rows of COLUMNS, in no order."""
    return await db.rows(_JOBS, list(ids))


async def find_jobs(db: Session, keys: Iterable[str], ids: Collection[JobId]) -> list[Job]:
    """The jobs that hold these keys, named as in rules/keys.py, and the jobs of these ids; read without a lock."""
    chosen = list(keys)
    unique, idempotent = ([key[1:] for key in chosen if key[0] == kind] for kind in "ui")
    if not chosen:
        rows = await rows_of_jobs(db, ids) if ids else []
    elif ids:
        rows = await db.rows(_HOLDERS_AND_JOBS, unique, idempotent, list(ids))
    else:
        rows = await db.rows(_HOLDERS, unique, idempotent)
    return [job_of(row) for row in rows]
