"""How the SQLite store claims jobs for a worker, and finds the running jobs whose worker is silent.

A claim is one write transaction. It expires overdue jobs, then takes, up to its limits of jobs and bytes: one probe for
each half-open circuit, one suspect (a job that crashed its workers) if the worker runs none, then due jobs in order of
rank, run_at and id. All of them become running under one new lease, which fences their outcomes (see finish.py).
It repeats the rules rules.claim.claim and expire_due, and test_twin.py compares them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ...bounds import CLAIM_BYTES
from ...clock import instant, micros, nearest_instant
from ...failpoint import failpoint
from ...ids import JobId, Lease, WorkerId
from ...records.job import UNREADABLE, Job, State
from ...records.unreadable import decoded
from ...records.worker import Claim
from ..ranks import MAX_PLAIN_RANK, plain_rank
from ..rows import CLAIMED_COLUMNS, COLUMNS, HELD_INDEX_SQL, Row, claimed_job_of, counted_schedule_of, job_of, step_of
from ..rules.job_ends import JobEnd
from ..rules.loaded import LoadedTables
from .handle import SqliteHandle
from .job_rows import add_to_counts
from .lenient import fetch_rows, fetch_rows_leniently, is_not_utf8_error, require_text
from .limited_jobs import drop_entries, forget_idle_groups
from .lists import mark_undecodable
from .queues import PAUSED_QUEUES
from .schedules import apply_job_transitions
from .tables import write

if TYPE_CHECKING:
    from .limited_claim import LimitedGroups

# Jobs that one claim expires at most: a flood of them must not hold the write lock.
MAX_EXPIRED_JOBS = 1000

_encode = msgspec.json.encode
_decode = msgspec.json.decode

# Whether the worker's lease has not lapsed (else no row), and whether groups of limits can be forgotten.
ALIVE = """SELECT EXISTS (SELECT 1 FROM mainspring_limit_groups WHERE ripe_at <= :now)
    FROM mainspring_workers WHERE id = :worker AND until > :now"""
_NEXT_EXPIRY = """SELECT min(expires_at) FROM mainspring_jobs
    WHERE state = 'pending' AND expires_at IS NOT NULL"""
_EXPIRE = """UPDATE mainspring_jobs SET state = 'expired', finished_at = :now WHERE n IN (
        SELECT n FROM mainspring_jobs WHERE state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
        ORDER BY expires_at LIMIT :limit)
    RETURNING id, CAST(options AS BLOB), idempotency_key"""

# Every (queue, task, rank) group with pending jobs, and its first run_at and id, by hops along the index: the cost is
# the number of groups, not of jobs. A row-value comparison would seek by queue alone, and scan.
_HOP = """SELECT n FROM mainspring_jobs WHERE state = 'pending' AND crashes < 2 AND {}
    ORDER BY queue, task, rank, run_at, id LIMIT 1"""
GROUPS = f"""WITH RECURSIVE groups (queue, task, rank, run_at, id) AS (
        SELECT queue, task, rank, run_at, id FROM mainspring_jobs WHERE n = ({_HOP.format("1")})
        UNION ALL
        SELECT job.queue, job.task, job.rank, job.run_at, job.id
        FROM groups CROSS JOIN mainspring_jobs job ON job.n = coalesce(
            ({_HOP.format("queue = groups.queue AND task = groups.task AND rank > groups.rank")}),
            ({_HOP.format("queue = groups.queue AND task > groups.task")}),
            ({_HOP.format("queue > groups.queue")})))
    SELECT queue, task, rank, run_at, id FROM groups"""

# Due jobs of one group: the index has them in claim order.
_DUE_IN_ONE = """SELECT json_group_array(n) FROM (SELECT n FROM mainspring_jobs
        WHERE state = 'pending' AND crashes < 2 AND queue = :queue AND task = :task AND rank = :rank AND run_at <= :now
        ORDER BY run_at, id LIMIT :limit)"""
# Due jobs of several groups of one rank, up to a place in the order: the first :each of each group.
_DUE_IN_MANY = """FROM json_each(:groups) one CROSS JOIN mainspring_jobs job ON job.n IN (SELECT n FROM mainspring_jobs
        WHERE state = 'pending' AND crashes < 2 AND queue = json_extract(one.value, '$[0]')
            AND task = json_extract(one.value, '$[1]') AND rank = :rank AND (run_at, id) <= (:last_run_at, :last_id)
        ORDER BY run_at, id LIMIT :each)
    ORDER BY job.run_at, job.id"""
_FIRST_OF_MANY = f"SELECT json_group_array(n) FROM (SELECT job.n {_DUE_IN_MANY} LIMIT :limit)"
_PLACE_IN_MANY = f"SELECT job.run_at, job.id {_DUE_IN_MANY} LIMIT 1 OFFSET :limit - 1"
# Sorts after every id.
_AFTER_ALL_IDS = "\U0010ffff"
_TAKE = """UPDATE mainspring_jobs SET state = 'running', lease = :lease, worker = :worker, started_at = :now,
        attempt = attempt + 1, runs = runs + 1
    WHERE n IN (SELECT value FROM json_each(:ns)) AND (expires_at IS NULL OR expires_at > :now)"""
_PLACES = "SELECT run_at, id FROM mainspring_jobs WHERE n IN (SELECT value FROM json_each(?))"
_NUMBERS = "SELECT id, n FROM mainspring_jobs WHERE id IN (SELECT value FROM json_each(?))"
_BYTES = """SELECT coalesce(sum(length(CAST(payload AS BLOB)) + length(CAST(options AS BLOB))), 0)
    FROM mainspring_jobs WHERE n IN (SELECT value FROM json_each(?))"""
# SQLite has to read a row to know its size. So the first sum is of this many rows, the next of four times as many, and
# near the end of the byte budget of one row each: a claim of large jobs reads few more rows than it takes.
FIRST_SIZED_JOBS = 16
# Jobs that crashed their workers; a worker runs one at a time.
_SUSPECTS = f"""SELECT queue, task, rank, run_at, n, id, crashes FROM mainspring_jobs
    WHERE state = 'pending' AND crashes >= 2
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs
        WHERE {HELD_INDEX_SQL} AND state = 'running' AND worker = ? AND crashes >= 2)
    ORDER BY rank, run_at, id"""
_TAKE_FIRST = """UPDATE mainspring_jobs SET state = 'running', lease = :lease, worker = :worker, started_at = :now,
        attempt = attempt + 1, runs = runs + 1
    WHERE n = :n AND (expires_at IS NULL OR expires_at > :now)"""
# All rows of the claim as one JSON text: row by row, this thread would give up the interpreter lock for each, and wait
# for the event loop to get it back.
_TAKEN_AS_JSON = f"""SELECT json_group_array(json_array({CLAIMED_COLUMNS})) FROM mainspring_jobs
    WHERE {HELD_INDEX_SQL} AND state = 'running' AND worker = :worker AND lease = :lease"""
_TAKEN_ROWS = _TAKEN_AS_JSON.replace(f"json_group_array(json_array({CLAIMED_COLUMNS}))", CLAIMED_COLUMNS)

_OPEN_CIRCUITS = "SELECT task, open_until, probe FROM mainspring_circuits WHERE open_until IS NOT NULL ORDER BY task"
_HEAD = """SELECT queue, task, rank, run_at, n, id, crashes FROM mainspring_jobs
    WHERE state = 'pending' AND crashes < 2 AND queue = ? AND task = ? AND rank = ? ORDER BY run_at, id LIMIT 1"""
_ORPHANED = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE {HELD_INDEX_SQL} AND state = 'running' AND worker NOT IN
    (SELECT id FROM mainspring_workers WHERE until > :now) ORDER BY id LIMIT :limit"""


