"""The PostgreSQL store: one database, any number of machines, durable when a verb returns."""

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
from ...task.retention import Rules
from ..migrations import Migrations
from ..rows import Row, claimed_of, job_of
from ..rules import ids_in
from . import change, claim, count, enqueue, finish, fire, lists, read, schema, script, tally
from . import doctor as condition
from . import partition_pruning as forget
from . import partitions as days
from . import schedules as series
from .beat_findings import BeatFindings, news
from .claim import ClaimRequest
from .documents import PostgresKeeper
from .listener import PostgresListener
from .notifier import Notifier, ProcessWakeups, Word, soon
from .pool import Pool, Session, Verb
from .transaction import Lender
from .url import PostgresUrl
from .within import Within

_unlearned = SurvivedErrors("backlog", "the next claim of a long backlog looks again")
_unfolded = SurvivedErrors("tally", "the next beat sums up the runs")
T = TypeVar("T")

# Seconds in which a listener finds out whether it hears.
PROBED = 8.0

_encode = msgspec.json.encode
_info = msgspec.json.Decoder(WorkerInfo).decode


def _live(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_info(info), instant(until), claim.orders_of(orders))


async def _shut(learning: asyncio.Task[None] | None, *parts: Notifier | PostgresListener | Pool | None) -> None:
    if learning is not None:
        learning.cancel()
        await asyncio.gather(learning, return_exceptions=True)
    for part in parts:
        if part is not None:
            await part.close()


def _stirs(outcome: Outcome) -> bool:
    """Whether it makes something claimable, be it the job itself, or a schedule due."""
    again = outcome.state is State.PENDING and soon(outcome.run_at, outcome.finished_at)
    return again or bool(outcome.then or outcome.breaker or outcome.schedule)


