"""The PostgreSQL store: one database, any number of machines, durable when a verb returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import asyncpg
import msgspec

from ..clock import Clock, SystemClock, instant, micros
from ..config import Durability
from ..errors import BadInput, ShuttingDown, StoreError
from ..failpoint import failpoint
from ..finding import Finding
from ..job import (
    Action,
    Beat,
    Changed,
    Circuit,
    Claim,
    Cursor,
    DeadGroup,
    Enqueued,
    Execution,
    Filter,
    Job,
    JobId,
    LiveWorker,
    LogLine,
    NewJob,
    Orders,
    Queue,
    Report,
    Shown,
    Sort,
    State,
    Update,
    WorkerId,
    WorkerInfo,
)
from ..outcome import Outcome
from ..schedule import Due, Fired, Firing, Leadership, Schedule, Tick
from ..store import Store
from ..tally import Span, Tally
from . import (
    postgres_change,
    postgres_claim,
    postgres_condition,
    postgres_count,
    postgres_enqueue,
    postgres_finish,
    postgres_fire,
    postgres_list,
    postgres_read,
    postgres_schema,
    postgres_series,
    postgres_tally,
)
from .bell import Bell
from .postgres_place import Place
from .postgres_pool import Pool, Session, Verb, translated
from .postgres_wire import Wire, Word, notice
from .rows import claimed_of, job_of

T = TypeVar("T")

_encode = msgspec.json.encode
_info = msgspec.json.Decoder(WorkerInfo).decode


async def _shut(pool: Pool, wire: Wire | None) -> None:
    if wire is not None:
        await wire.close()
    await pool.close()


class PostgresStore:
    """Each verb is one statement or one short transaction. A handle serves the event loop in which it was opened."""

    def __init__(self, place: Place, *, clock: Clock | None = None, durability: Durability = "full") -> None:
        self.place = place
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._new, self._final = Bell(self._clock), Bell(self._clock)
        self._pool: Pool | None = None
        self._wire: Wire | None = None
        self._opening: asyncio.Lock | None = None
        self._idle = False
        self._stride = postgres_claim.Stride()
        self._leases = postgres_claim.Leases()

    # life

    async def open(self) -> None:
        if self._pool is not None and (self._pool.pid != os.getpid() or self._pool.loop.is_closed()):
            self._pool.forget()
            self._pool = self._wire = self._opening = None
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is not None:
                return
            pool = Pool(self.place, self._durability)
            try:
                with self._clock.outside():
                    if not await pool.call(postgres_schema.current):
                        await pool.step(lambda db: postgres_schema.migrate(db, None, only_up=True))
            except BaseException:
                await pool.close()
                raise
            self._pool, self._idle = pool, False
            self._wire = Wire(pool, self._heard) if self._clock.real else None

    async def close(self) -> None:
        """From any event loop: connections are given back in the one they belong to, if it still runs."""
        pool, wire, self._pool, self._wire = self._pool, self._wire, None, None
        if pool is None:
            return
        if pool.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _shut(pool, wire)
        elif pool.pid == os.getpid() and pool.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_shut(pool, wire), pool.loop))
        else:
            pool.forget()

    def beside(self) -> Store:
        return PostgresStore(self.place, clock=self._clock, durability=self._durability)

    async def schema(self) -> tuple[int, int]:
        return await self._call(postgres_schema.version), postgres_schema.NEWEST

    async def migrate(self, target: int | None = None) -> list[int]:
        return await self._step(lambda db: postgres_schema.migrate(db, target))

    async def time(self) -> datetime:
        if not self._clock.real:
            self._open()
            return self._clock.now()
        at: datetime = await self._call(lambda db: db.value("SELECT clock_timestamp()"))
        return at

    async def diagnose(self) -> list[Finding]:
        return await self._call(postgres_condition.condition)

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        await self._wait(self._new, timeout)

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        await self._wait(self._final, timeout)

    async def _wait(self, bell: Bell, timeout: float) -> None:
        self._open()
        if self._wire is not None:
            self._wire.listen()
        await bell.wait(timeout)

    def _heard(self, word: Word) -> None:
        (self._new if word == "new" else self._final).ring()

    def _tell(self, *words: Word) -> None:
        """Here at once, elsewhere soon."""
        for word in words:
            self._heard(word)
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
        answers = await self._enqueue(jobs, now)
        self._tell("new")
        return answers

    async def _enqueue(self, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        if postgres_enqueue.keyed(jobs):
            return await self._step(lambda db: postgres_enqueue.enqueue(db, jobs, now))
        if len(jobs) >= postgres_enqueue.MANY:
            with suppress(postgres_enqueue.Known):
                return await self._step(lambda db: postgres_enqueue.copy(db, jobs, now))
        return await self._call(lambda db: postgres_enqueue.insert(db, jobs, now))

    async def _enqueue_within(self, connection: Any, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        self._open()
        if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
            raise BadInput(f"within= takes an asyncpg connection here, got {type(connection).__name__}")
        if not connection.is_in_transaction():
            raise BadInput("within= needs an open transaction: async with connection.transaction(): …")
        db = Session(connection, self.place)
        try:
            answers = await postgres_enqueue.enqueue(db, jobs, now)
            # Goes out with the caller's commit, or not at all.
            await notice(self.place, "within new")(db)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise translated(error, "PostgreSQL") from error
        return answers

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        asked = postgres_claim.Asked(queues, worker, tasks, limit, now)
        expired: list[JobId] = []
        # Where nothing was due last time a look comes first, so that an idle worker asks once.
        rows = [] if self._idle else await self._take(asked)
        next_at = rows[0]["next_at"] if rows else -1
        if next_at == -1:
            view = await self._call(lambda db: postgres_claim.look(db, asked))
            next_at = view.next_at if view.alive else None
            if not rows and view.acts(asked.now):
                rows, next_at, expired = await self._step(lambda db: postgres_claim.claim(db, asked))
        self._idle = not rows
        failpoint("claim.after_commit")
        if expired:
            self._tell("final")
        jobs = [claimed_of(row, asked.lease, worker, now) for row in rows]
        self._leases.begun(worker, asked.lease, len(jobs))
        # What others had locked may be due still.
        return Claim(jobs, None if next_at is None else max(now, instant(next_at)), expired)

    async def _take(self, asked: postgres_claim.Asked) -> list[Any]:
        stride, began = self._stride, self._clock.monotonic()
        if known := stride.of(asked, began):
            rows = await self._call(lambda db: postgres_claim.take_known(db, asked, known))
            stride.took(rows, asked.limit)
            return rows
        rows = await self._call(lambda db: postgres_claim.take_plain(db, asked))
        if len(rows) == asked.limit and self._clock.real and stride.due(began):
            began = self._clock.monotonic()
            view = await self._call(lambda db: postgres_claim.look(db, asked))
            now = self._clock.monotonic()
            stride.learn(view, asked, now, now - began)
        return rows

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> Beat:
        beat = await self._step(lambda db: postgres_claim.beat(db, worker, micros(until), micros(now)))
        with suppress(StoreError):  # the next beat sums up what this one could not
            await self._step(postgres_tally.fold)
        return beat

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        return [job_of(row) for row in await self._call(lambda db: postgres_claim.expired(db, micros(now), limit))]

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if not outcomes:
            self._open()
            return set()
        freed = self._leases.ended(outcomes)
        if postgres_finish.simple(outcomes) and await self._call(
            lambda db: postgres_finish.finish_simple(db, outcomes, *freed)
        ):
            stands = {outcome.id for outcome in outcomes}
        else:
            stands = await self._step(lambda db: postgres_finish.finish(db, outcomes))
        if any(outcome.then or outcome.breaker or outcome.schedule for outcome in outcomes):
            self._idle = False
            self._tell("new")
        self._tell("final")
        return stands

    async def report(self, reports: Sequence[Report]) -> set[JobId]:
        stands = await self._step(lambda db: postgres_finish.report(db, reports))
        self._tell("final")
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        return await self._call(lambda db: postgres_series.due(db, now, limit, computed))

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        self._idle = False
        fired = await self._step(lambda db: postgres_fire.fire(db, firings, now))
        failpoint("fire.after_commit")
        self._tell("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        return await self._step(lambda db: postgres_series.drop(db, names))

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        return await self._call(lambda db: postgres_series.schedules(db, names, limit, after))

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        return await self._call(lambda db: postgres_series.ticks(db, name, limit, before))

    async def lead(self, name: str, holder: str, *, until: datetime, now: datetime) -> Leadership:
        answer = await self._step(lambda db: postgres_series.lead(db, name, holder, until, now))
        if answer.holder is None:
            self._tell("new")
        return answer

    async def leaders(self, *, now: datetime) -> list[Leadership]:
        return await self._call(lambda db: postgres_series.leaders(db, now))

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Update | None = None,
        after: JobId | None = None,
    ) -> Changed:
        self._idle = False
        changed = await self._step(
            lambda db: postgres_change.change(db, action, which, now, limit, reason, update, after)
        )
        self._tell("new", "final")
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        sql = "INSERT INTO mainspring_queues VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"
        self._idle = False
        await self._call(lambda db: db.run(sql, name, paused))
        self._tell("new")

    async def order(self, workers: Collection[WorkerId] | None, orders: Orders, *, now: datetime) -> list[WorkerId]:
        sql = """UPDATE mainspring_workers SET orders = $1
            WHERE until > $2 AND ($3::text[] IS NULL OR id = ANY($3)) RETURNING id"""
        values = (_encode(orders).decode(), micros(now), None if workers is None else list(workers))
        return sorted(id for (id,) in await self._call(lambda db: db.rows(sql, *values)))

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
    ) -> list[Job]:
        us = micros(now)
        rows = await self._look(lambda db: postgres_list.jobs(db, which, us, limit, after, newest, sort))
        return [job_of(row) for row in rows]

    async def executions(self, job_id: JobId) -> list[Execution]:
        return await self._call(lambda db: postgres_read.executions(db, job_id))

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        return await self._call(lambda db: postgres_read.logs(db, job_id, limit, after))

    async def queues(self, *, now: datetime) -> list[Queue]:
        return await self._look(lambda db: postgres_count.queues(db, micros(now)))

    async def workers(self, *, now: datetime) -> list[LiveWorker]:
        sql = "SELECT info, until, orders FROM mainspring_workers WHERE until > $1 ORDER BY id"
        rows = await self._call(lambda db: db.rows(sql, micros(now)))
        return [
            LiveWorker(_info(info), instant(until), postgres_claim.orders_of(orders)) for info, until, orders in rows
        ]

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        return await self._look(lambda db: postgres_count.counts(db, micros(now)))

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        return await self._call(lambda db: postgres_tally.tallies(db, span, since))

    async def circuits(self) -> list[Circuit]:
        return await self._call(postgres_finish.circuits)

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        return await self._look(lambda db: postgres_count.dead(db, limit))

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        return await self._call(postgres_read.groups)

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        rows = await self._look(lambda db: postgres_read.surplus(db, state, task, keep, before, limit))
        return [job_of(row) for row in rows]

    # inside

    def _open(self) -> Pool:
        if self._pool is None:
            raise ShuttingDown(f"the store {self.place.shown} is not open")
        if self._pool.loop is not asyncio.get_running_loop():
            raise StoreError("this handle on the PostgreSQL store serves another event loop: open one with beside()")
        return self._pool

    async def _call(self, verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            return await pool.call(verb)

    async def _look(self, verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            return await pool.look(verb)

    async def _step(self, verb: Verb[T]) -> T:
        pool = self._open()
        with self._clock.outside():
            return await pool.step(verb)