class SqliteClaim(SqliteHandle):
    """The verbs claim and orphaned."""

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        us = micros(now)
        if self._idle:
            # Nothing was due last time: read first, so that an idle worker does not take the write lock.
            next_at = await self._read(lambda db: _next_claim_at(db, queues, worker, tasks, us))
            if next_at is None or next_at > us:
                return Claim([], None if next_at is None else nearest_instant(next_at))
        taken, lease, next_at, expired = await self._write(lambda db: _claim(db, queues, worker, tasks, limit, us))
        rows: list[Row] = _decode(taken) if isinstance(taken, str) else taken
        rows.sort(key=itemgetter(3, 4, 0))
        if rows and rows[-1][3] > MAX_PLAIN_RANK:
            rows.sort(key=lambda row: (plain_rank(row[3]), row[4], row[0]))
        self._idle = not rows
        failpoint("claim.after_commit")
        if expired:
            self._waiters.wake_all()
        # Rows are decoded (and outcomes encoded) here, because the writer thread is the bottleneck.
        pairs = [(row[0], row) for row in rows]
        checked = isinstance(taken, str)
        jobs, broken = decoded(
            "job", pairs, lambda row: claimed_job_of(row if checked else require_text(row), lease, worker, now)
        )
        if broken:
            await self._write(lambda db: _set_aside(db, [one.name for one in broken], lease))
        return Claim(jobs, None if next_at is None else nearest_instant(next_at), expired, broken)

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        values = {"now": micros(now), "limit": limit}
        jobs = [job_of(row) for row in await self._read(lambda db: mark_undecodable(fetch_rows(db, _ORPHANED, values)))]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._write(lambda db: _set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]


