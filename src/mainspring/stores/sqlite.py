"""The SQLite store: one file, several processes, durable when a verb returns."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ..clock import Clock, SystemClock, instant, micros
from ..config import Durability
from ..errors import BadInput, ShuttingDown
from ..failpoint import failpoint
from ..job import (
    ALLOWED,
    Action,
    Beat,
    Changed,
    Claim,
    Enqueued,
    Execution,
    Filter,
    Job,
    JobId,
    LiveWorker,
    NewJob,
    Queue,
    Refusal,
    Shown,
    State,
    WorkerId,
    WorkerInfo,
)
from ..outcome import Outcome
from ..store import Store
from . import sqlite_file
from .bell import Bell
from .lane import Lane, Watcher, translated
from .rows import (
    COLUMNS,
    NEW_COLUMNS,
    SHOWN_SQL,
    Row,
    execution_of,
    failure_text,
    job_of,
    new_row,
    row_of,
    where,
)
from .rules import act, meet
from .turnstile import Turnstile

T = TypeVar("T")
# Rows written by one statement. Few sizes, so that SQLite's cache of prepared statements holds them all.
CHUNKS = (256, 128, 64, 32, 16, 8, 4, 2, 1)
# A claim ends at most this many expired jobs, so that a flood of them cannot hold the write lock.
EXPIRE_LIMIT = 1000
# How often a waiting process looks whether another one has committed: 10 ms is 0.2 % of a core.
WATCH = 0.01

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_info = msgspec.json.Decoder(WorkerInfo).decode


class SqliteStore:
    """WAL, synchronous=FULL. One lane writes and commits many verbs together, another reads."""

    def __init__(self, path: str, *, clock: Clock | None = None, durability: Durability = "full") -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._bell = Bell(self._clock)
        self._pid = 0
        self._idle = False

    # life

    async def open(self) -> None:
        if self._pid != os.getpid():
            await asyncio.to_thread(self._open)

    def _open(self) -> None:
        turnstile = Turnstile(sqlite_file.prepare(self.path) + "-lock")
        writer = sqlite_file.connect(self.path, self._durability)
        sqlite_file.migrate(writer, None, only_up=True)
        reader, watcher = (sqlite_file.connect(self.path, self._durability) for _ in range(2))
        self._watcher = Watcher(watcher)
        self._bell = Bell(self._clock)
        self._turnstile = turnstile
        self._writes = Lane("writer", writer, "BEGIN IMMEDIATE", turnstile)
        self._reads = Lane("reader", reader, "BEGIN", nullcontext())
        self._pid = os.getpid()

    async def close(self) -> None:
        if self._pid == os.getpid():
            self._pid = 0
            await self._writes.close()
            await self._reads.close()
            self._watcher.close()
            self._turnstile.close()

    def beside(self) -> Store:
        return self

    async def schema(self) -> tuple[int, int]:
        return await self._read(sqlite_file.version), sqlite_file.NEWEST

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._write(lambda db: sqlite_file.migrate(db, target))

    async def time(self) -> datetime:
        if not self._clock.real:
            return self._clock.now()
        days = (await self._read(lambda db: db.execute("SELECT julianday('now')").fetchone()))[0]
        return instant(round((days - 2440587.5) * 86_400_000) * 1000)

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        await self._wait(timeout)

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        await self._wait(timeout)

    async def _wait(self, timeout: float) -> None:
        """Until this process rings, or another one has committed."""
        self._check()
        if not self._clock.real:
            return await self._bell.wait(timeout)
        loop, before = asyncio.get_running_loop(), self._watcher.version()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._pid != os.getpid() or self._watcher.version() != before:
                self._bell.ring()
            else:
                timer = loop.call_later(WATCH, look)

        timer = loop.call_later(WATCH, look)
        try:
            return await self._bell.wait(timeout)
        finally:
            timer.cancel()

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        us = micros(now)
        self._idle = False
        if within is not None:
            return self._enqueue_within(within, jobs, now, us)
        answers = await self._write(lambda db: _enqueue(db, jobs, now, us))
        self._bell.ring()
        return answers

    def _enqueue_within(self, db: Any, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
        self._check()
        if not isinstance(db, sqlite3.Connection):
            raise BadInput(f"within= takes a sqlite3.Connection to {self.path!r} here, got {type(db).__name__}")
        try:
            sqlite_file.join(db, self.path)
            return _enqueue(db, jobs, now, us)
        except sqlite3.Error as error:
            raise translated(error) from error

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
            # Nothing was due last time: look first, so that an idle worker does not take the write lock.
            next_at = await self._read(lambda db: _look(db, queues, worker, tasks, us))
            if next_at is None or next_at > us:
                return Claim([], None if next_at is None else instant(next_at))
        taken, next_at, expired = await self._write(lambda db: _claim(db, queues, worker, tasks, limit, us))
        rows: list[list[Any]] = _decode(taken)
        rows.sort(key=lambda row: (row[3], row[5], row[0]))
        self._idle = not rows
        failpoint("claim.after_commit")
        if expired:
            self._bell.ring()
        # Rows become jobs here, and outcomes rows: the writing thread has enough to do.
        return Claim([job_of(row) for row in rows], None if next_at is None else instant(next_at), expired)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> Beat:
        return await self._write(lambda db: _beat(db, worker, micros(until), micros(now)))

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        sql = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE state = 'running' AND worker NOT IN
            (SELECT id FROM mainspring_workers WHERE until > :now) ORDER BY id LIMIT :limit"""
        rows = await self._rows(sql, {"now": micros(now), "limit": limit})
        return [job_of(row) for row in rows]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        rows = [_ended(outcome) for outcome in outcomes]
        stands = await self._write(lambda db: _finish(db, rows))
        self._bell.ring()
        return stands

    # operators

    async def change(self, action: Action, which: Filter, *, now: datetime, limit: int, reason: str = "") -> Changed:
        self._idle = False
        changed = await self._write(lambda db: _change(db, action, which, now, limit, reason))
        self._bell.ring()
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._write(lambda db: db.execute(sql, (name, paused)).rowcount)
        self._bell.ring()

    # reading

    async def jobs(
        self, which: Filter, *, now: datetime, limit: int, after: JobId | None = None, newest: bool = False
    ) -> list[Job]:
        condition, values = where(which, micros(now))
        if after is not None:
            condition += f" AND id {'<' if newest else '>'} :after"
        order = "DESC" if newest else "ASC"
        sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {condition} ORDER BY id {order} LIMIT :limit"
        rows = await self._rows(sql, values | {"after": after, "limit": limit})
        return [job_of(row) for row in rows]

    async def executions(self, job_id: JobId) -> list[Execution]:
        rows = await self._read(lambda db: db.execute(_EXECUTIONS, (job_id, job_id)).fetchall())
        return [execution_of(row) for row in rows]

    async def queues(self, *, now: datetime) -> list[Queue]:
        sql = f"""SELECT queue, {SHOWN_SQL}, count(*) FROM mainspring_jobs
            WHERE state IN ('pending', 'running', 'waiting', 'paused') GROUP BY 1, 2"""
        rows = await self._rows(sql, {"now": micros(now)})
        paused = {row[0] for row in await self._rows(_PAUSED, {})}
        counts: dict[str, dict[str, int]] = {name: {} for name in paused}
        for name, shown, count in rows:
            queue = counts.setdefault(name, {})
            if shown in ("pending", "scheduled", "retrying", "running"):
                queue[shown] = count
        return [Queue(name=name, paused=name in paused, **counts[name]) for name in sorted(counts)]

    async def workers(self, *, now: datetime) -> list[LiveWorker]:
        sql = "SELECT info, until FROM mainspring_workers WHERE until > :now ORDER BY id"
        rows = await self._rows(sql, {"now": micros(now)})
        return [LiveWorker(_info(info), instant(until)) for info, until in rows]

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        sql = f"SELECT {SHOWN_SQL}, count(*) FROM mainspring_jobs GROUP BY 1"
        return {row[0]: row[1] for row in await self._rows(sql, {"now": micros(now)})}

    # inside

    def _check(self) -> None:
        if self._pid == os.getpid():
            return
        if not self._pid:
            raise ShuttingDown(f"the store {self.path!r} is not open")
        # A child of fork has none of its parent's threads, and must not touch its connections.
        self._open()

    async def _write(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        with self._clock.outside():
            return await self._writes.call(verb)

    async def _read(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        with self._clock.outside():
            return await self._reads.call(verb)

    async def _rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        return await self._read(lambda db: db.execute(sql, values).fetchall())


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    start = 0
    for size in CHUNKS:
        while len(items) - start >= size:
            yield items[start : start + size]
            start += size


def _places(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def _flat(rows: Iterable[Row]) -> list[Any]:
    return [value for row in rows for value in row]


# enqueue

_INSERT = {
    size: f"INSERT INTO mainspring_jobs ({NEW_COLUMNS}) VALUES {_places(size, 12)} ON CONFLICT (id) DO NOTHING"
    for size in CHUNKS
}


def _enqueue(db: sqlite3.Connection, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
    if all(job.unique_key is None and job.idempotency_key is None for job in jobs):
        for chunk in _chunks(jobs):
            db.execute(_INSERT[len(chunk)], _flat([new_row(job, us) for job in chunk]))
        return [Enqueued(job.id) for job in jobs]
    db.execute("SAVEPOINT mainspring_enqueue")
    answers: list[Enqueued] = []
    for n, job in enumerate(jobs):
        answers.append(_admit(db, job, now, us))
        if answers[-1].status == "refused":
            db.execute("ROLLBACK TO mainspring_enqueue")
            answers = [Enqueued(other.id, "refused") if i != n else answers[-1] for i, other in enumerate(jobs)]
            break
    db.execute("RELEASE mainspring_enqueue")
    return answers


def _admit(db: sqlite3.Connection, new: NewJob, now: datetime, us: int) -> Enqueued:
    if db.execute("SELECT 1 FROM mainspring_jobs WHERE id = ?", (new.id,)).fetchone():
        return Enqueued(new.id)
    key, held = _holder(db, new)
    while held is not None and held.shown(now) == "expired":
        _save(db, replace(held, state=State.EXPIRED, finished_at=now))
        key, held = _holder(db, new)
    if held is None:
        db.execute(_INSERT[1], new_row(new, us))
        return Enqueued(new.id)
    if new.on_conflict == "raise":
        return Enqueued(held.id, "refused", key)
    changed, status = meet(held, new, now)
    if changed is not held:
        _save(db, changed)
    return Enqueued(held.id, status, key)


def _holder(db: sqlite3.Connection, job: NewJob | Job) -> tuple[str | None, Job | None]:
    """The job that keeps this one's key from being used, if any."""
    unfinished = "'pending', 'running', 'waiting', 'paused'"
    for column, key, states in (
        ("unique_key", job.unique_key, unfinished),
        ("idempotency_key", job.idempotency_key, f"{unfinished}, 'completed'"),
    ):
        if key is not None:
            sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {column} = ? AND state IN ({states})"
            row = db.execute(sql, (key,)).fetchone()
            if row is not None:
                return key, job_of(row)
    return None, None


_SAVE = f"UPDATE mainspring_jobs SET ({COLUMNS}, ending) = ({', '.join('?' * 22)}, NULL) WHERE id = ?"


def _save(db: sqlite3.Connection, job: Job) -> None:
    db.execute(_SAVE, (*row_of(job), job.id))


# claim

_PAUSED = "SELECT name FROM mainspring_queues WHERE paused"
_ALIVE = "SELECT 1 FROM mainspring_workers WHERE id = ? AND until > ?"
_NEXT_EXPIRY = """SELECT min(expires_at) FROM mainspring_jobs
    WHERE state = 'pending' AND expires_at IS NOT NULL"""
_EXPIRE = """UPDATE mainspring_jobs SET state = 'expired', finished_at = :now WHERE n IN (
        SELECT n FROM mainspring_jobs WHERE state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
        ORDER BY expires_at LIMIT :limit)
    RETURNING id"""

# Every (queue, task, rank) that has pending jobs, with its first run_at, by hops along the index: the cost is
# the number of groups, however many jobs each has. A row-value comparison would seek by queue alone and scan.
_HOP = """SELECT n FROM mainspring_jobs WHERE state = 'pending' AND crashes < 2 AND {}
    ORDER BY queue, task, rank, run_at, id LIMIT 1"""
_GROUPS = f"""WITH RECURSIVE groups (queue, task, rank, run_at) AS (
        SELECT queue, task, rank, run_at FROM mainspring_jobs WHERE n = ({_HOP.format("1")})
        UNION ALL
        SELECT job.queue, job.task, job.rank, job.run_at FROM groups CROSS JOIN mainspring_jobs job ON job.n = coalesce(
            ({_HOP.format("queue = groups.queue AND task = groups.task AND rank > groups.rank")}),
            ({_HOP.format("queue = groups.queue AND task > groups.task")}),
            ({_HOP.format("queue > groups.queue")})))
    SELECT queue, task, rank, run_at FROM groups"""

# One group: the order of the index is the order of the claim.
_TAKE_ONE = """UPDATE mainspring_jobs SET state = 'running', lease = :lease, worker = :worker, started_at = :now,
        attempt = attempt + 1, runs = runs + 1
    WHERE n IN (SELECT n FROM mainspring_jobs
        WHERE state = 'pending' AND crashes < 2 AND queue = :queue AND task = :task AND rank = :rank AND run_at <= :now
        ORDER BY run_at, id LIMIT :limit)
    AND (expires_at IS NULL OR expires_at > :now)"""
# Jobs that have killed their workers wait apart, and a worker takes one at a time.
_SUSPECTS = """SELECT queue, task, rank, run_at, n FROM mainspring_jobs WHERE state = 'pending' AND crashes >= 2
    AND NOT EXISTS (SELECT 1 FROM mainspring_jobs WHERE state = 'running' AND worker = ? AND crashes >= 2)
    ORDER BY rank, run_at, id"""
_TAKE_SUSPECT = """UPDATE mainspring_jobs SET state = 'running', lease = :lease, worker = :worker, started_at = :now,
        attempt = attempt + 1, runs = runs + 1
    WHERE n = :n AND (expires_at IS NULL OR expires_at > :now)"""
# Several groups of one rank: up to :limit of each, then the first :limit of all.
_TAKE_MANY = """UPDATE mainspring_jobs SET state = 'running', lease = :lease, worker = :worker, started_at = :now,
        attempt = attempt + 1, runs = runs + 1
    WHERE n IN (SELECT job.n FROM json_each(:groups) one CROSS JOIN mainspring_jobs job ON job.n IN (
            SELECT n FROM mainspring_jobs
            WHERE state = 'pending' AND crashes < 2 AND queue = json_extract(one.value, '$[0]')
                AND task = json_extract(one.value, '$[1]') AND rank = :rank AND run_at <= :now
            ORDER BY run_at, id LIMIT :limit)
        ORDER BY job.run_at, job.id LIMIT :limit)
    AND (expires_at IS NULL OR expires_at > :now)"""
# All rows of the claim as one JSON text: a row at a time would hand the interpreter lock over and back for
# each, and wait for the event loop every time.
_TAKEN = f"""SELECT json_group_array(json_array({COLUMNS})) FROM mainspring_jobs
    WHERE state = 'running' AND worker = :worker AND lease = :lease"""


def _expire(db: sqlite3.Connection, now: int) -> list[JobId]:
    return sorted(id for (id,) in db.execute(_EXPIRE, {"now": now, "limit": EXPIRE_LIMIT}).fetchall())


def _wanted(
    db: sqlite3.Connection, queues: Collection[str] | None, tasks: Collection[str], worker: WorkerId
) -> tuple[list[Row], list[Row]]:
    """The groups and the suspects that this worker may take from, each row with queue, task, rank and run_at."""
    paused = {name for (name,) in db.execute(_PAUSED).fetchall()}

    def named(row: Row) -> bool:
        return row[1] in tasks and (queues is None or row[0] in queues) and row[0] not in paused

    groups = list(filter(named, db.execute(_GROUPS).fetchall()))
    return groups, list(filter(named, db.execute(_SUSPECTS, (worker,)).fetchall()))


def _look(
    db: sqlite3.Connection,
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    now: int,
) -> int | None:
    """When a claim would next do something: `now` or earlier means at once."""
    expiry = db.execute(_NEXT_EXPIRY).fetchone()[0]
    if expiry is not None and expiry <= now:
        return now
    if not db.execute(_ALIVE, (worker, now)).fetchone():
        return None
    groups, suspects = _wanted(db, queues, tasks, worker)
    return _soonest(groups + suspects, expiry)


def _soonest(rows: list[Row], expiry: int | None) -> int | None:
    due = [row[3] for row in rows]
    return min(due if expiry is None else [*due, expiry], default=None)


def _claim(
    db: sqlite3.Connection,
    queues: Collection[str] | None,
    worker: WorkerId,
    tasks: Collection[str],
    limit: int,
    now: int,
) -> tuple[str, int | None, list[JobId]]:
    expired = _expire(db, now)
    if not db.execute(_ALIVE, (worker, now)).fetchone():
        return "[]", None, expired
    groups, suspects = ([row for row in rows if row[3] <= now] for rows in _wanted(db, queues, tasks, worker))
    values: dict[str, Any] = {"lease": os.urandom(8).hex(), "worker": worker, "now": now}
    count = 0
    if suspects and limit:
        count += db.execute(_TAKE_SUSPECT, values | {"n": suspects[0][4]}).rowcount
    for rank in sorted({group[2] for group in groups}):
        if count >= limit:
            break
        some = [group for group in groups if group[2] == rank]
        count += _take(db, some, values | {"rank": rank, "limit": limit - count})
    taken = db.execute(_TAKEN, values).fetchone()[0] if count else "[]"
    if count >= limit or len(expired) == EXPIRE_LIMIT:
        return taken, now, expired
    expiry = db.execute(_NEXT_EXPIRY).fetchone()[0]
    groups, suspects = _wanted(db, queues, tasks, worker)
    return taken, _soonest(groups + suspects, expiry), expired


def _take(db: sqlite3.Connection, groups: list[Row], values: dict[str, Any]) -> int:
    if len(groups) == 1:
        return db.execute(_TAKE_ONE, values | {"queue": groups[0][0], "task": groups[0][1]}).rowcount
    listed = _encode([(queue, task) for queue, task, *_ in groups]).decode()
    return db.execute(_TAKE_MANY, values | {"groups": listed}).rowcount


# beat

_BEAT = """INSERT INTO mainspring_workers (id, until, info) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET until = excluded.until, info = excluded.info"""
_HELD = "SELECT id, lease, cancel_reason FROM mainspring_jobs WHERE state = 'running' AND worker = ?"


def _beat(db: sqlite3.Connection, worker: WorkerInfo, until: int, now: int) -> Beat:
    if until > now:
        db.execute(_BEAT, (worker.id, until, _encode(worker).decode()))
    else:
        db.execute("DELETE FROM mainspring_workers WHERE id = ?", (worker.id,))
    held = db.execute(_HELD, (worker.id,)).fetchall()
    return Beat({id: lease for id, lease, _ in held}, {id: reason for id, _, reason in held if reason is not None})


# finish

# The last run of a finished job needs no execution row: the job's own row has it all, and its `ending`
# says so. That is one write a job in the common case; only runs that others follow get rows of their own.
_END = {
    size: f"""UPDATE mainspring_jobs AS job
        SET state = ended.state, ending = ended.ending, finished_at = ended.finished_at, result = ended.result,
            failure = ended.failure
        FROM (SELECT column1 AS id, column2 AS lease, column3 AS state, column4 AS ending, column5 AS finished_at,
            column6 AS result, column7 AS failure FROM (VALUES {_places(size, 7)})) AS ended
        WHERE job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'"""
    for size in CHUNKS
}

_ENDED = "ended (id, lease, state, ending, finished_at, result, failure, run_at, refund, crash)"
# The fence: this very run, still running, and for a crash a worker that is silent still.
_FENCE = """job.id = ended.id AND job.lease = ended.lease AND job.state = 'running'
    AND NOT (ended.crash AND EXISTS (SELECT 1 FROM mainspring_workers
        WHERE mainspring_workers.id = job.worker AND until > ended.finished_at))"""
_RECORD = f"""INSERT OR IGNORE INTO mainspring_executions
    WITH {_ENDED} AS (VALUES {_places(1, 10)})
    SELECT job.id, runs, attempt, ended.ending, worker, job.lease, started_at, ended.finished_at,
        coalesce(length(CAST(ended.result AS BLOB)), 0), ended.failure
    FROM ended CROSS JOIN mainspring_jobs job ON {_FENCE}"""
_SETTLE = f"""WITH {_ENDED} AS (VALUES {_places(1, 10)})
    UPDATE mainspring_jobs AS job SET
        state = CASE WHEN ended.state = 'pending' AND cancel_reason IS NOT NULL THEN 'cancelled'
            ELSE ended.state END,
        finished_at = CASE WHEN ended.state = 'pending' AND cancel_reason IS NULL THEN NULL
            ELSE ended.finished_at END,
        run_at = coalesce(ended.run_at, job.run_at),
        attempt = attempt - ended.refund, crashes = crashes + ended.crash, lease = NULL, worker = NULL,
        result = ended.result,
        failure = CASE WHEN ended.failure IS NULL AND ended.state <> 'completed' THEN job.failure
            ELSE ended.failure END
    FROM ended WHERE {_FENCE}"""
_STANDS = """SELECT 1 FROM mainspring_executions WHERE job_id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at
    UNION ALL SELECT 1 FROM mainspring_jobs WHERE id = :id AND lease = :lease AND ending = :ending AND
        finished_at = :at"""


def _finish(db: sqlite3.Connection, rows: Sequence[Row]) -> set[JobId]:
    if len({row[0] for row in rows}) < len(rows):
        # Two outcomes for one job: one after the other, since a statement would take either.
        return set().union(*(_finish(db, [row]) for row in rows))
    accepted = 0
    for chunk in _chunks([row for row in rows if len(row) == 7]):
        accepted += db.execute(_END[len(chunk)], _flat(chunk)).rowcount
        failpoint("finish.mid_batch")
    for row in rows:
        if len(row) == 10:
            accepted += db.execute(_RECORD, row).rowcount
            failpoint("finish.mid_batch")
            db.execute(_SETTLE, row)
    if accepted == len(rows):
        return {row[0] for row in rows}
    # Some were late or are told a second time: those that are the recorded ending of their run stand.
    told = [{"id": row[0], "lease": row[1], "ending": row[3], "at": row[4]} for row in rows]
    return {values["id"] for values in told if db.execute(_STANDS, values).fetchone()}


def _ended(outcome: Outcome) -> Row:
    """Seven columns for the plain end of a job, ten where the job goes on or its row says something else."""
    state = outcome.state
    row = (
        outcome.id, outcome.lease, state.value, outcome.ending.value, micros(outcome.finished_at), outcome.result,
        failure_text(outcome.failure),
    )  # fmt: skip
    told = state is State.COMPLETED or (state.final and outcome.failure is not None)
    if told and not outcome.refund and not outcome.crash and outcome.run_at is None:
        return row
    run_at = None if outcome.run_at is None else micros(outcome.run_at)
    return (*row, run_at, outcome.refund, outcome.crash)


# operators

_LAST_RUN = """SELECT id, runs, attempt, ending, worker, lease, started_at, finished_at,
        coalesce(length(CAST(result AS BLOB)), 0), failure
    FROM mainspring_jobs WHERE id = ? AND ending IS NOT NULL"""
_KEEP_LAST_RUN = f"INSERT INTO mainspring_executions {_LAST_RUN}"
_EXECUTIONS = f"SELECT * FROM mainspring_executions WHERE job_id = ? UNION ALL {_LAST_RUN} ORDER BY 2"


def _change(db: sqlite3.Connection, action: Action, which: Filter, now: datetime, limit: int, reason: str) -> Changed:
    condition, values = where(which, micros(now))
    sql = f"SELECT {COLUMNS} FROM mainspring_jobs WHERE {condition} ORDER BY id LIMIT :limit"
    done: list[JobId] = []
    refused: dict[JobId, Refusal] = {}
    for row in db.execute(sql, values | {"limit": limit}).fetchall():
        job = job_of(row)
        refusal = _refusal(db, action, job)
        if refusal is not None:
            refused[job.id] = refusal
            continue
        if action is Action.DELETE:
            db.execute("DELETE FROM mainspring_executions WHERE job_id = ?", (job.id,))
            db.execute("DELETE FROM mainspring_jobs WHERE id = ?", (job.id,))
        else:
            if action is Action.RETRY:
                db.execute(_KEEP_LAST_RUN, (job.id,))
            changed = act(action, job, now, reason)
            if changed is not job:
                _save(db, changed)
        done.append(job.id)
    return Changed(done, refused)


def _refusal(db: sqlite3.Connection, action: Action, job: Job) -> Refusal | None:
    if job.state not in ALLOWED[action]:
        return Refusal(job.state)
    if action is Action.RETRY:
        key, holder = _holder(db, job)
        if holder is not None:
            return Refusal(job.state, key, holder.id)
    return None
