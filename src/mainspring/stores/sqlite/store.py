"""The SQLite store: one file, several processes, durable when a verb returns."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ...clock import Clock, SystemClock, instant, micros, nearest_instant
from ...config import Durability
from ...errors import BadInput, ShuttingDown, StoreError
from ...failpoint import failpoint
from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.finding import Finding
from ...records.job import Action, Enqueued, Job, NewJob, Shown, State, UnreadableRecord
from ...records.outcome import Outcome
from ...records.query import Changed, Cursor, Filter, Sort, Updates
from ...records.queue import DeadGroup, Queue
from ...records.run import Execution, LogLine, RunReport
from ...records.schema import Schema
from ...records.tally import Span, Tally
from ...records.unreadable import decoded, readable
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ...store import Store, Transaction
from ...survived_errors import SurvivedErrors
from ...sync import is_sync_caller, run_blocking
from ...task.retention import Rules
from ..broadcast import Broadcast
from ..caller_connection import awaited, borrowed, itself
from ..migrations import Migrations
from ..rows import COLUMNS, HELD, Row, claimed_of, executions_of, job_of
from ..rules import ids_in
from . import change, claim, enqueue, file, finish, fire, lists, read, tally, transaction
from . import doctor as condition
from . import schedules as series
from .documents import SqliteKeeper
from .fair_lock import FairFileLock
from .inotify import WriteWatch
from .lenient import only_text, rows_of
from .writer_thread import Watcher, WriterThread, translated

T = TypeVar("T")
_unwatched = SurvivedErrors("listener", "changes by other processes are found by polling")
# How often a waiting process looks whether another one has committed, where the system does not tell; and the
# pause between two looks for a commit that is on its way, of which there are so many.
WATCH, COMMIT, LOOKS = 0.01, 0.001, 1000

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_info = msgspec.json.Decoder(WorkerInfo).decode


def _live(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_info(info), instant(until), claim.orders_of(orders))


class SqliteStore(SqliteKeeper):
    """WAL, synchronous=FULL. One lane writes and commits many verbs together, another reads."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        steps: Migrations = file.STEPS,
    ) -> None:
        self.path, self._steps = path, steps
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._bell = Broadcast(self._clock)
        self._opening = threading.Lock()
        self._pid = 0
        self._idle, self._migrates = False, True
        self._aside: set[str] = set()

    # life

    async def open(self, *, migrate: bool = True) -> None:
        if self._pid != os.getpid():
            self._migrates = migrate
            with self._clock.outside():
                await asyncio.to_thread(self._open)
        elif migrate and not self._migrates:
            await self._write(lambda db: file.migrate(db, self._steps, None, self._now(), only_up=True))
            self._migrates = True

    def _open(self) -> None:
        with self._opening:
            if self._pid != os.getpid():
                self._connect()

    def _connect(self) -> None:
        place = file.prepare(self.path)
        turnstile = FairFileLock(f"{place}-lock")
        writer = file.connect(self.path, self._durability)
        if self._migrates:
            file.migrate(writer, self._steps, None, self._now(), only_up=True)
        reader, watcher = (file.connect(self.path, self._durability) for _ in range(2))
        self._watcher = Watcher(watcher)
        self._bell = Broadcast(self._clock)
        self._watch = self._watching() if self._clock.real else None
        self._turnstile = turnstile
        self._writes = WriterThread("writer", writer, "BEGIN IMMEDIATE", turnstile)
        self._reads = WriterThread("reader", reader, "BEGIN", nullcontext(), gives_up=True)
        self._counted: tuple[tuple[int, int], read.Unfinished] | None = None
        self._place = place, file.inode(place)
        self._pid = os.getpid()

    async def close(self) -> None:
        if self._pid == os.getpid():
            self._pid = 0
            if self._watch is not None:
                self._watch.close()
            parts = (self._writes, self._reads, self._watcher, self._turnstile)
            # A caller who is cancelled does not leave half of them open.
            await asyncio.shield(asyncio.to_thread(lambda: [part.close() for part in parts]))

    def beside(self) -> Store:
        return self

    @property
    def newest_schema(self) -> int:
        return self._steps.newest

    async def schema(self) -> Schema:
        return await self._read(lambda db: file.found(db, self._steps))

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._write(lambda db: file.migrate(db, self._steps, target, self._now()))

    def script(self, at: int, target: int | None = None) -> str:
        raise BadInput("the steps of a SQLite file need this library: mainspring migrate up takes them")

    def _now(self) -> int:
        return micros(self._clock.now())

    async def time(self) -> datetime:
        if not self._clock.real:
            return self._clock.now()
        days = (await self._read(lambda db: db.execute("SELECT julianday('now')").fetchone()))[0]
        return instant(round((days - 2440587.5) * 86_400_000) * 1000)

    async def diagnose(self) -> list[Finding]:
        return await self._read(lambda db: condition.condition(db, self.path))

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        await self._wait(timeout)

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        await self._wait(timeout)

    def hears(self) -> bool | None:
        return None

    async def _wait(self, timeout: float) -> None:
        """Until this process rings, or another one has committed."""
        self._check()
        if not self._clock.real:
            return await self._bell.wait(timeout)
        if self._watch is not None:
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

    def _watching(self) -> WriteWatch | None:
        """Rings for commits of other processes, where the system tells of writes."""
        bell, watcher = self._bell, self._watcher
        seen = watcher.version()

        def written() -> None:
            # The log is written before the commit can be seen: look until it can. And a busy file must not
            # keep an idle worker busy: a ring every WATCH is enough.
            nonlocal seen
            with suppress(sqlite3.ProgrammingError):  # the store was closed meanwhile
                for _ in range(LOOKS):
                    if (now := watcher.version()) != seen:
                        seen = now
                        bell.ring()
                        time.sleep(WATCH)
                        return
                    time.sleep(COMMIT)

        try:
            return WriteWatch(f"{os.path.realpath(self.path)}-wal", written)
        except OSError as error:
            _unwatched(error)
            return None

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        us = micros(now)
        self._idle = False
        if within is not None:
            return await self._lent(lambda: self._enqueue_within(within, jobs, now, us))
        answers = await self._write(lambda db: enqueue.enqueue(db, jobs, now, us))
        self._bell.ring()
        return answers

    async def _lent(self, act: Callable[[], T]) -> T:
        """In the caller's own thread, where its connection belongs."""
        self._check()
        if not is_sync_caller():
            return act()
        with self._clock.outside():
            return await run_blocking(act)

    def _enqueue_within(self, within: Any, jobs: Sequence[NewJob], now: datetime, us: int) -> list[Enqueued]:
        thing = itself(within)
        db = thing if awaited(thing) else borrowed(thing).connection
        if not isinstance(db, sqlite3.Connection):
            takes = (
                f"a sqlite3.Connection to {self.path!r} here, or SQLAlchemy's or Django's over one that is not awaited"
            )
            raise BadInput(f"within= takes {takes}; got {type(within).__name__}")
        try:
            file.join(db, self.path)
            return enqueue.enqueue(db, jobs, now, us)
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
            next_at = await self._read(lambda db: claim.look(db, queues, worker, tasks, us))
            if next_at is None or next_at > us:
                return Claim([], None if next_at is None else nearest_instant(next_at))
        taken, lease, next_at, expired = await self._write(lambda db: claim.claim(db, queues, worker, tasks, limit, us))
        rows: list[Row] = _decode(taken) if isinstance(taken, str) else taken
        rows.sort(key=lambda row: (row[3], row[4], row[0]))
        self._idle = not rows
        failpoint("claim.after_commit")
        if expired:
            self._bell.ring()
        # Rows become jobs here, and outcomes rows: the writing thread has enough to do.
        pairs = [(row[0], row) for row in rows]
        checked = isinstance(taken, str)
        jobs, broken = decoded(
            "job", pairs, lambda row: claimed_of(row if checked else only_text(row), lease, worker, now)
        )
        if broken:
            await self._write(lambda db: claim.set_aside(db, [one.name for one in broken], lease))
        return Claim(jobs, None if next_at is None else nearest_instant(next_at), expired, broken)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        def beating(db: sqlite3.Connection) -> BeatReply:
            if until > now:
                file.check(db, self._steps)
                file.check_place(*self._place)
            return claim.beat(db, worker, micros(until), micros(now))

        return await self._write(beating)

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        sql = f"""SELECT {COLUMNS} FROM mainspring_jobs WHERE {HELD} AND state = 'running' AND worker NOT IN
            (SELECT id FROM mainspring_workers WHERE until > :now) ORDER BY id LIMIT :limit"""
        values = {"now": micros(now), "limit": limit}
        jobs = [job_of(row) for row in await self._read(lambda db: lists.marked(rows_of(db, sql, values)))]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._write(lambda db: claim.set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        ended = [(outcome, finish.ended_row(outcome)) for outcome in outcomes]
        stands = await self._write(lambda db: finish.finish(db, ended))
        self._told(outcomes)
        return stands

    def _told(self, outcomes: Sequence[Outcome]) -> None:
        if any(outcome.then or outcome.breaker for outcome in outcomes):
            self._idle = False
        self._bell.ring()

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._check()
        transaction.refuse_inside()
        return transaction.transaction(self._writes, self.path, self._durability, lambda outcome: self._told([outcome]))

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._write(lambda db: finish.report(db, reports))
        self._bell.ring()
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        due = await self._read(lambda db: series.due(db, now, limit, computed))
        self._aside -= {one.name for one in due.unreadable}  # due again, so it was written since
        await self._set_aside(due.unreadable)
        return due

    async def _set_aside(self, schedules: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in schedules}
        if names - self._aside:
            await self._write(lambda db: series.set_aside(db, names))
            self._aside |= names

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._write(lambda db: fire.fire(db, firings, now))
        failpoint("fire.after_commit")
        self._bell.ring()
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._write(lambda db: series.drop(db, names))

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._read(lambda db: series.schedules(db, names, limit, after))
        await self._set_aside(broken)
        return found

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._read(lambda db: series.ticks(db, name, limit, before))

    async def lead(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._write(lambda db: series.lead(db, name, holder, until, now))
        if answer.holder is None:
            self._bell.ring()
        return answer

    async def leaders(self, *, now: datetime) -> list[LeaderTerm]:
        return await self._read(lambda db: series.leaders(db, now))

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
        self._bell.ring()
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._write(lambda db: db.execute(sql, (name, paused)).rowcount)
        self._bell.ring()

    async def order(
        self,
        workers: Collection[WorkerId] | None,
        orders: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._write(lambda db: claim.order(db, workers, orders, micros(now), seen))

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
        return executions_of(await self._read(lambda db: change.executions(db, ids_in(job_id), after, limit)))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._read(lambda db: read.logs(db, job_id, limit, after))

    async def queues(self, *, now: datetime) -> list[Queue]:
        return await self._read(lambda db: read.queues(db, self._unfinished(db, micros(now))))

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        sql = "SELECT id, info, until, orders FROM mainspring_workers WHERE until > :now ORDER BY id"
        rows = await self._rows(sql, {"now": micros(now)})
        return readable("worker", [(row[0], row) for row in rows], _live)

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        return await self._read(lambda db: read.counts(db, self._unfinished(db, micros(now))))

    def _unfinished(self, db: sqlite3.Connection, now: int) -> read.Unfinished:
        """Counted once for both who ask of one instant, as statistics do."""
        moment = now, db.execute("PRAGMA data_version").fetchone()[0]
        if self._counted is None or self._counted[0] != moment:
            self._counted = moment, read.unfinished(db, now)
        return self._counted[1]

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._read(lambda db: tally.tallies(db, span, since))

    async def circuits(self) -> list[Circuit]:
        return await self._read(finish.circuits)

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        return await self._read(lambda db: read.dead(db, limit))

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        return await self._read(read.groups)

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._read(lambda db: read.surplus(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    async def forget(self, rules: Rules, *, now: datetime) -> int:
        self._check()
        return 0

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
        transaction.refuse_inside()
        with self._clock.outside():
            return await self._explained(self._writes, verb)

    async def _read(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        self._check()
        with self._clock.outside():
            return await self._explained(self._reads, verb)

    async def _explained(self, lane: WriterThread, verb: Callable[[sqlite3.Connection], T]) -> T:
        """Says so if the schema was changed under us."""
        try:
            return await lane.call(verb)
        except StoreError as error:
            if file.points_to_schema(error):
                await lane.call(lambda db: file.check(db, self._steps))
            raise

    async def _rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        return await self._read(lambda db: db.execute(sql, values).fetchall())
