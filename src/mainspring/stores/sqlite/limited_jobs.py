"""Follows the jobs with a limit in the SQLite file: one entry for each unfinished one, and the lines that claims read.

An entry is a function of its job, so a count of entries cannot differ from the jobs. A line is there while its group
has room: what waits for the end of a run is not read by claims.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ...clock import micros
from ...ids import JobId, WorkerId
from ...records.job import POISON_SUSPECT_CRASHES, Job, State
from ...records.limit import StoredLimit, limit_name
from ..rows import Row
from ..rules.limits import NEW_GROUP, GroupState, has_room, limit_of, opens_at, turn_of
from .file import LIMITS_VERSION

# mainspring_limited.standing: in a line, running, a poison suspect that is pending, waiting for steps.
IN_LINE, RUNNING, SUSPECT, SUSPENDED = range(4)
# Groups that one claim forgets at most.
MAX_FORGOTTEN_GROUPS = 1000

_encode = msgspec.json.encode
_decode_limit = msgspec.json.Decoder(StoredLimit).decode

_PUT = "INSERT OR REPLACE INTO mainspring_limited VALUES (?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM mainspring_limited WHERE job_id IN (SELECT value FROM json_each(?)) RETURNING limit_key"
_START = """UPDATE mainspring_limited SET standing = 1 WHERE job_id IN (SELECT value FROM json_each(?))
    AND (SELECT state FROM mainspring_jobs WHERE id = job_id) = 'running'"""
_WAKE = """UPDATE mainspring_limited SET standing = 0, run_at = woken.value FROM json_each(?) AS woken
    WHERE job_id = woken.key AND standing = 3 RETURNING limit_key"""
_ADD_GROUPS = """INSERT INTO mainspring_limit_groups SELECT value, 0, 0, NULL FROM json_each(?) WHERE true
    ON CONFLICT (limit_key) DO UPDATE SET ripe_at = NULL WHERE ripe_at IS NOT NULL"""
_STATES = """SELECT limit_key, tat, served_at FROM mainspring_limit_groups
    WHERE limit_key IN (SELECT value FROM json_each(?))"""
_PUT_STATE = "UPDATE mainspring_limit_groups SET tat = ?, served_at = ? WHERE limit_key = ?"
_RUNNING = """SELECT limit_key, count(*) FROM mainspring_limited INDEXED BY mainspring_limited_running
    WHERE standing = 1 AND limit_key IN (SELECT value FROM json_each(?)) GROUP BY 1"""
_RUNNING_OF_LIMIT = """SELECT count(*) FROM mainspring_limited INDEXED BY mainspring_limited_running
    WHERE standing = 1 AND limit_key >= :name || char(10) AND limit_key < :name || char(11)"""
# The first job of each line of these groups, by hops along the index: the cost is the number of lines, not of jobs.
_HOP = """SELECT job_id FROM mainspring_limited WHERE standing = 0 AND {}
    ORDER BY limit_key, standing, queue, task, rank, run_at, job_id LIMIT 1"""
_SAME = "limit_key = head.limit_key"
_HEADS = f"""WITH RECURSIVE head (limit_key, queue, task, rank, run_at, job_id) AS (
        SELECT one.limit_key, one.queue, one.task, one.rank, one.run_at, one.job_id
        FROM json_each(?) AS given CROSS JOIN mainspring_limited AS one
            ON one.job_id = ({_HOP.format("limit_key = given.value")})
        UNION ALL
        SELECT one.limit_key, one.queue, one.task, one.rank, one.run_at, one.job_id
        FROM head CROSS JOIN mainspring_limited AS one ON one.job_id = coalesce(
            ({_HOP.format(f"{_SAME} AND queue = head.queue AND task = head.task AND rank > head.rank")}),
            ({_HOP.format(f"{_SAME} AND queue = head.queue AND task > head.task")}),
            ({_HOP.format(f"{_SAME} AND queue > head.queue")})))
    SELECT limit_key, queue, task, rank, run_at, job_id FROM head"""
_LINES = """SELECT limit_key, queue, task, rank, run_at, job_id, turn, opens_at FROM mainspring_limit_lines
    WHERE limit_key IN (SELECT value FROM json_each(?))"""
_DROP_LINE = "DELETE FROM mainspring_limit_lines WHERE limit_key = ? AND queue = ? AND task = ? AND rank = ?"
_PUT_LINE = "INSERT OR REPLACE INTO mainspring_limit_lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_RIPEN = """UPDATE mainspring_limit_groups SET ripe_at = max(tat, served_at)
    WHERE limit_key IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM mainspring_limited AS job
        WHERE job.limit_key = mainspring_limit_groups.limit_key AND standing < 3)"""
_FORGET = """DELETE FROM mainspring_limit_groups WHERE limit_key IN (
    SELECT limit_key FROM mainspring_limit_groups WHERE ripe_at <= ? ORDER BY ripe_at LIMIT ?)"""


def as_json(values: Collection[str]) -> str:
    return _encode(list(values)).decode()


# entries


def follow_jobs(db: sqlite3.Connection, pairs: Iterable[tuple[Job | None, Job | None]]) -> None:
    """Follows jobs, each as it was and as it is now, that have or had a limit."""
    gone, put, touched = list[JobId](), list[Row](), set[str]()
    for old, new in pairs:
        if old is not None and old.limit_key is not None:
            touched.add(old.limit_key)
        if new is not None and new.limit_key is not None:
            touched.add(new.limit_key)
        if new is not None and (row := entry_of(new)) is not None:
            put.append(row)
        elif old is not None:
            gone.append(old.id)
    if gone:
        touched.update(key for (key,) in db.execute(_DROP, (as_json(gone),)).fetchall())
    if put:
        require_releases_with_limits(db)
        db.executemany(_PUT, put)
    settle_groups(db, touched)


def entry_of(job: Job) -> Row | None:
    """The row of mainspring_limited of a job; None if it has none."""
    if job.limit_key is None:
        return None
    match job.state:
        case State.PENDING:
            standing = IN_LINE if job.crashes < POISON_SUSPECT_CRASHES else SUSPECT
        case State.RUNNING:
            standing = RUNNING
        case State.WAITING:
            standing = SUSPENDED
        case _:
            return None
    return job.id, job.limit_key, standing, job.queue, job.task, -job.priority, micros(job.run_at)


def follow_new(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Adds entries of jobs that were inserted."""
    require_releases_with_limits(db)
    db.executemany(_PUT, rows)
    keys = {row[1] for row in rows}
    db.execute(_ADD_GROUPS, (as_json(keys),))
    _settle_lines(db, keys)


