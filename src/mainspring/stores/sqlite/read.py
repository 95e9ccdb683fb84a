"""Lists, counts and statistics out of the SQLite store, each by an index that narrows it first."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ...clock import instant, micros
from ...job import Cursor, DeadGroup, Filter, JobId, LogLine, Queue, Shown, Sort, State
from ..rows import COLUMNS, HELD, Row, stored, where
from .claim import GROUPS, PAUSED

# Up to so many jobs that indexes name are looked at one by one; a choice of more is met often on a walk by id, of
# which so many steps are tried.
FEW, SHORT = 2000, 5000

_json = msgspec.json.encode
# In order of id, whatever SQLite may know of the values in other columns.
_BY_ID = "mainspring_jobs INDEXED BY sqlite_autoindex_mainspring_jobs_1"

# Every (state, queue, task) that has finished jobs, by hops along the index.
_HOP = """SELECT n FROM mainspring_jobs INDEXED BY mainspring_jobs_finished WHERE finished_at IS NOT NULL AND {}
    ORDER BY state, queue, task LIMIT 1"""
_FINISHED = f"""WITH RECURSIVE groups (state, queue, task) AS (
        SELECT state, queue, task FROM mainspring_jobs WHERE n = ({_HOP.format("1")})
        UNION ALL
        SELECT job.state, job.queue, job.task FROM groups CROSS JOIN mainspring_jobs job ON job.n = coalesce(
            ({_HOP.format("state = groups.state AND queue = groups.queue AND task > groups.task")}),
            ({_HOP.format("state = groups.state AND queue > groups.queue")}),
            ({_HOP.format("state > groups.state")})))
    SELECT state, queue, task FROM groups"""

Group = tuple[str, dict[str, Any]]
"""A condition that an index answers, and its values."""


def jobs(
    db: sqlite3.Connection,
    which: Filter,
    now: int,
    limit: int,
    after: Cursor | None = None,
    newest: bool = False,
    sort: Sort = "created",
) -> list[Row]:
    condition, values = where(which, now)
    if sort != "created":
        return _merged(db, _GROUPS[sort](db, which), sort, condition, values, limit, after, newest)
    if which.ids is not None or which.key_prefix is not None:
        return _walked(db, "mainspring_jobs", condition, values, limit, after, newest)
    if which.tags:
        # In the order of the tag's index: a page costs the same however many jobs have the tag.
        source = "mainspring_tags CROSS JOIN mainspring_jobs ON id = job_id"
        return _walked(db, source, f"tag = :tag0 AND {condition}", values, limit, after, newest, by="job_id")
    if not _is_narrow(which):
        return _walked(db, "mainspring_jobs", condition, values, limit, after, newest)
    groups = list(_groups(db, which))
    if _count(db, groups) > FEW:
        # Many match: most often a short walk by id meets enough of them.
        near, end = _near(db, after, newest)
        rows = _walked(db, _BY_ID, f"{condition} AND {near}", values | end, limit, after, newest)
        if len(rows) == limit:
            return rows
    return _merged(db, groups, sort, condition, values, limit, after, newest)


def _walked(
    db: sqlite3.Connection, source: str, condition: str, values: dict[str, Any], limit: int, after: Cursor | None,
    newest: bool, by: str = "id",
) -> list[Row]:  # fmt: skip
    """In order of id, until there are enough."""
    values = values | {"after": after and after.id, "limit": limit}
    sql = f"""SELECT {COLUMNS} FROM {source} WHERE {condition} AND {_beyond(after, newest, by)}
        ORDER BY {by} {_way(newest)} LIMIT :limit"""
    rows: list[Row] = db.execute(sql, values).fetchall()
    return rows


def _way(newest: bool) -> str:
    return "DESC" if newest else "ASC"


def _beyond(after: Cursor | None, newest: bool, by: str = "id") -> str:
    return "1" if after is None else f"{by} {'<' if newest else '>'} :after"


def _near(db: sqlite3.Connection, after: Cursor | None, newest: bool) -> tuple[str, dict[str, Any]]:
    """Holds for the next SHORT jobs. Found on the index alone: a query over a part of the table is no part of a walk,
    since SQLite would read that whole part, and sort it, before it gives the first row.
    """
    beyond = f"{_beyond(after, newest)} ORDER BY id {_way(newest)}"
    sql = f"SELECT id FROM {_BY_ID} WHERE {beyond} LIMIT 1 OFFSET {SHORT}"
    end = db.execute(sql, {"after": after and after.id}).fetchone()
    return ("1", {}) if end is None else (f"id {'>' if newest else '<'} :end", {"end": end[0]})


def _is_narrow(which: Filter) -> bool:
    named = (which.states, which.queues, which.tasks, which.workers, which.errors)
    return any(part is not None for part in named)


def _count(db: sqlite3.Connection, groups: Sequence[Group]) -> int:
    """How many rows the groups have, or FEW + 1."""
    count = 0
    for group, values in groups:
        sql = f"SELECT count(*) FROM (SELECT 1 FROM mainspring_jobs WHERE {group} LIMIT :room)"
        count += db.execute(sql, values | {"room": FEW + 1 - count}).fetchone()[0]
        if count > FEW:
            break
    return count


def _groups(db: sqlite3.Connection, which: Filter) -> Iterator[Group]:
    """Conditions, each answered by an index, that together hold for every job that may match."""
    if which.errors is not None:
        for error in which.errors:
            yield "id IN (SELECT job_id FROM mainspring_errors WHERE error = :of_error)", {"of_error": error}
        return
    states = stored(which)
    for state in ("running", "paused", "waiting"):
        if state in states:
            yield f"{HELD} AND state = :held", {"held": state}
    if which.workers is not None:
        return
    yield from _waiting(db, which)
    yield from _ended(db, which)


def _waiting(db: sqlite3.Connection, which: Filter) -> Iterator[Group]:
    if "pending" not in stored(which):
        return
    yield "state = 'pending' AND crashes >= 2", {}
    group = "state = 'pending' AND crashes < 2 AND queue = :of_queue AND task = :of_task AND rank = :of_rank"
    for queue, task, rank, _ in db.execute(GROUPS).fetchall():
        if _named(which, queue, task):
            yield group, {"of_queue": queue, "of_task": task, "of_rank": rank}


def _ended(db: sqlite3.Connection, which: Filter) -> Iterator[Group]:
    states = stored(which)
    group = "finished_at IS NOT NULL AND state = :of_state AND queue = :of_queue AND task = :of_task"
    for state, queue, task in db.execute(_FINISHED).fetchall():
        if state in states and _named(which, queue, task):
            yield group, {"of_state": state, "of_queue": queue, "of_task": task}


def _named(which: Filter, queue: str, task: str) -> bool:
    return (which.queues is None or queue in which.queues) and (which.tasks is None or task in which.tasks)


_COLUMN: dict[Sort, str] = {"created": "id", "due": "run_at", "finished": "finished_at"}
_GROUPS: dict[Sort, Callable[[sqlite3.Connection, Filter], Iterator[Group]]] = {"due": _waiting, "finished": _ended}


def _merged(
    db: sqlite3.Connection, groups: Iterable[Group], sort: Sort, condition: str, values: dict[str, Any], limit: int,
    after: Cursor | None, newest: bool,
) -> list[Row]:  # fmt: skip
    """The first of each group, then the first of all."""
    column, sign, order = _COLUMN[sort], "<" if newest else ">", _way(newest)
    if after is not None:
        values = values | {"at": None if after.at is None else micros(after.at), "after": after.id}
        beyond = f"{column} {sign}= :at AND ({column} {sign} :at OR id {sign} :after)"
        condition += f" AND {_beyond(after, newest) if sort == 'created' else beyond}"
    found: list[tuple[Any, JobId]] = []
    # The plus keeps SQLite from walking by id through all jobs to spare itself a sort.
    first = "+id" if sort == "created" else column
    for group, named in groups:
        sql = f"""SELECT {column}, id FROM mainspring_jobs WHERE {group} AND {condition}
            ORDER BY {first} {order}, +id {order} LIMIT :limit"""
        found += db.execute(sql, values | named | {"limit": limit}).fetchall()
    ids = [id for _, id in sorted(found, reverse=newest)[:limit]]
    rows = {row[0]: row for row in _by_id(db, ids)}
    return [rows[id] for id in ids]


def _by_id(db: sqlite3.Connection, ids: Sequence[JobId]) -> list[Row]:
    sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(?))"
    return db.execute(sql, (_json(ids).decode(),)).fetchall()


# counts

# By queue alone, since the index has them in that order: grouping by what is shown would sort them all.
_READY = """SELECT queue, count(*), sum(run_at > :now), sum(attempt > 0), sum(attempt > 0 AND run_at > :now)
    FROM mainspring_jobs INDEXED BY mainspring_jobs_ready WHERE state = 'pending' AND crashes < 2 GROUP BY queue"""
_SUSPECT = """SELECT queue, 1, 0, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_suspects
    WHERE state = 'pending' AND crashes >= 2 GROUP BY 1"""
_EXPIRED = """SELECT queue, attempt > 0, run_at > :now, -count(*) FROM mainspring_jobs
    INDEXED BY mainspring_jobs_expiring
    WHERE state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now GROUP BY 1, 2, 3"""
_HELD = f"""SELECT queue, state, count(*) FROM mainspring_jobs INDEXED BY mainspring_jobs_held
    WHERE {HELD} GROUP BY 1, 2"""


def unfinished(db: sqlite3.Connection, now: int) -> dict[str, Counter[Shown]]:
    """Unfinished jobs by queue and shown state."""
    found: dict[str, Counter[Shown]] = defaultdict(Counter)
    for queue, count, later, tried, tried_later in db.execute(_READY, {"now": now}):
        scheduled = later - tried_later
        found[queue].update(pending=count - tried - scheduled, scheduled=scheduled, retrying=tried)
    for sql in (_SUSPECT, _EXPIRED):
        for queue, tried, later, count in db.execute(sql, {"now": now}):
            found[queue]["retrying" if tried else "scheduled" if later else "pending"] += count
            if count < 0:
                found[queue]["expired"] -= count
    for queue, state, count in db.execute(_HELD):
        found[queue][state] += count
    return found


def counts(db: sqlite3.Connection, now: int) -> dict[Shown, int]:
    total: Counter[Shown] = Counter()
    for by_state in unfinished(db, now).values():
        total.update(by_state)
    for state, count in db.execute("SELECT state, count FROM mainspring_counts"):
        total[state] += count
    return {state: count for state, count in total.items() if count}


def queues(db: sqlite3.Connection, now: int) -> list[Queue]:
    paused = {name for (name,) in db.execute(PAUSED)}
    found = unfinished(db, now)
    return [
        Queue(
            name=name, paused=name in paused, pending=found[name]["pending"], scheduled=found[name]["scheduled"],
            retrying=found[name]["retrying"], running=found[name]["running"],
        )
        for name in sorted(found.keys() | paused)
    ]  # fmt: skip


_DEAD = """SELECT task, error, count(*) AS size, max(finished_at) AS last FROM mainspring_dead
    GROUP BY task, error ORDER BY size DESC, task, error LIMIT ?"""
_NEWEST = "SELECT max(job_id) FROM mainspring_dead WHERE task = ? AND error = ? AND finished_at = ?"


def dead(db: sqlite3.Connection, limit: int) -> list[DeadGroup]:
    found = []
    for task, error, count, last in db.execute(_DEAD, (limit,)).fetchall():
        newest = db.execute(_NEWEST, (task, error, last)).fetchone()[0]
        found.append(DeadGroup(task=task, error=error, count=count, newest=newest, last_at=instant(last)))
    return found


_LINES = """SELECT run, n, at, level, text FROM mainspring_logs
    WHERE job_id = ? AND (run, n) > (?, ?) ORDER BY run, n LIMIT ?"""


def logs(db: sqlite3.Connection, job_id: JobId, limit: int, after: tuple[int, int]) -> list[LogLine]:
    rows = db.execute(_LINES, (job_id, *after, limit)).fetchall()
    return [LogLine(run, n, instant(at), level, text) for run, n, at, level, text in rows]


# forgetting


def groups(db: sqlite3.Connection) -> list[tuple[State, str]]:
    return sorted({(State(state), task) for state, _, task in db.execute(_FINISHED)})


def surplus(db: sqlite3.Connection, state: State, task: str, keep: int, before: datetime, limit: int) -> list[Row]:
    which = Filter(states=(state.value,), tasks=(task,))
    end = (micros(before), "")
    if keep:
        newest: list[tuple[int, JobId]] = []
        for group, named in _ended(db, which):
            sql = f"""SELECT finished_at, id FROM mainspring_jobs WHERE {group}
                ORDER BY finished_at DESC, id DESC LIMIT :keep"""
            newest += db.execute(sql, named | {"keep": keep}).fetchall()
        newest.sort(reverse=True)
        if len(newest) < keep:
            return []
        end = min(end, newest[keep - 1])
    condition = "(finished_at < :end OR (finished_at = :end AND id < :id))"
    values = {"end": end[0], "id": end[1]}
    return _merged(db, _ended(db, which), "finished", condition, values, limit, None, False)
