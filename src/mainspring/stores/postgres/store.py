"""The PostgreSQL store: one database, any number of machines; a verb is durable when it returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ...clock import EPOCH, Clock, SystemClock, instant, micros, nearest_instant
from ...config import Durability
from ...errors import SchemaMismatch, ShuttingDown, StoreError
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
from ...survived_errors import SurvivedErrors
from ...task.retention import Rules
from ..migrations import Migrations
from ..rows import Row, claimed_job_of, job_of
from ..rules import unique_ids
from . import (
    change,
    claim,
    count,
    doctor,
    enqueue,
    finish,
    fire,
    lists,
    partition_pruning,
    partitions,
    read,
    schedules,
    schema,
    script,
    tally,
    terms,
)
from .audit import PostgresAudit, drop_old_entries
from .beat_findings import BeatFindings, find_on_beat
from .claim import ClaimRequest
from .documents import PostgresDocuments, drop_expired_documents
from .feed import PostgresFeed
from .listener import PostgresListener
from .notifier import News, Notifier, ProcessWakeups, is_due_soon
from .pool import Pool, Session, Verb
from .transaction import TaskConnections
from .url import PostgresUrl
from .within import CallerTransactions

_survey_errors = SurvivedErrors("backlog", "the next claim of a long backlog tries again")
_fold_errors = SurvivedErrors("tally", "the next beat sums up the runs")
T = TypeVar("T")

# The doctor waits this long for the listener to prove that notifications arrive.
LISTENER_PROOF_SECONDS = 8.0

_encode = msgspec.json.encode
_info = msgspec.json.Decoder(WorkerInfo).decode


def _worker_row(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_info(info), instant(until), claim.commands_of(orders))


async def _close_all(survey: asyncio.Task[None] | None, *parts: Notifier | PostgresListener | Pool | None) -> None:
    if survey is not None:
        survey.cancel()
        await asyncio.gather(survey, return_exceptions=True)
    for part in parts:
        if part is not None:
            await part.close()


def _makes_work(outcome: Outcome) -> bool:
    """Whether the outcome makes a job claimable or a schedule due."""
    again = outcome.state is State.PENDING and is_due_soon(outcome.run_at, outcome.finished_at)
    return again or bool(outcome.then or outcome.breaker or outcome.schedule)


class PostgresStore(PostgresDocuments, PostgresAudit, PostgresFeed):
    """Each verb is one statement or one short transaction. A handle serves the event loop in which it was opened."""

    def __init__(
        self,
        url: PostgresUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        wakeups: ProcessWakeups | None = None,
        migrations: Migrations = schema.MIGRATIONS,
    ) -> None:
        self.url, self._migrations = url, migrations
        self.capabilities = Capabilities(
            store="the PostgreSQL store", newest_schema=migrations.newest, transactions=True, scripts=True
        )
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._wakeups = wakeups or ProcessWakeups(url, self._clock)
        self._pool: Pool | None = None
        self._notifier: Notifier | None = None
        self._listener: PostgresListener | None = None
        self._opening: asyncio.Lock | None = None
        self._within: CallerTransactions | None = None
        self._task_connections: TaskConnections | None = None
        self._idle = self._ready = False
        self._set_aside_schedules: set[str] = set()
        self._backlog = claim.BacklogCursor()
        self._survey: asyncio.Task[None] | None = None
        self._leases = claim.OpenLeases()
        # When partitions are next created, and next pruned.
        self._create_partitions_at = self._prune_partitions_at = EPOCH

    # opening and closing

    async def open(self, *, migrate: bool = True) -> None:
        if self._pool is not None and (self._pool.pid != os.getpid() or self._pool.loop.is_closed()):
            if self._pool.pid != os.getpid():
                self._wakeups = ProcessWakeups(self.url, self._clock)
            elif self._listener is not None:
                self._listener.abandon()
            self._pool.abandon()
            if self._task_connections is not None:
                self._task_connections.abandon()
            self._pool = self._notifier = self._listener = self._opening = self._task_connections = self._survey = None
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                await self._connect(migrate)
            elif migrate and not self._ready:
                with self._clock.outside():
                    await self._prepare(self._pool)

    async def _connect(self, migrate: bool) -> None:
        pool = Pool(self.url, self._durability)
        try:
            with self._clock.outside():
                await (self._prepare(pool) if migrate else pool.call(self._read_schema))
        except BaseException:
            await pool.close()
            raise
        self._pool, self._idle, self._ready = pool, False, migrate
        self._notifier = Notifier(pool, self._wakeups) if self._clock.real else None
        self._listener = PostgresListener(pool, self._wakeups) if self._clock.real and self.url.listens else None

    async def _prepare(self, pool: Pool) -> None:
        """Migrates the schema unless this release can work on it, and creates the next partitions."""
        if not (await pool.call(self._read_schema)).usable:
            await pool.call(lambda db: schema.migrate(db, self._migrations, None, only_up=True))
        await self._create_partitions(pool, self._clock.now(), partitions.DAYS_AHEAD + 1)
        self._ready = True

    async def _read_schema(self, db: Session) -> Schema:
        return await schema.read_schema(db, self._migrations)

    async def close(self) -> None:
        """Can be called in any event loop; connections are closed in their own one, if it still runs."""
        pool, notifier, listener, task_connections, survey = (
            self._pool,
            self._notifier,
            self._listener,
            self._task_connections,
            self._survey,
        )
        self._pool = self._notifier = self._listener = self._task_connections = self._survey = None
        if pool is None:
            return
        if pool.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _close_all(survey, notifier, listener, task_connections, pool)
        elif pool.pid == os.getpid() and pool.loop.is_running():
            closing = _close_all(survey, notifier, listener, task_connections, pool)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, pool.loop))
        else:
            for part in (listener, task_connections, pool):
                if part is not None:
                    part.abandon()

    def clone(self) -> Store:
        return PostgresStore(
            self.url, clock=self._clock, durability=self._durability, wakeups=self._wakeups, migrations=self._migrations
        )

    async def schema(self) -> Schema:
        return await self._call(self._read_schema)

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._call(lambda db: schema.migrate(db, self._migrations, target))

    def script(self, at: int, target: int | None = None) -> str:
        return script.script(self.url, self._migrations, at, target)

    async def time(self) -> datetime:
        if not self._clock.real:
            self._open()
            return self._clock.now()
        at: datetime = await self._call(lambda db: db.value("SELECT clock_timestamp()"))
        return at

    async def diagnose(self) -> list[Finding]:
        found = await self._call(doctor.diagnose)
        pooled = bool(self._open().connector.pooled)
        listens = self._listener is not None and await self._listener.is_listening(LISTENER_PROOF_SECONDS)
        trouble = self._listener.trouble if self._listener is not None else ""
        listener = doctor.listener(self._listener is not None, listens, trouble, pooled)
        return [*found, doctor.pooler(pooled), listener]

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._open()
        if self._listener is not None:
            self._listener.listen()
        change = await self._wakeups.broadcast("new" if topic == "claimable" else topic).wait(timeout, seen)
        if topic == "claimable":
            self._idle = False  # the next claim takes at once, without reading the view first
        return change

    @property
    def listening(self) -> Listening:
        if self._wakeups.listening:
            return "ok"
        return "failed" if self._listener is not None and self._listener.trouble else "off"

    def _announce(self, *topics: News) -> None:
        """Wakes waiters in this process at once, and notifies other processes soon."""
        self._wakeups.wake(*topics)
        if self._notifier is not None:
            self._notifier.notify(*topics)

    # jobs

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._idle = False
        if within is not None:
            return await self._enqueue_within(within, jobs, now)
        if not jobs:
            self._open()
            return []
        notify = any(is_due_soon(job.run_at, now) for job in jobs)
        single = notify and len(jobs) == 1 and not enqueue.has_keys(jobs)
        if single and self._notifier is not None and (text := self._notifier.piggyback()) is not None:
            answers = await self._hot(lambda db: enqueue.insert(db, jobs, now, text))
            self._wakeups.wake("new")
            return answers
        answers = await self._enqueue(jobs, now)
        if notify:
            self._announce("new")
        return answers

    async def _enqueue(self, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        if enqueue.has_keys(jobs):
            return await self._transact(lambda db: enqueue.enqueue(db, jobs, now))
        if len(jobs) >= enqueue.MIN_COPY_ROWS:
            with suppress(enqueue.AlreadyInserted):
                return await self._transact(lambda db: enqueue.copy(db, jobs, now))
        return await self._hot(lambda db: enqueue.insert(db, jobs, now))

    async def _enqueue_within(self, within: Any, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        pool = self._open()
        if self._within is None or self._within.pool is not pool:
            self._within = CallerTransactions(pool)
        with self._clock.outside():
            return await self._within.enqueue(within, jobs, now)

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        request = ClaimRequest(queues, worker, tasks, limit, now)
        expired: list[JobId] = []
        # Nothing was due last time: read the view first, so that an idle worker sends one statement.
        rows = [] if self._idle else await self._take(request)
        next_at = rows[0]["next_at"] if rows else -1
        if next_at == -1:
            view = await self._hot(lambda db: claim.read_claim_view(db, request))
            next_at = view.next_at if view.alive else None
            if self._idle and view.has_work(request.now):
                self._idle = False
                return await self.claim(queues, worker=worker, tasks=tasks, limit=limit, now=now)
            if not rows and view.has_work(request.now):
                rows, next_at, expired = await self._transact(lambda db: claim.claim(db, request))
        self._idle = not rows
        failpoint("claim.after_commit")
        if self._idle:
            await self._open().warm(2)  # one for a finish, one for the next claim beside it
        if expired:
            self._announce("final")
        pairs = [(row["id"], row) for row in rows]
        jobs, broken = decoded("job", pairs, lambda row: claimed_job_of(row, request.lease, worker, now))
        if broken:
            await self._transact(lambda db: claim.set_aside(db, [one.name for one in broken], request.lease))
        self._leases.opened(worker, request.lease, len(jobs))
        # Not before now: jobs that other claims had locked may still be due.
        return Claim(jobs, None if next_at is None else max(now, nearest_instant(next_at)), expired, broken)

    async def _take(self, request: ClaimRequest) -> list[Any]:
        cursor = self._backlog
        if positions := cursor.positions_for(request):
            rows = await self._hot(lambda db: claim.take_known(db, request, positions))
            cursor.advance(rows, request.limit)
        else:
            rows = await self._hot(lambda db: claim.take_plain(db, request))
        backlog = len(rows) == request.limit >= claim.MIN_BACKLOG_JOBS
        if backlog and cursor.is_survey_due(self._clock.monotonic()) and (self._survey is None or self._survey.done()):
            self._survey = asyncio.get_running_loop().create_task(self._survey_backlog(request))
            if not self._clock.real:
                await self._survey
        return rows

    async def _survey_backlog(self, request: ClaimRequest) -> None:
        with _survey_errors.survive(StoreError), suppress(ShuttingDown):
            began = self._clock.monotonic()
            view = await self._hot(lambda db: claim.read_claim_view(db, request))
            now = self._clock.monotonic()
            self._backlog.learn(view, request, now, now - began)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        listens = self._wakeups.listening

        async def beat_and_check(db: Session) -> tuple[BeatReply, BeatFindings | None]:
            beat = await claim.beat(db, worker, micros(until), micros(now))
            if until > now:
                await schema.check_schema(db, self._migrations)
            return beat, await find_on_beat(db, worker, now) if listens else None

        beat, found = await self._transact(beat_and_check)
        if found is not None:
            self._wakeups.live_workers, beat = found.live_workers, replace(beat, lost=found.lost)
            if found.due:
                self._wakeups.wake("new")
        with _fold_errors.survive(StoreError):
            await self._transact(tally.fold_counts)
        if now >= self._create_partitions_at:
            with self._clock.outside():
                await self._create_partitions(self._open(), now, 1)  # one only, so that the next beat is not late
        return beat

    async def _create_partitions(self, pool: Pool, now: datetime, most: int) -> None:
        more = await partitions.create_missing_partitions(pool, now, most)
        self._create_partitions_at = now if more else now + partitions.CHECK_EVERY

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        jobs = [job_of(row) for row in await self._call(lambda db: claim.orphaned_runs(db, micros(now), limit))]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._transact(lambda db: claim.set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if not outcomes:
            self._open()
            return set()
        worker_and_leases = self._leases.finished(outcomes)
        if finish.are_simple(outcomes) and await self._hot(
            lambda db: finish.finish_simple(db, outcomes, *worker_and_leases)
        ):
            stands = {outcome.id for outcome in outcomes}
        else:
            stands = await self._transact(lambda db: finish.finish(db, outcomes))
        self._after_finish(outcomes)
        return stands

    def _after_finish(self, outcomes: Sequence[Outcome]) -> None:
        if any(_makes_work(outcome) for outcome in outcomes):
            self._idle = False
            self._announce("new")
        self._announce("final")

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._open()
        if self._task_connections is None:
            self._task_connections = TaskConnections(self.url)
        return self._task_connections.begin(lambda outcome: self._after_finish([outcome]))

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._transact(lambda db: finish.save_reports(db, reports))
        self._announce("final")
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        due = await self._call(lambda db: schedules.due(db, now, limit, computed))
        self._set_aside_schedules -= {one.name for one in due.unreadable}  # it is due again, so it was written since
        await self._set_aside(due.unreadable)
        return due

    async def _set_aside(self, broken: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in broken}
        if names - self._set_aside_schedules:
            await self._transact(lambda db: schedules.set_aside(db, names))
            self._set_aside_schedules |= names

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._transact(lambda db: fire.fire(db, firings, now))
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._announce("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._transact(lambda db: schedules.drop_schedules(db, names))

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._call(lambda db: schedules.schedules(db, names, limit, after))
        await self._set_aside(broken)
        return found

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._call(lambda db: schedules.ticks(db, name, limit, before))

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._transact(lambda db: terms.acquire_term(db, name, holder, until, now))
        if answer.holder is None:
            self._announce("new")
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        return await self._call(lambda db: terms.held_terms(db, now))

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
        changed = await self._transact(lambda db: change.change(db, action, which, now, limit, reason, update, after))
        self._announce("new", "final")
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._call(lambda db: db.run(sql, name, paused))
        self._announce("new")

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._transact(lambda db: claim.set_commands(db, workers, commands, micros(now), seen))

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
        return await self._call(lambda db: read.executions(db, unique_ids(job_id), after, limit))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._call(lambda db: read.logs(db, job_id, limit, after))

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        return await self._read(lambda db: count.overview(db, micros(now), finished))

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        sql = "SELECT id, info, until, orders FROM mainspring_workers WHERE until > $1 ORDER BY id"
        rows = await self._call(lambda db: db.rows(sql, micros(now)))
        return readable("worker", [(row[0], row) for row in rows], _worker_row)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._call(lambda db: tally.tallies(db, span, since))

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        return await self._read(lambda db: count.dead_groups(db, limit))

    # pruning

    async def finished_groups(self) -> list[tuple[State, str]]:
        return await self._call(read.finished_groups)

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._read(lambda db: read.prunable(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        async def drop_old(db: Session) -> int:
            documents = await drop_expired_documents(db, micros(now))
            return documents + await drop_old_entries(db, micros(audited_since))

        return Pruning(await self._prune_partitions(rules, now), await self._transact(drop_old))

    async def _prune_partitions(self, rules: Rules, now: datetime) -> int:
        pool = self._open()
        if now < self._prune_partitions_at:
            return 0
        with self._clock.outside():
            pruned = await partition_pruning.prune_partitions(pool, rules, now)
        self._prune_partitions_at = now if pruned is not None else now + partition_pruning.LOCK_RETRY_AFTER
        return pruned or 0

    # calls

    def _open(self) -> Pool:
        if self._pool is None:
            raise ShuttingDown(f"the store {self.url.shown} is not open")
        if self._pool.loop is not asyncio.get_running_loop():
            raise StoreError("this handle on the PostgreSQL store serves another event loop: open one with clone()")
        return self._pool

    async def _call(self, verb: Verb[T]) -> T:
        return await self._explained(self._open().call, verb)

    async def _hot(self, verb: Verb[T]) -> T:
        return await self._explained(self._open().hot, verb)

    async def _read(self, verb: Verb[T]) -> T:
        return await self._explained(self._open().read, verb)

    async def _transact(self, verb: Verb[T]) -> T:
        return await self._explained(self._open().transact, verb)

    async def _explained(self, run: Callable[[Verb[T]], Awaitable[T]], verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            try:
                return await run(verb)
            except StoreError as error:
                await self._explain_schema_error(pool, error)
                raise

    async def _explain_schema_error(self, pool: Pool, error: StoreError) -> None:
        """Raises SchemaMismatch if the call failed because the schema was changed meanwhile."""
        if schema.is_schema_error(error) and (trouble := (await pool.call(self._read_schema)).trouble):
            raise SchemaMismatch(trouble) from error
