"""Worker: claims jobs, runs them and stores their outcomes; its loops, start and stop."""

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
from ..errors import BadInput
from ..events import Bus, JobLost, JobsExpired, JobStarted, SlotLeaked, WorkerStarted, WorkerStopped, WorkerStopping
from ..feed.publisher import FeedPublisher
from ..insight.queue_depth import DepthSampler
from ..records.job import Job
from ..records.outcome import Crashed, Outcome, Poisoned, RunEnd, decide
from ..records.run import Ending
from ..records.worker import BeatReply, WorkerCommands, WorkerInfo
from ..store import Listening, Store
from ..store.poll_interval import poll_interval
from ..store_retry import StoreRetry
from ..supervisor.signals import on_stop
from ..webhook.dispatcher import WebhookDispatcher
from .claims import ClaimLimits, ClaimTrigger
from .completer import Completer, emit_ended
from .heartbeat import Heartbeat, worker_info
from .judge import Judge
from .pruner import Pruner
from .recycle import RecyclePolicy, resident_bytes
from .reports import ReportSender
from .rescue import OrphanRescue
from .runner import Runner
from .scheduler import Scheduler
from .slots import Run, RunKey, Slots
from .transaction import TransactionalCompletion
from .watchdog import Watchdog, log_end

_logger = logging.getLogger("mainspring")
# Outcomes not yet stored, per slot, above which the worker stops claiming.
BACKLOG_PER_SLOT = 4
# The same limit in bytes of jobs and results.
BACKLOG_BYTES = 16 << 20
_RELEASED = Ending.RELEASED