def drop_entries(db: sqlite3.Connection, ids: Collection[JobId]) -> None:
    """Drops the entries of these jobs, if they have any: they have ended, or cannot be decoded."""
    settle_groups(db, {key for (key,) in db.execute(_DROP, (as_json(ids),)).fetchall()})


def wake_entries(db: sqlite3.Connection, woken: str) -> None:
    """Follows jobs that have waited for their steps; `woken` is a JSON object of when they are due."""
    settle_groups(db, {key for (key,) in db.execute(_WAKE, (woken,)).fetchall()})


def start_entries(db: sqlite3.Connection, ids: Collection[JobId], states: Mapping[str, GroupState]) -> None:
    """Follows those of these jobs that a claim has started, and writes the new states of their groups."""
    db.execute(_START, (as_json(ids),))
    db.executemany(_PUT_STATE, [(state.tat, state.served_at, key) for key, state in states.items()])
    _settle_lines(db, states.keys())


# groups


def settle_groups(db: sqlite3.Connection, keys: Collection[str]) -> set[str]:
    """Writes the lines of these groups as their entries and limits say, and which groups have no jobs. Returns those
    whose lines it changed."""
    if not keys:
        return set()
    given = (as_json(keys),)
    db.execute(_ADD_GROUPS, given)
    changed = _settle_lines(db, keys)
    db.execute(_RIPEN, given)
    return changed


def _settle_lines(db: sqlite3.Connection, keys: Collection[str]) -> set[str]:
    """The same for groups that have jobs."""
    given = (as_json(keys),)
    states, running = read_states(db, keys), read_running(db, keys)
    limits = read_limits(db, {limit_name(key) for key in keys})
    lines: dict[Row, Row] = {}
    for key, queue, task, rank, run_at, id in db.execute(_HEADS, given).fetchall():
        limit, state = limit_of(key, limits.get(limit_name(key))), states.get(key, NEW_GROUP)
        if has_room(limit, running.get(key, 0), -1):  # the total is looked at by claims
            line = (key, queue, task, rank)
            turn, opens = turn_of(limit, state, run_at), opens_at(limit, state, run_at)
            lines[line] = (*line, run_at, id, turn, opens)
    known = {row[:4]: row for row in db.execute(_LINES, given).fetchall()}
    gone = [line for line in known if line not in lines]
    put = [row for line, row in lines.items() if known.get(line) != row]
    db.executemany(_DROP_LINE, gone)
    db.executemany(_PUT_LINE, put)
    return {row[0] for row in (*gone, *put)}


def read_states(db: sqlite3.Connection, keys: Collection[str]) -> dict[str, GroupState]:
    return {key: GroupState(tat, served_at) for key, tat, served_at in db.execute(_STATES, (as_json(keys),)).fetchall()}


def read_running(db: sqlite3.Connection, keys: Collection[str]) -> dict[str, int]:
    """The number of running jobs of these groups, without those that have none."""
    return dict(db.execute(_RUNNING, (as_json(keys),)).fetchall())


def running_of_limit(db: sqlite3.Connection, name: str) -> int:
    count: int = db.execute(_RUNNING_OF_LIMIT, {"name": name}).fetchone()[0]
    return count


def read_limits(db: sqlite3.Connection, names: Collection[str] | None = None) -> dict[str, StoredLimit]:
    """These limits, or all, by name."""
    if names is None:
        rows = db.execute("SELECT body FROM mainspring_limits ORDER BY name").fetchall()
    else:
        sql = "SELECT body FROM mainspring_limits WHERE name IN (SELECT value FROM json_each(?))"
        rows = db.execute(sql, (as_json(names),)).fetchall()
    return {limit.name: limit for (body,) in rows for limit in [_decode_limit(body)]}


def forget_idle_groups(db: sqlite3.Connection, now: int) -> None:
    db.execute(_FORGET, (now, MAX_FORGOTTEN_GROUPS))


# releases


def require_releases_with_limits(db: sqlite3.Connection) -> None:
    """Shuts older releases out once a job has a limit: their next beat fails with SchemaMismatch."""
    db.execute("UPDATE mainspring_schema SET oldest = ? WHERE oldest < ?", (LIMITS_VERSION, LIMITS_VERSION))


_OLDER_WORKERS = """SELECT id, CASE WHEN json_valid(info) THEN json_extract(info, '$.schema') END AS known
    FROM mainspring_workers WHERE until > ? AND typeof(known) = 'integer' AND known BETWEEN 1 AND ? ORDER BY id"""


def older_workers(db: sqlite3.Connection, now: int) -> list[WorkerId]:
    """The live workers that would claim jobs with a limit as if they had none."""
    return [id for id, _ in db.execute(_OLDER_WORKERS, (now, LIMITS_VERSION - 1))]
