"""Worker: start and stop, its loops, claiming."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Never
from zlib import crc32

from msgspec.structs import replace

from ..clock import StoreClock
from ..config import Settings
from ..errors import BadInput, MainspringError
from ..events import Bus, JobLost, JobsExpired, JobStarted, SlotLeaked, WorkerStarted, WorkerStopped, WorkerStopping
from ..feed.publisher import FeedPublisher
from ..insight.queue_depth import DepthSampler
from ..poll_interval import poll_interval
from ..records.job import Job
from ..records.outcome import Crashed, Outcome, Poisoned, RunEnd, decide
from ..records.run import Ending
from ..records.worker import BeatReply, WorkerCommands, WorkerInfo
from ..store import Store
from ..store_retry import StoreRetry
from ..supervisor.signals import on_stop
from ..webhook.dispatcher import WebhookDispatcher
from .claims import ClaimTrigger, Limits, given
from .completer import Completer, tell
from .heartbeat import Heartbeat
from .judge import Judge
from .pruner import Pruner
from .recycle import RecyclePolicy, resident
from .reports import ReportSender
from .rescue import OrphanRescue
from .runner import Runner
from .scheduler import Scheduler
from .slots import Run, RunKey, Slots
from .transaction import TransactionalCompletion
from .watchdog import Watchdog

_logger = logging.getLogger("mainspring")
# Outcomes not yet stored, as a multiple of the slots, before the worker stops claiming.
BACKLOG = 4
# The same in bytes of their jobs and results: a few large ones are as much as many small ones.
BACKLOG_BYTES = 16 << 20
_RELEASED = Ending.RELEASED


class Worker:
    """Takes jobs from the store, runs them and settles their outcomes, until it is stopped."""

    def __init__(
        self,
        *,
        opened: Callable[[], Awaitable[Store]],
        runner: Runner,
        tasks: Mapping[str, int | None],
        queues: Sequence[str] | Mapping[str, int | None] | None,
        settings: Settings,
        clock: StoreClock,
        bus: Bus,
        recycle: bool = False,
        mourned: Callable[[Job, Outcome], Outcome] = lambda job, outcome: outcome,
        scheduler: Scheduler,
        pruner: Pruner | None = None,
        herald: FeedPublisher,
        crier: WebhookDispatcher,
    ) -> None:
        """`tasks` and `queues` (a mapping) say how many of each may run at once here; None: no limit.

        With `recycle` it stops by itself when the process is worn, as the settings recycle_* say, or a slot
        has leaked. `mourned` adds to an outcome what a job's death brings about.
        """
        self._opened = opened
        self._runner = runner
        self._limits = Limits(queues, tasks)
        self._settings = settings
        self._clock = clock
        self._bus = bus
        self._mourned = mourned
        self._pruner = pruner
        self._herald = herald
        self._scheduler = scheduler
        self._crier = crier
        self._slots = Slots(runner, settings.concurrency, clock, self._on_end, self._on_leak)
        self._appetite = ClaimTrigger(clock, self._slots, self._free)
        self._courier = ReportSender(runner.desk, clock, bus)
        self._judge = Judge(runner.policy, self._died, self._told)
        self._settlement = Completer(clock, bus, self._courier, self._appetite.freed, self._judge.bounded)
        self._completion = TransactionalCompletion(runner, self._courier, clock, lambda: self._store, self._told)
        runner.desk.open_transaction = self._completion.transaction
        self._sounder = DepthSampler(clock)
        self._sweeper = OrphanRescue(clock, bus, self._crashed, self._judge.bounded)
        self._orders = WorkerCommands()
        self._vigil = Watchdog(
            clock, {"beat": settings.lease, "sweep": 3 * settings.sweep + settings.lease,
                    "fire": 3 * settings.poll_interval + settings.lease},
        )  # fmt: skip
        host = socket.gethostname()
        # Never the same twice: a restarted worker must not take what its predecessor left for its own.
        self.id = f"{settings.instance_id or host}-{os.getpid()}-{os.urandom(4).hex()}"
        self._insist = StoreRetry(clock, bus, self.id)
        served = self._limits.queues
        self._info = WorkerInfo(
            id=self.id, host=host, pid=os.getpid(), queues=None if served is None else tuple(served),
            tasks=tuple(sorted(tasks)), concurrency=settings.concurrency, started_at=clock.now(), lease=settings.lease,
            grace=settings.grace, limits=given(tasks), queue_limits=given(served),
            fingerprints=runner.fingerprints(sorted(tasks)),
        )  # fmt: skip
        self._pulse = Heartbeat(
            clock, bus, beat=settings.beat, lease=settings.lease, describe=self._describe, heard=self._heard,
            silent=self._fall_silent, turned=lambda: self._vigil.turn("beat"),
        )  # fmt: skip
        self._hears: Callable[[], bool | None] = lambda: None
        self._claiming = False
        self.claimable_at: datetime | None = None
        """When the next job that this worker serves can be claimed, as of its last claim; None: it knows of none."""
        self._silent, self._silences = False, 0
        self._phase = crc32(self.id.encode()) / 2**32
        self._stopping = False
        self._grace = settings.grace
        self._wear = (
            RecyclePolicy(clock, jobs=settings.recycle_jobs, memory=settings.recycle_memory)
            if recycle
            else RecyclePolicy(clock)
        )
        self._recycles = recycle
        self.recycled: str | None = None
        """Why it stops or has stopped by itself, for a fresh process to take its place; None: it did not."""
        self.dismissed = False
        """An operator has told it to stop: only a supervisor puts another in its place."""
        self._main: asyncio.Task[None] | None = None

    @property
    def running(self) -> Sequence[Job]:
        """The jobs that this worker runs now, oldest run first."""
        return [run.job for run in self._slots]

    # start and stop

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT, then stops gracefully; a second signal stops at once."""
        with on_stop(self._on_signal):
            try:
                main = await self._start()
                await asyncio.wait([main])
                await self.stop()
            finally:
                # Who cancels it does not wait for running jobs; they are released.
                await self.stop(grace=0.0)

    async def __aenter__(self) -> Worker:
        await self._start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        # Who leaves by an exception does not wait for running jobs; they are released.
        await self.stop(grace=None if kind is None else 0.0)

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops claiming, lets runs end within grace, releases the rest. Safe at any time, any number of times."""
        self._begin_stop(self._settings.grace if grace is None else grace)
        if self._main is not None:
            await asyncio.wait([self._main])
            self._main.result()

    def recycle(self, reason: str) -> None:
        """Begins the graceful stop because the process is worn. The first reason counts, and a stop before it."""
        if not self._stopping:
            _logger.info("worker %s recycles: %s", self.id, reason)
            self._give_way(reason)

    def _give_way(self, reason: str) -> None:
        if not self._stopping:
            self.recycled = reason
            self._begin_stop(self._settings.grace)

    async def _start(self) -> asyncio.Task[None]:
        """Returns once the worker takes jobs, or has failed to."""
        if self._main is not None:
            raise BadInput("a worker starts once; make another one with app.worker()")
        up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(self._live(up), name=f"mainspring-worker-{self.id}")
        self._main.add_done_callback(self._report)
        await asyncio.wait([self._main, up], return_when=asyncio.FIRST_COMPLETED)
        if self._main.done():
            self._main.result()
        return self._main

    def _report(self, main: asyncio.Task[None]) -> None:
        """A worker that ends by an error says so at once, not when somebody comes to stop it."""
        if main.cancelled():
            _logger.error("worker %s ended: code in its event loop has cancelled it, a job perhaps", self.id)
            return
        error = main.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is not None:
            # Our own errors say what to do; anything else is a bug, and its stack is what helps.
            stack = None if isinstance(error, MainspringError) else error
            _logger.error("worker %s ended by %s: %s", self.id, type(error).__name__, error, exc_info=stack)

    def _on_signal(self) -> None:
        # Whoever says stop to a worker that is recycling means the process; its running jobs keep their grace.
        again, self.recycled = self._stopping and self.recycled is None, None
        self._begin_stop(0.0 if again else self._settings.grace)

    def _begin_stop(self, grace: float) -> None:
        if not self._stopping and self._main is not None:
            running = len(self._slots)
            self._bus.emit(WorkerStopping(at=self._clock.now(), worker=self.id, running=running, grace=grace))
        self._grace = min(self._grace, grace) if self._stopping else grace
        self._stopping = True
        self._appetite.ring()
        self._slots.hurry()
        self._pulse.hurry()

    async def _live(self, up: asyncio.Future[None]) -> None:
        with self._vigil.call("opening", "open", self._settings.lease):
            self._store = await self._insist("opening", self._opened)
        self._hears = self._store.hears
        with self._crier.at_work():
            try:
                async with self._alive():
                    up.set_result(None)
                    self._bus.emit(WorkerStarted(at=self._clock.now(), worker=self.id))
                    await self._work()
            finally:
                self._bus.emit(WorkerStopped(at=self._clock.now(), worker=self.id))
                await self._crier.flush_last()
                await self._herald.flush()

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Beats meanwhile; nothing of it is left afterwards."""
        try:
            self._info = replace(self._info, schema=self._store.newest_schema)
            await self._pulse.start(self._store)
            yield
        finally:
            self._slots.lose()
            self._slots.close()
            await self._pulse.stop()
            self._runner.close()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            store, insist, poll, begin = self._store, self._insist, self._settings.poll_interval, group.create_task
            of = partial(self._vigil.store, store)
            self._herald.through(lambda store: self._vigil.store(store, "feed"))
            loops = [
                begin(self._pulse.watch()),  # alive -> store.beat, hears cancels
                begin(self._settlement.run(of("finish"), insist)),  # outcomes -> store.finish, in batches
                begin(self._courier.run(of("report"), insist)),  # log lines, progress -> store.report
                begin(self._sweep_loop()),  # expired -> store.finish
                begin(self._scheduler.run(of("fire"), insist, poll, self._vigil)),  # schedules due -> store.fire
                begin(self._crier.run(of("webhook"), insist, self._settings.beat)),  # what happened -> jobs of webhooks
                begin(self._sounder.run(of("depth"), self._phase)),  # how deep queues are -> a document, once a minute
                begin(self._appetite.listen(of("listen"), insist, self._info.queues, poll, self._scheduler.heard)),
            ]
            if self._pruner is not None:
                loops.append(begin(self._pruner.run(of("prune"), insist, self._phase)))  # finished -> gone
            await self._claim_loop()  # slots -> store.claim -> runner.run
            await self._slots.drain(lambda: self._grace)  # grace, then release what is left
            await self._settlement.flush_last(store)
            for loop in loops:
                loop.cancel()

    # claim: slots -> store.claim -> runner.run

    async def _claim_loop(self) -> None:
        store = self._vigil.store(self._store, "claim")
        await self._insist("reading webhooks", lambda: self._crier.refresh(store))
        while not self._stopping:
            if reason := self._wear.reason():
                self.recycle(reason)
                break
            wait = await self._insist("claiming", lambda: self._claim(store))
            if not self._stopping:
                await self._appetite.wait(wait)

    async def _claim(self, store: Store) -> float | None:
        """Fills free slots; returns the seconds until asking again can help, None: when a slot is free."""
        wait = poll_interval(store, self._settings.poll_interval)
        self.claimable_at = None
        for queues, tasks, room in self._limits.requests(self._slots, self._free):
            now, silences = self._clock.now(), self._silences
            self._claiming = True
            try:
                claim = await store.claim(queues, worker=self.id, tasks=tasks, limit=room, now=now)
                jobs = await self._buried(store, claim.jobs)
            finally:
                self._claiming = False
            # Came after we had let go of everything: others may have these jobs. If not, they are orphans.
            if silences == self._silences:
                self._begin(jobs)
            if claim.expired:
                self._bus.emit(JobsExpired(at=now, ids=tuple(claim.expired)))
                for id in claim.expired:
                    self._scheduler.suspect(id, now)
            if claim.next_at is not None:
                self.claimable_at = min(claim.next_at, self.claimable_at or claim.next_at)
                wait = min(wait, self._appetite.seconds_until(claim.next_at))
        return wait if self._free() > 0 else None

    async def _buried(self, store: Store, jobs: list[Job]) -> list[Job]:
        """Ends those that crashed too often while no worker was there that knows their task; returns the others."""
        limit, now = self._settings.max_crashes, self._clock.now()
        poison = {job.id: self._judge.outcome(job, Poisoned(limit), now) for job in jobs if job.crashes >= limit}
        if not poison:
            return jobs
        stands = await store.finish(list(poison.values()))
        for job in jobs:
            if job.id in poison and job.id in stands:
                tell(self._bus, job, poison[job.id])
        return [job for job in jobs if job.id not in poison]

    def _free(self) -> int:
        held_back = self._stopping or self._silent or self._orders.drained
        backlog = self._settlement
        if held_back or len(backlog) > BACKLOG * self._slots.size or backlog.bytes > BACKLOG_BYTES:
            return 0
        return self._slots.free

    def _begin(self, jobs: Sequence[Job]) -> None:
        wanted = self._bus.wants(JobStarted)
        for job in jobs:
            self._slots.begin(job)
            if wanted:
                self._bus.emit(JobStarted(at=self._clock.now(), job=job))

    def _on_end(self, run: Run, ended: RunEnd) -> None:
        now, job = self._clock.now(), run.job
        self._wear.jobs += 1
        if (commitment := run.ctx.commitment) is not None and commitment.outcome is not None:
            self._settlement.committed(run, commitment.outcome, ended)
        elif run.lost:
            self._bus.emit(JobLost(at=now, job=job))
        else:
            outcome = self._judge.outcome(job, ended, now, run.ctx.account)
            if outcome.ending is _RELEASED and outcome.failure is not None and outcome.run_at is not None:
                self._appetite.postponed(outcome.run_at)
            self._settlement.add(run, outcome)
        self._appetite.freed()

    def _told(self, job: Job, outcome: Outcome) -> Outcome:
        return self._crier.told(job, outcome) if self._crier.listens else outcome

    def _on_leak(self, job: Job, stack: str) -> None:
        self._bus.emit(SlotLeaked(at=self._clock.now(), job=job, stack=stack))
        if self._recycles:
            self.recycle(f"a slot leaked: {job.task} {job.id} ignores its interruption")

    # beat: alive -> store.beat, hears cancels

    def _describe(self) -> tuple[WorkerInfo, set[RunKey]]:
        runs = {run.key for run in self._slots}
        about = replace(
            self._info, running=len(runs), finished=self._wear.jobs, leaked=self._slots.leaks, memory=resident(),
            concurrency=self._slots.size, drained=self._orders.drained, stopping=self._stopping,
            deaf=self.deaf,
        )  # fmt: skip
        return about, runs

    def _heard(self, beat: BeatReply, sent: set[RunKey]) -> None:
        if self._silent:
            self._silent = False
            self._appetite.ring()
        self._slots.hear(beat, sent)
        self._herald.heed(beat.watched_until)
        if beat.orders != self._orders:
            self._obey(beat.orders)
        known = self._settlement.keys() | {run.key for run in self._slots}
        self._sweeper.hear(set() if self._claiming else set(beat.holds.items()) - known)
        self._sweeper.heed(beat.lost)

    def _obey(self, orders: WorkerCommands) -> None:
        _logger.info("worker %s has new orders: %s", self.id, orders)
        self._orders = orders
        self._slots.size = orders.concurrency or self._settings.concurrency
        self._appetite.ring()
        if orders.stopped:
            self.dismissed = True
            self._give_way("an operator has stopped it")

    def _fall_silent(self) -> None:
        self._silent = True
        self._silences += 1
        self._slots.lose()

    # tick: expired -> store.finish

    async def _sweep_loop(self) -> Never:
        while True:
            await self._sweeper.wait(await self._insist("sweeping", self._tick))

    async def _tick(self) -> float:
        """Settles what nobody else will; returns when to look again."""
        self._vigil.turn("sweep")  # a store that fails does not make the loop stand still
        well = self._sweeper.idle(1.5 * self._settings.sweep)
        more = not well and await self._sweeper.sweep(self._vigil.store(self._store, "sweep"))
        # Workers that started together need not sweep together.
        return 0.0 if more else self._settings.sweep * (0.75 + 0.25 * self._phase)

    def _crashed(self, job: Job, now: datetime) -> Outcome:
        if job.task not in self._limits.tasks:
            # Its death is left to a worker that knows whom to tell: see _buried.
            return self._judge.complete(job, decide(job, Crashed(job.worker or "", sys.maxsize), now=now))
        return self._judge.outcome(job, Crashed(job.worker or "", self._settings.max_crashes), now)

    def _died(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome with all that a death brings about."""
        if job.schedule is not None:
            self._scheduler.suspect(job.id, outcome.finished_at)
        return self._mourned(job, outcome)

    @property
    def deaf(self) -> bool:
        """It listens for news of the store in vain, and looks at its poll interval."""
        return self._hears() is False

    def stuck(self) -> list[str]:
        """What is wrong with a worker that has started and was not stopped; empty: nothing."""
        if self._main is None or self._stopping:
            return []
        if self._main.done():
            return [f"worker {self.id} has ended"]
        found = [f"worker {self.id}: {late}" for late in self._vigil.late()]
        if self._slots.leaks >= self._slots.size:
            found.append(f"worker {self.id}: every slot is leaked")
        return found

    async def drain(self, limit: float = math.inf) -> int:
        """Runs what is due until nothing is, instead of start and stop; returns the number of runs.

        With a `limit` it claims no more once there were so many.
        """
        self._store = await self._opened()
        with self._crier.at_work():
            return await self._drained(limit)

    async def _drained(self, limit: float) -> int:
        runs = 0
        async with self._alive(), self._scheduler.at_hand():
            await self._scheduler.declare(self._store)
            await self._crier.refresh(self._store)
            while runs < limit:
                while await self._scheduler.turn(self._store) == 0.0:
                    pass
                await self._sweeper.sweep(self._store)
                await self._claim(self._store)
                if not await self._crier.flush() and not len(self._slots):
                    break
                runs += len(self._slots)
                await self._slots.idle()
                await self._settlement.flush(self._store)
        return runs