def _json(value: Any) -> str:
    return _encode(value).decode()


def _expire(db: sqlite3.Connection, now: int) -> list[JobId]:
    rows = db.execute(_EXPIRE, {"now": now, "limit": MAX_EXPIRED_JOBS}).fetchall()
    if rows:
        add_to_counts(db, {State.EXPIRED: len(rows)})
        if limited := [id for id, options, _ in rows if b'"limit_key"' in options]:
            drop_entries(db, limited)
    made = [
        (id, schedule) for id, options, key in rows if (schedule := counted_schedule_of(id, options, key)) is not None
    ]
    apply_job_transitions(db, [JobEnd(schedule, id, State.EXPIRED, instant(now)) for id, schedule in made])
    if steps := [step for id, options, _ in rows if (step := step_of(id, options)) is not None]:
        tables = LoadedTables(flows=True)
        for step in steps:
            tables.flow_changes.note_end_of(step, State.EXPIRED, instant(now))
        write(db, tables)
    return sorted(id for id, *_ in rows)


class _Claimable:
    """What this worker may claim: groups and suspects (queue, task, rank, run_at, …), and the open circuits."""

    def __init__(
        self,
        db: sqlite3.Connection,
        queues: Collection[str] | None,
        tasks: Collection[str],
        worker: WorkerId,
        now: int,
    ) -> None:
        paused = {name for (name,) in db.execute(PAUSED_QUEUES).fetchall()}
        served, queues = frozenset(tasks), None if queues is None else frozenset(queues)

        def serves(row: Row) -> bool:
            return row[1] in served and (queues is None or row[0] in queues) and row[0] not in paused

        self.groups = list(filter(serves, db.execute(GROUPS).fetchall()))
        self.limited: LimitedGroups | None = None
        self.suspects = list(filter(serves, db.execute(_SUSPECTS, (worker,)).fetchall()))
        self.open: dict[str, tuple[int, JobId | None]] = {
            task: (until, probe) for task, until, probe in db.execute(_OPEN_CIRCUITS).fetchall()
        }
        if any(row[2] > MAX_PLAIN_RANK for row in (*self.groups, *self.suspects)):
            self._find_limited(db, now)

    def _find_limited(self, db: sqlite3.Connection, now: int) -> None:
        """Takes what has a limit out of the groups, and the suspects that may not start."""
        from .limited_claim import LimitedGroups

        limited = LimitedGroups(db, [row for row in self.groups if row[2] > MAX_PLAIN_RANK], now)
        self.limited = limited
        self.groups = [row for row in self.groups if row[2] < MAX_PLAIN_RANK]
        self.suspects = limited.with_their_ranks(self.suspects)

    def next_at(self, expiry: int | None) -> int | None:
        """When a claim will next find work; None if nothing waits."""
        due = [] if expiry is None else [expiry]
        claimable = [(row[1], row[3]) for row in self.groups + self.suspects]
        if self.limited is not None:
            claimable = [(row[1], row[3]) for row in self.groups] + self.limited.next_instants(self.suspects)
        for task, run_at in claimable:
            until, probe = self.open.get(task, (run_at, None))
            if probe is None:
                due.append(max(run_at, until))
        return min(due, default=None)


