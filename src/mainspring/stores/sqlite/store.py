"""The SQLite store: one file, several processes, durable when a verb returns."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ...clock import Clock, SystemClock, instant, micros, nearest_instant
from ...config import Durability
from ...errors import BadInput, ShuttingDown, StoreError
from ...failpoint import failpoint
from ...ids import JobId, WorkerId
from ...records.finding import Finding
from ...records.job import Action, Enqueued, Job, NewJob, State, UnreadableRecord
from ...records.outcome import Outcome
from ...records.pruning import Pruning
from ...records.query import Changed, Cursor, Filter, Sort, Updates
from ...records.queue import DeadGroup, Overview
from ...records.run import Execution, LogLine, RunReport
from ...records.schema import Schema
from ...records.tally import Span, Tally
from ...records.unreadable import decoded, readable
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ...store import Capabilities, Listening, Store, Topic, Transaction
from ...sync import is_sync_caller, run_blocking
from ...task.retention import Rules
from ..broadcast import Broadcast
from ..caller_connection import driver_connection, is_async, unwrap_proxy
from ..migrations import Migrations
from ..rows import COLUMNS, HELD_INDEX_SQL, Row, claimed_job_of, executions_of, job_of
from ..rules import unique_ids
from . import (
    change,
    claim,
    doctor,
    enqueue,
    file,
    finish,
    fire,
    lists,
    read,
    runs,
    schedules,
    tally,
    terms,
    transaction,
)
from .audit import SqliteAudit, drop_old_entries
from .commit_watch import CommitWatcher
from .documents import SqliteDocuments, drop_expired_documents
from .fair_lock import FairFileLock
from .feed import SqliteFeed
from .lenient import fetch_rows, require_text
from .writer_thread import WriterThread, translate_error

T = TypeVar("T")

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_info = msgspec.json.Decoder(WorkerInfo).decode


def _worker_row(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_info(info), instant(until), claim.commands_of(orders))


class SqliteStore(SqliteDocuments, SqliteAudit, SqliteFeed):
    """WAL, synchronous=FULL. One thread writes and commits many verbs together, another one reads."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        migrations: Migrations = file.MIGRATIONS,
    ) -> None:
        self.path, self._migrations = path, migrations
        self.capabilities = Capabilities(
            store="the SQLite store",
            newest_schema=migrations.newest,
            transactions=True,
            no_scripts="migrations of a SQLite file need this library: run mainspring migrate up",
        )
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._waiters = Broadcast(self._clock)
        self._opening = threading.Lock()
        self._pid = 0
        self._idle, self._migrates = False, True
        self._set_aside_schedules: set[str] = set()

    # opening and closing

    async def open(self, *, migrate: bool = True) -> None:
        if self._pid != os.getpid():
            self._migrates = migrate
            with self._clock.outside():
                await asyncio.to_thread(self._open)
        elif migrate and not self._migrates:
            await self._write(lambda db: file.migrate(db, self._migrations, None, self._now(), only_up=True))
            self._migrates = True

    def _open(self) -> None:
        with self._opening:
            if self._pid != os.getpid():
                self._connect()

    def _connect(self) -> None:
        place = file.create_file(self.path)
        file_lock = FairFileLock(f"{place}-lock")
        writer = file.connect(self.path, self._durability)
        if self._migrates:
            file.migrate(writer, self._migrations, None, self._now(), only_up=True)
        reader, watcher = (file.connect(self.path, self._durability) for _ in range(2))
        self._waiters = Broadcast(self._clock)
        self._watcher = CommitWatcher(watcher, f"{place}-wal", self._waiters, real=self._clock.real)
        self._file_lock = file_lock
        self._writes = WriterThread("writer", writer, "BEGIN IMMEDIATE", file_lock)
        self._reads = WriterThread("reader", reader, "BEGIN", nullcontext(), interruptible=True)
        self._file_identity = place, file.inode(place)
        self._pid = os.getpid()

    async def close(self) -> None:
        if self._pid == os.getpid():
            self._pid = 0
            self._watcher.stop()
            parts = (self._writes, self._reads, self._watcher, self._file_lock)
            # Shielded: a caller that is cancelled must not leave half of them open.
            await asyncio.shield(asyncio.to_thread(lambda: [part.close() for part in parts]))

    def clone(self) -> Store:
        return self

    async def schema(self) -> Schema:
        return await self._read(lambda db: file.read_schema(db, self._migrations))

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._write(lambda db: file.migrate(db, self._migrations, target, self._now()))

    def _now(self) -> int:
        return micros(self._clock.now())

    async def time(self) -> datetime:
        if not self._clock.real:
            return self._clock.now()
        days = (await self._read(lambda db: db.execute("SELECT julianday('now')").fetchone()))[0]
        return instant(round((days - 2440587.5) * 86_400_000) * 1000)

    async def diagnose(self) -> list[Finding]:
        return await self._read(lambda db: doctor.diagnose(db, self.path))

    @property
    def listening(self) -> Listening:
        return "off"

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        """Waits until this process changes something, or another one has committed, whatever the topic."""
        self._check()
        return await self._watcher.wait(timeout, seen)

    # jobs

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        us = micros(now)
        self._idle = False
        if within is not None:
            return await self._in_caller_thread(lambda: self._enqueue_within(within, jobs, now, us))
        answers = await self._write(lambda db: enqueue.enqueue(db, jobs, now, us))
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
        thing = unwrap_proxy(within)
        db = thing if is_async(thing) else driver_connection(thing).connection
        if not isinstance(db, sqlite3.Connection):
            takes = (
                f"a sqlite3.Connection to {self.path!r} here, or SQLAlchemy's or Django's over one that is not awaited"
            )
            raise BadInput(f"within= takes {takes}; got {type(within).__name__}")
        try:
            file.check_caller_connection(db, self.path)
            return enqueue.enqueue(db, jobs, now, us)
        except sqlite3.Error as error:
            raise translate_error(error) from error

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
            next_at = await self._read(lambda db: claim.next_claim_at(db, queues, worker, tasks, us))
            if next_at is None or next_at > us:
                return Claim([], None if next_at is None else nearest_instant(next_at))
        taken, lease, next_at, expired = await self._write(lambda db: claim.claim(db, queues, worker, tasks, limit, us))
        rows: list[Row] = _decode(taken) if isinstance(taken, str) else taken
        rows.sort(key=lambda row: (row[3], row[4], row[0]))
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
            await self._write(lambda db: claim.set_aside(db, [one.name for one in broken], lease))
        return Claim(jobs, None if next_at is None else nearest_instant(next_at), expired, broken)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        def beating(db: sqlite3.Connection) -> BeatReply:
            if until > now:
                file.check_schema(db, self._migrations)
                file.check_same_file(*self._file_identity)
            return claim.beat(db, worker, micros(until), micros(now))

        return await self._write(beating)

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        sql = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE {HELD_INDEX_SQL} AND state = 'running' AND worker NOT IN
            (SELECT id FROM mainspring_workers WHERE until > :now) ORDER BY id LIMIT :limit"""
        values = {"now": micros(now), "limit": limit}
        jobs = [job_of(row) for row in await self._read(lambda db: lists.mark_undecodable(fetch_rows(db, sql, values)))]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._write(lambda db: claim.set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        ended = [(outcome, finish.outcome_row(outcome)) for outcome in outcomes]
        stands = await self._write(lambda db: finish.finish(db, ended))
        self._after_finish(outcomes)
        return stands

    def _after_finish(self, outcomes: Sequence[Outcome]) -> None:
        if any(outcome.then or outcome.breaker for outcome in outcomes):
            self._idle = False
        self._waiters.wake_all()

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._check()
        transaction.refuse_write_inside()
        return transaction.transaction(
            self._writes, self.path, self._durability, lambda outcome: self._after_finish([outcome])
        )

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._write(lambda db: finish.save_reports(db, reports))
        self._waiters.wake_all()
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        due = await self._read(lambda db: schedules.due(db, now, limit, computed))
        self._set_aside_schedules -= {one.name for one in due.unreadable}  # it is due again, so it was written since
        await self._set_aside(due.unreadable)
        return due

    async def _set_aside(self, broken: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in broken}
        if names - self._set_aside_schedules:
            await self._write(lambda db: schedules.set_aside(db, names))
            self._set_aside_schedules |= names

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._write(lambda db: fire.fire(db, firings, now))
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._waiters.wake_all()
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._write(lambda db: schedules.drop_schedules(db, names))

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._read(lambda db: schedules.schedules(db, names, limit, after))
        await self._set_aside(broken)
        return found

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._read(lambda db: schedules.ticks(db, name, limit, before))

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._write(lambda db: terms.acquire_term(db, name, holder, until, now))
        if answer.holder is None:
            self._waiters.wake_all()
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        return await self._read(lambda db: terms.held_terms(db, now))

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        self._idle = False
        changed = await self._write(lambda db: change.change(db, action, which, now, limit, reason, update, after))
        self._waiters.wake_all()
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._write(lambda db: db.execute(sql, (name, paused)).rowcount)
        self._waiters.wake_all()

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._write(lambda db: claim.set_commands(db, workers, commands, micros(now), seen))

    # reading

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        us = micros(now)
        rows = await self._read(lambda db: lists.jobs(db, which, us, limit, after, newest, sort, brief))
        return [job_of(row) for row in rows]

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        return executions_of(await self._read(lambda db: runs.executions(db, unique_ids(job_id), after, limit)))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._read(lambda db: read.logs(db, job_id, limit, after))

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        return await self._read(lambda db: read.overview(db, micros(now)))

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        sql = "SELECT id, info, until, orders FROM mainspring_workers WHERE until > :now ORDER BY id"
        rows = await self._rows(sql, {"now": micros(now)})
        return readable("worker", [(row[0], row) for row in rows], _worker_row)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._read(lambda db: tally.tallies(db, span, since))

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        return await self._read(lambda db: read.dead_groups(db, limit))

    # pruning

    async def finished_groups(self) -> list[tuple[State, str]]:
        return await self._read(read.finished_groups)

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._read(lambda db: read.prunable(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        since, us = micros(audited_since), micros(now)
        return Pruning(0, await self._write(lambda db: drop_expired_documents(db, us) + drop_old_entries(db, since)))

    # calls

    def _check(self) -> None:
        if self._pid == os.getpid():
            return
        if not self._pid:
            raise ShuttingDown(f"the store {self.path!r} is not open")
        # A forked child has none of its parent's threads, and must not touch its connections.
        self._open()

    async def _write(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        transaction.refuse_write_inside()
        with self._clock.outside():
            return await self._call_explained(self._writes, verb)

    async def _read(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        with self._clock.outside():
            return await self._call_explained(self._reads, verb)

    async def _call_explained(self, thread: WriterThread, verb: Callable[[sqlite3.Connection], T]) -> T:
        """The verb's result. Raises SchemaMismatch if it failed because the schema was changed meanwhile."""
        try:
            return await thread.call(verb)
        except StoreError as error:
            if file.is_schema_error(error):
                await thread.call(lambda db: file.check_schema(db, self._migrations))
            raise

    async def _rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        return await self._read(lambda db: db.execute(sql, values).fetchall())
