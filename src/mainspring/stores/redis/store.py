"""The Redis store: one server or Valkey, in memory, any number of machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from ...clock import Clock, SystemClock, instant
from ...config import Durability
from ...errors import BadInput, ShuttingDown, StoreError
from ...failpoint import failpoint
from ...ids import JobId, WorkerId
from ...records.circuit import Circuit
from ...records.finding import Finding
from ...records.job import Action, Enqueued, Job, NewJob, Shown, State
from ...records.outcome import Outcome
from ...records.query import Changed, Cursor, Filter, Sort, Updates
from ...records.queue import DeadGroup, Queue
from ...records.run import Execution, LogLine, RunReport
from ...records.schema import Schema
from ...records.tally import Span, Tally
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ...store import Store, Transaction
from ...survived_errors import SurvivedErrors
from ...task.retention import Rules
from ..rules import unique_ids
from . import claim, count, enqueue, finish, lists, tally
from . import schedules as series
from .aside import delete_queueless, set_aside_schedules
from .connector import RedisConnector
from .doctor import condition, listener, refuse
from .documents import RedisKeeper
from .known import executions, lines, read_hash, workers_of
from .listener import RedisListener, RedisWakeups, Word
from .records import circuits_of
from .repair import mend, mend_keys
from .shard import Shards
from .two_phase import sweep
from .url import RedisUrl

_unfolded = SurvivedErrors("tally", "the next beat sums up the runs and ends what was left half done")
# Seconds until it must be known whether word from others reaches us.
PROBED = 8.0


class RedisStore(RedisKeeper):
    """Each verb is one script, or a play that is written whole. A handle serves the loop in which it was opened."""

    refuses_within = "the Redis store has no transactions to enqueue within: use sqlite:///… or postgresql://…"

    def __init__(
        self,
        place: RedisUrl,
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        kin: RedisWakeups | None = None,
    ) -> None:
        self.place = place
        self._clock = clock or SystemClock()
        self._durability: Durability = durability
        self._kin = kin or RedisWakeups(self._clock)
        self._homes: Shards | None = None
        self._ear: RedisListener | None = None

    # life

    async def open(self, *, migrate: bool = True) -> None:
        if self._homes is not None and not self._homes.route.usable:
            if self._homes.route.pid != os.getpid():
                self._kin = RedisWakeups(self._clock)
            elif self._ear is not None:
                self._ear.forget()
            self._homes.route.forget()
            self._homes = self._ear = None
        if self._homes is None:
            homes = Shards(RedisConnector(self.place))
            try:
                with self._clock.outside():
                    await refuse(homes)
            except BaseException:
                await homes.route.close()
                raise
            self._homes = homes
            self._ear = RedisListener(homes, self._kin) if self._clock.real else None

    async def close(self) -> None:
        homes, ear = self._homes, self._ear
        self._homes = self._ear = None
        if homes is None:
            return
        route = homes.route
        if route.loop is asyncio.get_running_loop():
            with self._clock.outside():
                await _shut(ear, route)
        elif route.pid == os.getpid() and route.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_shut(ear, route), route.loop))
        else:
            for part in (ear, route):
                if part is not None:
                    part.forget()

    def beside(self) -> Store:
        return RedisStore(self.place, clock=self._clock, durability=self._durability, kin=self._kin)

    @property
    def newest_schema(self) -> int:
        return 1

    async def schema(self) -> Schema:
        self._open()
        return Schema(1, 1, 1)

    async def migrate(self, target: int | None = None) -> list[int]:
        self._open()
        if target not in (None, 1):
            raise BadInput(f"the Redis store has one schema, 1; cannot migrate to {target}")
        return []

    def script(self, at: int, target: int | None = None) -> str:
        raise BadInput("the Redis store has no tables, and no statements that would change them")

    async def time(self) -> datetime:
        homes = self._open()
        if not self._clock.real:
            return self._clock.now()
        seconds, micro = await homes.first.call("TIME")
        return instant(int(seconds) * 1_000_000 + int(micro))

    async def diagnose(self) -> list[Finding]:
        with self._clock.outside():
            found = await condition(self._open(), self._kin.epoch.losses)
            if self._ear is not None:
                found.append(listener(await self._ear.settled(PROBED), self._ear.trouble))
        return found

    async def wait(self, queues: Collection[str] | None, timeout: float) -> None:
        await self._wait("new", timeout)

    async def wait_final(self, ids: Collection[JobId], timeout: float) -> None:
        await self._wait("final", timeout)

    async def _wait(self, word: Word, timeout: float) -> None:
        self._open()
        if self._ear is not None:
            self._ear.listen()
        await self._kin.bell(word).wait(timeout)

    def hears(self) -> bool | None:
        if self._kin.ears:
            return True
        return False if self._ear is not None and self._ear.trouble else None

    # the path of a job

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        homes = self._open()
        if within is not None:
            raise BadInput(self.refuses_within)
        if not jobs:
            return []
        with self._clock.outside():
            answers = await enqueue.enqueue(homes, jobs, now)
        self._kin.ring("new")
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
        with self._clock.outside():
            found = await claim.claim(self._open(), queues, worker, tasks, limit, now)
        failpoint("claim.after_commit")
        if found.expired:
            self._kin.ring("final")
        return found

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        homes = self._open()
        with self._clock.outside():
            await homes.each(lambda home: self._kin.epoch.turn(home, now))
            beat = await claim.beat(homes, worker, until, now)
            with _unfolded.survive(StoreError):
                await tally.fold(homes)
                await sweep(homes)
        return beat

    async def expired(self, *, now: datetime, limit: int) -> list[Job]:
        with self._clock.outside():
            await self._mend(now)
            return await claim.expired(self._open(), now, limit)

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        homes = self._open()
        if not outcomes:
            return set()
        with self._clock.outside():
            stands = await finish.finish(homes, outcomes)
        self._kin.ring("new", "final")
        return stands

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        raise BadInput("the Redis store has no transactions: use ctx.transaction() on sqlite:///… or postgresql://…")

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        with self._clock.outside():
            stands = await finish.report(self._open(), reports)
        self._kin.ring("final")
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        with self._clock.outside():
            due = await series.due(self._open().first, now, limit, computed)
            await set_aside_schedules(self._open(), due.unreadable)
            return due

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        with self._clock.outside():
            fired = await series.fire(self._open(), firings, now)
        failpoint("fire.after_commit")
        self._kin.ring("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        with self._clock.outside():
            return await series.drop(self._open(), names)

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        with self._clock.outside():
            return await series.schedules(self._open().first, names, limit, after)

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        with self._clock.outside():
            return await series.ticks(self._open().first, name, limit, before)

    async def lead(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        with self._clock.outside():
            answer = await series.lead(self._open(), name, holder, until, now)
        if answer.holder is None:
            self._kin.ring("new")
        return answer

    async def leaders(self, *, now: datetime) -> list[LeaderTerm]:
        with self._clock.outside():
            return await series.leaders(self._open().first, now)

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
        with self._clock.outside():
            changed = await finish.change(self._open(), action, which, now, limit, reason, update, after)
            if action is Action.DELETE and any(refusal.error for refusal in changed.refused.values()):
                changed = await delete_queueless(self._open(), changed)
        self._kin.ring("new", "final")
        return changed

    async def pause_queue(self, name: str, paused: bool) -> None:
        home = self._open().of(name)
        with self._clock.outside():
            await home.many([
                ("SADD" if paused else "SREM", f"{home.base}:paused", name), ("PUBLISH", home.base, "new"),
            ])  # fmt: skip
        self._kin.ring("new")

    async def order(
        self,
        workers: Collection[WorkerId] | None,
        orders: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        with self._clock.outside():
            return await claim.order(self._open(), workers, orders, now, seen)

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
        with self._clock.outside():
            return await lists.page(self._open(), which, now, limit, after, newest, sort, brief)

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        with self._clock.outside():
            return await executions(self._open(), sorted(unique_ids(job_id)), after, limit)

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        with self._clock.outside():
            found = await lines(self._open(), job_id)
        return sorted((line for line in found if (line.run, line.n) > after), key=lambda line: (line.run, line.n))[
            :limit
        ]

    async def queues(self, *, now: datetime) -> list[Queue]:
        with self._clock.outside():
            return await count.queues(self._open(), now)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        home = self._open().first
        with self._clock.outside():
            found = workers_of(await read_hash(home, f"{home.base}:worker"))
        return sorted((worker for worker in found.values() if worker.until > now), key=lambda worker: worker.info.id)

    async def counts(self, *, now: datetime) -> dict[Shown, int]:
        with self._clock.outside():
            return await count.counts(self._open(), now)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        with self._clock.outside():
            return await tally.tallies(self._open(), span, since)

    async def circuits(self) -> list[Circuit]:
        home = self._open().first
        with self._clock.outside():
            found = circuits_of(await read_hash(home, f"{home.base}:circuit"))
        return [found[task] for task in sorted(found)]

    async def dead(self, *, limit: int) -> list[DeadGroup]:
        with self._clock.outside():
            return await count.dead(self._open(), limit)

    # forgetting

    async def groups(self) -> list[tuple[State, str]]:
        with self._clock.outside():
            return await count.ended(self._open())

    async def surplus(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        with self._clock.outside():
            return await count.surplus(self._open(), state, task, keep, before, limit)

    async def forget(self, rules: Rules, *, now: datetime) -> int:
        with self._clock.outside():
            await count.tidy(self._open())
            await mend(self._open(), now)
        return 0

    # inside

    async def _mend(self, now: datetime) -> None:
        """After a loss that a beat has noticed; not by the beat itself, which has no time for it."""
        epoch = self._kin.epoch
        if epoch.mended < (losses := len(epoch.losses)):
            await mend(self._open(), now)
            await mend_keys(self._open())
            epoch.mended = losses

    def _open(self) -> Shards:
        if self._homes is None:
            raise ShuttingDown(f"the store {self.place.shown} is closed")
        if self._homes.route.loop is not asyncio.get_running_loop():
            raise StoreError("this handle was opened in another event loop: take store.beside() there")
        return self._homes


async def _shut(ear: RedisListener | None, route: RedisConnector) -> None:
    if ear is not None:
        await ear.close()
    await route.close()