def _next_claim_at(
    db: sqlite3.Connection,
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    now: int,
) -> int | None:
    """When a claim will next find work, without the write lock; `now` or earlier if it would now."""
    expiry = db.execute(_NEXT_EXPIRY).fetchone()[0]
    if expiry is not None and expiry <= now:
        return now
    if not (alive := db.execute(ALIVE, {"worker": worker, "now": now}).fetchone()):
        return None
    return now if alive[0] else _Claimable(db, queues, tasks, worker, now).next_at(expiry)


def _claim(
    db: sqlite3.Connection,
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: int,
) -> tuple[str | list[Row], Lease, int | None, list[JobId]]:
    """The claimed rows (as one JSON text if all is UTF-8), their lease, when to claim again, and the expired ids."""
    expired, lease = _expire(db, now), os.urandom(8).hex()
    values: dict[str, Any] = {"lease": lease, "worker": worker, "now": now}
    if not (alive := db.execute(ALIVE, values).fetchone()):
        return "[]", lease, None, expired
    if alive[0]:
        forget_idle_groups(db, now)
    wanted = _Claimable(db, queues, tasks, worker, now)
    taken, left = _take_probes_and_suspect(db, wanted, values, limit)
    groups = [row for row in wanted.groups if row[3] <= now and row[1] not in wanted.open]
    if wanted.limited is not None:
        taken, left = _take_by_turns(db, wanted, wanted.limited, groups, values, taken, limit, left)
        groups = []
    for rank in sorted({group[2] for group in groups}):
        if taken >= limit or left <= 0:
            break
        some = [group for group in groups if group[2] == rank]
        due, left = _within_budget(db, _due(db, some, values | {"rank": rank, "limit": limit - taken}), left)
        taken += db.execute(_TAKE, values | {"ns": _json(due)}).rowcount
    rows = _read_taken(db, values) if taken else "[]"
    if taken >= limit or left <= 0 or len(expired) == MAX_EXPIRED_JOBS:
        return rows, lease, now, expired
    expiry = db.execute(_NEXT_EXPIRY).fetchone()[0]
    return rows, lease, _Claimable(db, queues, tasks, worker, now).next_at(expiry), expired


def _take_by_turns(
    db: sqlite3.Connection,
    wanted: _Claimable,
    limited: LimitedGroups,
    groups: list[Row],
    values: dict[str, Any],
    taken: int,
    limit: int,
    left: int,
) -> tuple[int, int]:
    """Takes due jobs with and without a limit. Returns how many jobs are taken in all, and the bytes that are left."""
    ids: list[JobId] = []
    for rank in sorted({group[2] for group in groups} | limited.ranks(wanted.open)):
        if (most := limit - taken - len(ids)) <= 0 or left <= 0:
            break
        some = [group for group in groups if group[2] == rank]
        due = _due(db, some, values | {"rank": rank, "limit": most}) if some else []
        plain = db.execute(_PLACES, (_json(due),)).fetchall() if due else []
        ids += limited.choose(plain, rank, wanted.open, most, limit)
    if not ids:
        limited.write()
        return taken, left
    numbers = dict(db.execute(_NUMBERS, (_json(ids),)).fetchall())
    fit, left = _within_budget(db, [numbers[id] for id in ids], left)
    limited.keep(ids[: len(fit)])
    taken += db.execute(_TAKE, values | {"ns": _json(fit)}).rowcount
    limited.write()
    return taken, left


def _due(db: sqlite3.Connection, groups: list[Row], values: dict[str, Any]) -> list[int]:
    """The row numbers of the first due jobs of these groups, in claim order."""
    if len(groups) == 1:
        values = values | {"queue": groups[0][0], "task": groups[0][1]}
        found = db.execute(_DUE_IN_ONE, values).fetchone()[0]
    else:
        found = db.execute(_FIRST_OF_MANY, _bounded(db, groups, values)).fetchone()[0]
    rows: list[int] = _decode(found)
    return rows


def _bounded(db: sqlite3.Connection, groups: list[Row], values: dict[str, Any]) -> dict[str, Any]:
    """The values of _FIRST_OF_MANY, with the groups and the last place that its jobs may come from.

    The first `limit` jobs come from the groups whose first jobs are the first `limit`. If there are that many groups,
    none of these jobs comes after the last of those; else, none comes after the `limit`-th of the groups' first jobs.
    """
    limit = values["limit"]
    first = sorted(groups, key=itemgetter(3, 4))[:limit]
    values = values | {"groups": _json([row[:2] for row in first]), "each": limit}
    if len(first) == limit:
        return values | {"last_run_at": first[-1][3], "last_id": first[-1][4]}
    values |= {"last_run_at": values["now"], "last_id": _AFTER_ALL_IDS}
    each = 2 * limit // len(first) + 1
    while each < limit:  # some groups may have fewer jobs
        if place := db.execute(_PLACE_IN_MANY, values | {"each": each}).fetchone():
            return values | {"last_run_at": place[0], "last_id": place[1]}
        each *= 4
    return values