class Worker:
    """Claims jobs, runs them and stores their outcomes until it is stopped."""

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
        on_dead: Callable[[Job, Outcome], Outcome] = lambda job, outcome: outcome,
        scheduler: Scheduler,
        pruner: Pruner | None = None,
        herald: FeedPublisher,
        crier: WebhookDispatcher,
    ) -> None:
        """`tasks` and `queues` (a mapping) limit how many jobs of each run at once in this worker; None: no limit.

        With `recycle` it stops by itself when a limit of the settings recycle_* is reached or a slot has leaked.
        `on_dead` adds the jobs of dead-letter handlers to the outcome of a job that dies.
        """
        self._connect = opened
        self._runner = runner
        self._limits = ClaimLimits(queues, tasks)
        self._settings = settings
        self._clock = clock
        self._bus = bus
        self._on_dead = on_dead
        self._pruner = pruner
        self._feed = herald
        self._scheduler = scheduler
        self._webhooks = crier
        self._slots = Slots(runner, settings.concurrency, clock, self._on_end, self._on_leak)
        self._claim_trigger = ClaimTrigger(clock, self._slots, self._free_slots)
        self._report_sender = sender = ReportSender(runner.reports, clock, bus)
        self._judge = Judge(runner.policy, self._after_death, self._with_deliveries)
        self._completer = Completer(clock, bus, sender, self._claim_trigger.slot_freed, self._judge.limit_releases)
        transactions = TransactionalCompletion(runner, sender, clock, lambda: self._store, self._with_deliveries)
        runner.reports.open_transaction = transactions.transaction
        self._depth_sampler = DepthSampler(clock)
        self._rescue = OrphanRescue(clock, bus, self._crashed, self._judge.limit_releases)
        self._commands = WorkerCommands()
        lease = settings.lease
        bounds = {"beat": lease, "sweep": 3 * settings.sweep + lease, "fire": 3 * settings.poll_interval + lease}
        self._watchdog = Watchdog(clock, bounds)
        host, pid = socket.gethostname(), os.getpid()
        # Never reused: a restarted worker must not take its predecessor's runs for its own.
        self.id = f"{settings.instance_id or host}-{pid}-{os.urandom(4).hex()}"
        self._info = worker_info(settings, self._limits, runner, id=self.id, host=host, pid=pid, started_at=clock.now())
        self._retry = StoreRetry(clock, bus, self.id)
        self._heartbeat = Heartbeat(
            clock,
            bus,
            beat=settings.beat,
            lease=settings.lease,
            describe=self._describe,
            on_reply=self._on_beat,
            on_lapse=self._lose_leases,
            on_attempt=lambda: self._watchdog.mark("beat"),
        )
        self._listening: Callable[[], Listening] = lambda: "off"
        self._claiming = False
        self.claimable_at: datetime | None = None
        """When the next job for this worker becomes claimable, as of its last claim; None if none is known."""
        self._lapsed, self._lapses = False, 0
        self._phase = crc32(self.id.encode()) / 2**32
        self._stopping = False
        self._grace = settings.grace
        jobs, memory = (settings.recycle_jobs, settings.recycle_memory) if recycle else (0, 0)
        self._recycle_policy = RecyclePolicy(clock, jobs=jobs, memory=memory)
        self._may_recycle = recycle
        self.recycled: str | None = None
        """Why the worker stops by itself, to be replaced by a new process; None if it does not."""
        self.stopped_by_operator = False
        """An operator has stopped it: only a supervisor starts a replacement."""
        self._main: asyncio.Task[None] | None = None

    @property
    def running(self) -> Sequence[Job]:
        """The jobs that run now, oldest run first."""
        return [run.job for run in self._slots]

    # start and stop

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT, then stops gracefully; a second signal stops it at once."""
        with on_stop(self._on_signal):
            try:
                main = await self._start()
                await asyncio.wait([main])
                await self.stop()
            finally:
                # Cancelled: running jobs are released at once.
                await self.stop(grace=0.0)

    async def __aenter__(self) -> Worker:
        await self._start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        # After an exception running jobs are released at once.
        await self.stop(grace=None if kind is None else 0.0)

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops claiming, waits for runs within grace, then releases them. Idempotent, and allowed at any time."""
        self._begin_stop(self._settings.grace if grace is None else grace)
        if self._main is not None:
            await asyncio.wait([self._main])
            self._main.result()

    def recycle(self, reason: str) -> None:
        """Stops gracefully so that a new process replaces this one. Ignored if the worker is stopping already."""
        if not self._stopping:
            _logger.info("worker %s recycles: %s", self.id, reason)
            self._stop_for_replacement(reason)

    def _stop_for_replacement(self, reason: str) -> None:
        if not self._stopping:
            self.recycled = reason
            self._begin_stop(self._settings.grace)

    async def _start(self) -> asyncio.Task[None]:
        """Returns once the worker claims jobs. Raises if it could not start."""
        if self._main is not None:
            raise BadInput("a worker starts once; make another one with app.worker()")
        up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(self._run_main(up), name=f"mainspring-worker-{self.id}")
        self._main.add_done_callback(partial(log_end, self.id))
        await asyncio.wait([self._main, up], return_when=asyncio.FIRST_COMPLETED)
        if self._main.done():
            self._main.result()
        return self._main

    def _on_signal(self) -> None:
        # A stop signal during recycling is meant for the process: no replacement, but running jobs keep their grace.
        again, self.recycled = self._stopping and self.recycled is None, None
        self._begin_stop(0.0 if again else self._settings.grace)

    def _begin_stop(self, grace: float) -> None:
        if not self._stopping and self._main is not None:
            running = len(self._slots)
            self._bus.emit(WorkerStopping(at=self._clock.now(), worker=self.id, running=running, grace=grace))
        self._grace = min(self._grace, grace) if self._stopping else grace
        self._stopping = True
        self._claim_trigger.ring()
        self._slots.wake()
        self._heartbeat.wake()

    async def _run_main(self, up: asyncio.Future[None]) -> None:
        with self._watchdog.call("opening", "open", self._settings.lease):
            self._store = await self._retry("opening", self._connect)
        self._listening = lambda: self._store.listening
        with self._webhooks.active():
            try:
                async with self._beating():
                    up.set_result(None)
                    self._bus.emit(WorkerStarted(at=self._clock.now(), worker=self.id))
                    await self._run_loops()
            finally:
                self._bus.emit(WorkerStopped(at=self._clock.now(), worker=self.id))
                await self._webhooks.flush_last()
                await self._feed.flush()

    @asynccontextmanager
    async def _beating(self) -> AsyncIterator[None]:
        """Beats inside the block, and cleans everything up after it."""
        try:
            self._info = replace(self._info, schema=self._store.capabilities.newest_schema)
            await self._heartbeat.start(self._store)
            yield
        finally:
            self._slots.lose_leases()
            self._slots.close()
            await self._heartbeat.stop()
            self._runner.close()

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as group:
            store, retry, poll, begin = self._store, self._retry, self._settings.poll_interval, group.create_task
            of = partial(self._watchdog.store, store)
            self._feed.through(lambda store: self._watchdog.store(store, "feed"))
            on_change = self._scheduler.on_store_change
            loops = [
                begin(self._heartbeat.watch()),  # alive -> store.beat, returns cancels
                begin(self._completer.run(of("finish"), retry)),  # outcomes -> store.finish, in batches
                begin(self._report_sender.run(of("report"), retry)),  # log lines, progress -> store.report
                begin(self._sweep_loop()),  # orphaned runs -> store.finish
                begin(self._scheduler.run(of("fire"), retry, poll, self._watchdog)),  # schedules due -> store.fire
                begin(self._webhooks.run(of("webhook"), retry, self._settings.beat)),  # events -> webhook jobs
                begin(self._depth_sampler.run(of("depth"), self._phase)),  # queue depths -> a document, once a minute
                begin(self._claim_trigger.listen(of("listen"), retry, poll, on_change)),  # store.wait -> claims
            ]
            if self._pruner is not None:
                loops.append(begin(self._pruner.run(of("prune"), retry, self._phase)))  # finished jobs -> deleted
            await self._claim_loop()  # slots -> store.claim -> runner.run
            await self._slots.drain(lambda: self._grace)  # grace, then release what is left
            await self._completer.flush_last(store)
            for loop in loops:
                loop.cancel()

    # claim: slots -> store.claim -> runner.run

    async def _claim_loop(self) -> None:
        store = self._watchdog.store(self._store, "claim")
        await self._retry("reading webhooks", lambda: self._webhooks.refresh(store))
        while not self._stopping:
            if reason := self._recycle_policy.reason():
                self.recycle(reason)
                break
            wait = await self._retry("claiming", lambda: self._claim(store))
            if not self._stopping:
                await self._claim_trigger.wait(wait)

    async def _claim(self, store: Store) -> float | None:
        """Fills free slots; returns the seconds until the next claim can help, None: when a slot becomes free."""
        wait = poll_interval(store, self._settings.poll_interval)
        self.claimable_at = None
        for queues, tasks, room in self._limits.requests(self._slots, self._free_slots):
            now, lapses = self._clock.now(), self._lapses
            self._claiming = True
            try:
                claim = await store.claim(queues, worker=self.id, tasks=tasks, limit=room, now=now)
                jobs = await self._finish_poisoned(store, claim.jobs)
            finally:
                self._claiming = False
            # The leases lapsed meanwhile: others may have these jobs. If not, the rescue finds them as orphans.
            if lapses == self._lapses:
                self._start_runs(jobs)
            if claim.expired:
                self._bus.emit(JobsExpired(at=now, ids=tuple(claim.expired)))
                for id in claim.expired:
                    self._scheduler.note_failed_job(id, now)
            if claim.next_at is not None:
                self.claimable_at = min(claim.next_at, self.claimable_at or claim.next_at)
                wait = min(wait, self._claim_trigger.seconds_until(claim.next_at))
        return wait if self._free_slots() > 0 else None

    async def _finish_poisoned(self, store: Store, jobs: list[Job]) -> list[Job]:
        """Ends jobs that crashed too often while no worker knew their task; returns the others."""
        limit, now = self._settings.max_crashes, self._clock.now()
        poison = {job.id: self._judge.outcome(job, Poisoned(limit), now) for job in jobs if job.crashes >= limit}
        if not poison:
            return jobs
        stands = await store.finish(list(poison.values()))
        for job in jobs:
            if job.id in poison and job.id in stands:
                emit_ended(self._bus, job, poison[job.id])
        return [job for job in jobs if job.id not in poison]

    def _free_slots(self) -> int:
        held_back = self._stopping or self._lapsed or self._commands.drained
        backlog = self._completer
        if held_back or len(backlog) > BACKLOG_PER_SLOT * self._slots.size or backlog.bytes > BACKLOG_BYTES:
            return 0
        return self._slots.free

    def _start_runs(self, jobs: Sequence[Job]) -> None:
        wanted = self._bus.wants(JobStarted)
        for job in jobs:
            self._slots.start(job)
            if wanted:
                self._bus.emit(JobStarted(at=self._clock.now(), job=job))

    def _on_end(self, run: Run, ended: RunEnd) -> None:
        now, job = self._clock.now(), run.job
        self._recycle_policy.jobs += 1
        if (commitment := run.ctx.commitment) is not None and commitment.outcome is not None:
            self._completer.committed(run, commitment.outcome, ended)
        elif run.lost:
            self._bus.emit(JobLost(at=now, job=job))
        else:
            outcome = self._judge.outcome(job, ended, now, run.ctx.account)
            if outcome.ending is _RELEASED and outcome.failure is not None and outcome.run_at is not None:
                self._claim_trigger.note_postponed(outcome.run_at)
            self._completer.add(run, outcome)
        self._claim_trigger.slot_freed()

    def _with_deliveries(self, job: Job, outcome: Outcome) -> Outcome:
        return self._webhooks.with_deliveries(job, outcome) if self._webhooks.watches_jobs else outcome

    def _on_leak(self, job: Job, stack: str) -> None:
        self._bus.emit(SlotLeaked(at=self._clock.now(), job=job, stack=stack))
        if self._may_recycle:
            self.recycle(f"a slot leaked: {job.task} {job.id} ignores its interruption")

    # beat: alive -> store.beat, returns cancels

    def _describe(self) -> tuple[WorkerInfo, set[RunKey]]:
        runs = {run.key for run in self._slots}
        slots, drained = self._slots, self._commands.drained
        info = replace(self._info, running=len(runs), finished=self._recycle_policy.jobs, memory=resident_bytes())
        info = replace(info, leaked=slots.leaks, concurrency=slots.size, drained=drained, deaf=self.deaf)
        return replace(info, stopping=self._stopping), runs

    def _on_beat(self, beat: BeatReply, sent: set[RunKey]) -> None:
        if self._lapsed:
            self._lapsed = False
            self._claim_trigger.ring()
        self._slots.apply_beat(beat, sent)
        self._feed.watch_until(beat.watched_until)
        if beat.orders != self._commands:
            self._apply_commands(beat.orders)
        known = self._completer.keys() | {run.key for run in self._slots}
        self._rescue.note_unknown_runs(set() if self._claiming else set(beat.holds.items()) - known)
        self._rescue.note_lost_runs(beat.lost)

    def _apply_commands(self, commands: WorkerCommands) -> None:
        _logger.info("worker %s received commands: %s", self.id, commands)
        self._commands = commands
        self._slots.size = commands.concurrency or self._settings.concurrency
        self._claim_trigger.ring()
        if commands.stopped:
            self.stopped_by_operator = True
            self._stop_for_replacement("an operator has stopped it")

    def _lose_leases(self) -> None:
        self._lapsed = True
        self._lapses += 1
        self._slots.lose_leases()

    # sweep: orphaned runs -> store.finish

    async def _sweep_loop(self) -> Never:
        while True:
            await self._rescue.wait(await self._retry("sweeping", self._sweep))

    async def _sweep(self) -> float:
        """Settles orphaned runs; returns the seconds until the next sweep."""
        self._watchdog.mark("sweep")  # before the calls: a failing store does not make the loop overdue
        well = self._rescue.is_idle(1.5 * self._settings.sweep)
        more = not well and await self._rescue.sweep(self._watchdog.store(self._store, "sweep"))
        # Spreads the sweeps of workers that started together.
        return 0.0 if more else self._settings.sweep * (0.75 + 0.25 * self._phase)

    def _crashed(self, job: Job, now: datetime) -> Outcome:
        if job.task not in self._limits.tasks:
            # Only a worker that knows the task knows its dead-letter handlers: see _finish_poisoned.
            return self._judge.complete(job, decide(job, Crashed(job.worker or "", sys.maxsize), now=now))
        return self._judge.outcome(job, Crashed(job.worker or "", self._settings.max_crashes), now)

    def _after_death(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome with the consequences of the job's death."""
        if job.schedule is not None:
            self._scheduler.note_failed_job(job.id, outcome.finished_at)
        return self._on_dead(job, outcome)

    @property
    def deaf(self) -> bool:
        """Whether the store fails to notify it of changes, so that it falls back to its poll interval."""
        return self._listening() == "failed"

    def stuck(self) -> list[str]:
        """What is wrong with a worker that was started and not stopped; empty if nothing is."""
        if self._main is None or self._stopping:
            return []
        if self._main.done():
            return [f"worker {self.id} has ended"]
        found = [f"worker {self.id}: {late}" for late in self._watchdog.overdue()]
        if self._slots.leaks >= self._slots.size:
            found.append(f"worker {self.id}: every slot is leaked")
        return found

    async def drain(self, limit: float = math.inf) -> int:
        """Runs due jobs until none is left, instead of start and stop; returns the number of runs.

        After `limit` runs it claims no more.
        """
        self._store = await self._connect()
        with self._webhooks.active():
            return await self._drain(limit)

    async def _drain(self, limit: float) -> int:
        runs = 0
        async with self._beating(), self._scheduler.leading():
            await self._scheduler.declare(self._store)
            await self._webhooks.refresh(self._store)
            while runs < limit:
                while await self._scheduler.run_once(self._store) == 0.0:
                    pass
                await self._rescue.sweep(self._store)
                await self._claim(self._store)
                if not await self._webhooks.flush() and not len(self._slots):
                    break
                runs += len(self._slots)
                await self._slots.wait_idle()
                await self._completer.flush(self._store)
        return runs