class PostgresStore(PostgresKeeper):
    """Each verb is one statement or one short transaction. A handle serves the event loop in which it was opened."""

    def __init__(
        self,
        place: PostgresUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        kin: ProcessWakeups | None = None,
        steps: Migrations = schema.STEPS,
    ) -> None:
        self.place, self._steps = place, steps
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._kin = kin or ProcessWakeups(place, self._clock)
        self._pool: Pool | None = None
        self._wire: Notifier | None = None
        self._ear: PostgresListener | None = None
        self._opening: asyncio.Lock | None = None
        self._within: Within | None = None
        self._lender: Lender | None = None
        self._idle = self._ready = False
        self._aside: set[str] = set()
        self._stride = claim.BacklogCursor()
        self._learning: asyncio.Task[None] | None = None
        self._leases = claim.OpenLeases()
        # Before these the parts of the history are not looked at again.
        self._make_at = self._forget_at = EPOCH

    # life

    async def open(self, *, migrate: bool = True) -> None:
        if self._pool is not None and (self._pool.pid != os.getpid() or self._pool.loop.is_closed()):
            if self._pool.pid != os.getpid():
                self._kin = ProcessWakeups(self.place, self._clock)
            elif self._ear is not None:
                self._ear.forget()
            self._pool.forget()
            if self._lender is not None:
                self._lender.forget()
            self._pool = self._wire = self._ear = self._opening = self._lender = self._learning = None
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                await self._connect(migrate)
            elif migrate and not self._ready:
                with self._clock.outside():
                    await self._prepare(self._pool)

    async def _connect(self, migrate: bool) -> None:
        pool = Pool(self.place, self._durability)
        try:
            with self._clock.outside():
                await (self._prepare(pool) if migrate else pool.call(self._found))
        except BaseException:
            await pool.close()
            raise
        self._pool, self._idle, self._ready = pool, False, migrate
        self._wire = Notifier(pool, self._kin) if self._clock.real else None
        self._ear = PostgresListener(pool, self._kin) if self._clock.real and self.place.listens else None

    async def _prepare(self, pool: Pool) -> None:
        """The schema is one that this release can work on."""
        if not (await pool.call(self._found)).usable:
            await pool.call(lambda db: schema.migrate(db, self._steps, None, only_up=True))
        await self._make_days(pool, self._clock.now(), days.AHEAD + 1)
        self._ready = True

    async def _found(self, db: Session) -> Schema:
        return await schema.found(db, self._steps)

    async def close(self) -> None:
        """From any event loop: connections are given back in the one they belong to, if it still runs."""
        pool, wire, ear, lender, learning = self._pool, self._wire, self._ear, self._lender, self._learning
        self._pool = self._wire = self._ear = self._lender = self._learning = None
        if pool is None:
            return
        if pool.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _shut(learning, wire, ear, lender, pool)
        elif pool.pid == os.getpid() and pool.loop.is_running():
            shutting = _shut(learning, wire, ear, lender, pool)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(shutting, pool.loop))
        else:
            for part in (ear, lender, pool):
                if part is not None:
                    part.forget()

    def beside(self) -> Store:
        return PostgresStore(
            self.place, clock=self._clock, durability=self._durability, kin=self._kin, steps=self._steps
        )

    @property
    def newest_schema(self) -> int:
        return self._steps.newest

    async def schema(self) -> Schema:
        return await self._call(self._found)

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._call(lambda db: schema.migrate(db, self._steps, target))

    def script(self, at: int, target: int | None = None) -> str:
        return script.script(self.place, self._steps, at, target)

    async def time(self) -> datetime:
        if not self._clock.real:
            self._open()
            return self._clock.now()
        at: datetime = await self._call(lambda db: db.value("SELECT clock_timestamp()"))
        return at

    async def diagnose(self) -> list[Finding]:
        found = await self._call(condition.condition)
        pooled = bool(self._open().route.pooled)
        hears = self._ear is not None and await self._ear.settled(PROBED)
        trouble = self._ear.trouble if self._ear is not None else ""
        ways = [
            condition.pooler(pooled),
            condition.listener(self._ear is not None, hears, trouble, pooled),
        ]
        return [*found, *ways]

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        await self._wait("new", timeout)
        self._idle = False  # a look before the claim would only make a job wait

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        await self._wait("final", timeout)

    async def _wait(self, word: Word, timeout: float) -> None:
        self._open()
        if self._ear is not None:
            self._ear.listen()
        await self._kin.bell(word).wait(timeout)

    def hears(self) -> bool | None:
        if self._kin.hears:
            return True
        return False if self._ear is not None and self._ear.trouble else None

    def _tell(self, *words: Word) -> None:
        """Here at once, elsewhere soon."""
        self._kin.ring(*words)
        if self._wire is not None:
            self._wire.tell(*words)

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._idle = False
        if within is not None:
            return await self._enqueue_within(within, jobs, now)
        if not jobs:
            self._open()
            return []
        told = any(soon(job.run_at, now) for job in jobs)
        alone = told and len(jobs) == 1 and not enqueue.keyed(jobs)
        if alone and self._wire is not None and (word := self._wire.ride()) is not None:
            answers = await self._hot(lambda db: enqueue.insert(db, jobs, now, word))
            self._kin.ring("new")
            return answers
        answers = await self._enqueue(jobs, now)
        if told:
            self._tell("new")
        return answers

    async def _enqueue(self, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        if enqueue.keyed(jobs):
            return await self._step(lambda db: enqueue.enqueue(db, jobs, now))
        if len(jobs) >= enqueue.MANY:
            with suppress(enqueue.AlreadyInserted):
                return await self._step(lambda db: enqueue.copy(db, jobs, now))
        return await self._hot(lambda db: enqueue.insert(db, jobs, now))

    async def _enqueue_within(self, within: Any, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        pool = self._open()
        if self._within is None or self._within.pool is not pool:
            self._within = Within(pool)
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
        asked = ClaimRequest(queues, worker, tasks, limit, now)
        expired: list[JobId] = []
        # Where nothing was due last time a look comes first, so that an idle worker asks once.
        rows = [] if self._idle else await self._take(asked)
        next_at = rows[0]["next_at"] if rows else -1
        if next_at == -1:
            view = await self._hot(lambda db: claim.look(db, asked))
            next_at = view.next_at if view.alive else None
            if self._idle and view.acts(asked.now):
                self._idle = False
                return await self.claim(queues, worker=worker, tasks=tasks, limit=limit, now=now)
            if not rows and view.acts(asked.now):
                rows, next_at, expired = await self._step(lambda db: claim.claim(db, asked))
        self._idle = not rows
        failpoint("claim.after_commit")
        if self._idle:
            await self._open().warm(2)  # for a finish and, beside it, the next claim
        if expired:
            self._tell("final")
        pairs = [(row["id"], row) for row in rows]
        jobs, broken = decoded("job", pairs, lambda row: claimed_of(row, asked.lease, worker, now))
        if broken:
            await self._step(lambda db: claim.set_aside(db, [one.name for one in broken], asked.lease))
        self._leases.begun(worker, asked.lease, len(jobs))
        # What others had locked may be due still.
        return Claim(jobs, None if next_at is None else max(now, nearest_instant(next_at)), expired, broken)

    async def _take(self, asked: ClaimRequest) -> list[Any]:
        stride = self._stride
        if known := stride.of(asked):
            rows = await self._hot(lambda db: claim.take_known(db, asked, known))
            stride.took(rows, asked.limit)
        else:
            rows = await self._hot(lambda db: claim.take_plain(db, asked))
        long = len(rows) == asked.limit >= claim.BACKLOG
        if long and stride.due(self._clock.monotonic()) and (self._learning is None or self._learning.done()):
            self._learning = asyncio.get_running_loop().create_task(self._learn(asked))
            if not self._clock.real:
                await self._learning
        return rows

    async def _learn(self, asked: ClaimRequest) -> None:
        with _unlearned.survive(StoreError), suppress(ShuttingDown):
            began = self._clock.monotonic()
            view = await self._hot(lambda db: claim.look(db, asked))
            now = self._clock.monotonic()
            self._stride.learn(view, asked, now, now - began)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        hears = self._kin.hears

        async def step(db: Session) -> tuple[BeatReply, BeatFindings | None]:
            beat = await claim.beat(db, worker, micros(until), micros(now))
            if until > now:
                await schema.check(db, self._steps)
            return beat, await news(db, worker, now) if hears else None

        beat, found = await self._step(step)
        if found is not None:
            self._kin.crowd, beat = found.crowd, replace(beat, lost=found.lost)
            if found.due:
                self._kin.ring("new")
        with _unfolded.survive(StoreError):
            await self._step(tally.fold)
        if now >= self._make_at:
            with self._clock.outside():
                await self._make_days(self._open(), now, 1)  # one, as the next beat must not be late
        return beat

    async def _make_days(self, pool: Pool, now: datetime, most: int) -> None:
        more = await days.keep(pool, now, most)
        self._make_at = now if more else now + days.EVERY

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        jobs = [job_of(row) for row in await self._call(lambda db: claim.expired(db, micros(now), limit))]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._step(lambda db: claim.set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if not outcomes:
            self._open()
            return set()
        freed = self._leases.ended(outcomes)
        if finish.simple(outcomes) and await self._hot(lambda db: finish.finish_simple(db, outcomes, *freed)):
            stands = {outcome.id for outcome in outcomes}
        else:
            stands = await self._step(lambda db: finish.finish(db, outcomes))
        self._ended(outcomes)
        return stands

    def _ended(self, outcomes: Sequence[Outcome]) -> None:
        if any(_stirs(outcome) for outcome in outcomes):
            self._idle = False
            self._tell("new")
        self._tell("final")

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._open()
        if self._lender is None:
            self._lender = Lender(self.place)
        return self._lender.begun(lambda outcome: self._ended([outcome]))

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        stands = await self._step(lambda db: finish.report(db, reports))
        self._tell("final")
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        due = await self._call(lambda db: series.due(db, now, limit, computed))
        self._aside -= {one.name for one in due.unreadable}  # due again, so it was written since
        await self._set_aside(due.unreadable)
        return due

    async def _set_aside(self, schedules: Sequence[UnreadableRecord]) -> None:
        names = {one.name for one in schedules}
        if names - self._aside:
            await self._step(lambda db: series.set_aside(db, names))
            self._aside |= names

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._step(lambda db: fire.fire(db, firings, now))
        failpoint("fire.after_commit")
        self._tell("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._step(lambda db: series.drop(db, names))

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found, broken = await self._call(lambda db: series.schedules(db, names, limit, after))
        await self._set_aside(broken)
        return found

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._call(lambda db: series.ticks(db, name, limit, before))

    async def lead(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        answer = await self._step(lambda db: series.lead(db, name, holder, until, now))
        if answer.holder is None:
            self._tell("new")
        return answer

    async def leaders(self, *, now: datetime) -> list[LeaderTerm]:
        return await self._call(lambda db: series.leaders(db, now))

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
        changed = await self._step(lambda db: change.change(db, action, which, now, limit, reason, update, after))
        self._tell("new", "final")
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._call(lambda db: db.run(sql, name, paused))
        self._tell("new")

    async def order(
        self,
        workers: Collection[WorkerId] | None,
        orders: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._step(lambda db: claim.order(db, workers, orders, micros(now), seen))

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
        rows = await self._look(lambda db: lists.jobs(db, which, us, limit, after, newest, sort, brief))
        return [job_of(row) for row in rows]

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        return await self._call(lambda db: read.executions(db, ids_in(job_id), after, limit))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._call(lambda db: read.logs(db, job_id, limit, after))

    async def queues(self, *, now: datetime) -> list[Queue]:
        return await self._look(lambda db: count.queues(db, micros(now)))

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        sql = "SELECT id, info, until, orders FROM mainspring_workers WHERE until > $1 ORDER BY id"
        rows = await self._call(lambda db: db.rows(sql, micros(now)))
        return readable("worker", [(row[0], row) for row in rows], _live)

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        return await self._look(lambda db: count.counts(db, micros(now)))

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._call(lambda db: tally.tallies(db, span, since))

    async def circuits(self) -> list[Circuit]:
        return await self._call(finish.circuits)

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        return await self._look(lambda db: count.dead(db, limit))

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        return await self._call(read.groups)

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._look(lambda db: read.surplus(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    async def forget(self, rules: Rules, *, now: datetime) -> int:
        pool = self._open()
        if now < self._forget_at:
            return 0
        with self._clock.outside():
            gone = await forget.forget(pool, rules, now)
        self._forget_at = now if gone is not None else now + forget.PATIENCE
        return gone or 0

    # inside

    def _open(self) -> Pool:
        if self._pool is None:
            raise ShuttingDown(f"the store {self.place.shown} is not open")
        if self._pool.loop is not asyncio.get_running_loop():
            raise StoreError("this handle on the PostgreSQL store serves another event loop: open one with beside()")
        return self._pool

    async def _call(self, verb: Verb[T]) -> T:
        return await self._ask(self._open().call, verb)

    async def _hot(self, verb: Verb[T]) -> T:
        return await self._ask(self._open().hot, verb)

    async def _look(self, verb: Verb[T]) -> T:
        return await self._ask(self._open().look, verb)

    async def _step(self, verb: Verb[T]) -> T:
        return await self._ask(self._open().step, verb)

    async def _ask(self, way: Callable[[Verb[T]], Awaitable[T]], verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            try:
                return await way(verb)
            except StoreError as error:
                await self._explain(pool, error)
                raise

    async def _explain(self, pool: Pool, error: StoreError) -> None:
        """Says so if the schema was changed under us."""
        if schema.points_to_schema(error) and (trouble := (await pool.call(self._found)).trouble):
            raise SchemaMismatch(trouble) from error