def _within_budget(db: sqlite3.Connection, due: list[int], left: int) -> tuple[list[int], int]:
    """The rows that the byte budget allows (the last one may exceed it), and the bytes that are left."""
    fit, step = 0, FIRST_SIZED_JOBS
    while fit < len(due) and left > 0:
        some = due[fit : fit + step]
        size = _stored_bytes(db, some)
        if size >= left and step > 1:
            step = 1
        else:
            fit, left, step = fit + len(some), left - size, step if step == 1 else 4 * step
    return due[:fit], left


def _stored_bytes(db: sqlite3.Connection, rows: Sequence[int]) -> int:
    size: int = db.execute(_BYTES, (_json(rows),)).fetchone()[0]
    return size


def _read_taken(db: sqlite3.Connection, values: dict[str, Any]) -> str | list[Row]:
    try:
        text: str = db.execute(_TAKEN_AS_JSON, values).fetchone()[0]
    except sqlite3.OperationalError as error:
        if not is_not_utf8_error(error):
            raise
        return fetch_rows_leniently(db, _TAKEN_ROWS, values)
    return text


_SET_ASIDE = f"""UPDATE mainspring_jobs SET state = 'paused', lease = '{UNREADABLE}', worker = NULL,
        attempt = attempt - 1, runs = runs - 1
    WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running' AND (lease = :lease OR :lease = '')"""


def _set_aside(db: sqlite3.Connection, ids: Collection[JobId], lease: Lease = "") -> None:
    """Pauses jobs that a claim took, or an orphaned run has, and that cannot be decoded: no claim finds them then."""
    values = {"ids": _encode(list(ids)).decode(), "lease": lease}
    db.execute(_SET_ASIDE, values)
    drop_entries(db, ids)
    db.execute(
        "UPDATE mainspring_circuits SET probe = NULL WHERE probe IN (SELECT value FROM json_each(:ids))",
        {"ids": values["ids"]},
    )


def _take_probes_and_suspect(
    db: sqlite3.Connection, wanted: _Claimable, values: dict[str, Any], limit: int
) -> tuple[int, int]:
    """Takes a probe for each half-open circuit, and one suspect. Returns their number and the bytes that are left."""
    taken, left, now = 0, CLAIM_BYTES, values["now"]
    suspects = [row for row in wanted.suspects if row[3] <= now]
    for task, (until, probe) in wanted.open.items():
        if probe is not None or until > now or taken >= limit or left <= 0:
            continue
        groups = [row[:3] for row in wanted.groups if row[1] == task and row[3] <= now]
        due = [db.execute(_HEAD, group).fetchone() for group in groups] + [row for row in suspects if row[1] == task]
        if wanted.limited is not None:
            due = wanted.limited.with_turns(due, task)
        head = min(due, key=lambda row: (row[2], row[3], row[5]), default=None)
        # The row is not taken if it is one of more than MAX_EXPIRED_JOBS expired jobs.
        if head is not None and db.execute(_TAKE_FIRST, values | {"n": head[4]}).rowcount:
            db.execute("UPDATE mainspring_circuits SET probe = ? WHERE task = ?", (head[5], task))
            taken, left = taken + 1, left - _stored_bytes(db, [head[4]])
            if wanted.limited is not None:
                wanted.limited.note_taken(head)
            if head[6] >= 2:
                suspects = []
    suspects = [row for row in suspects if row[1] not in wanted.open]
    if wanted.limited is not None:
        suspects = wanted.limited.open_suspects(suspects)
    if suspects and taken < limit and left > 0:
        taken += db.execute(_TAKE_FIRST, values | {"n": suspects[0][4]}).rowcount
        left -= _stored_bytes(db, [suspects[0][4]])
        if wanted.limited is not None:
            wanted.limited.note_taken(suspects[0])
    return taken, left
