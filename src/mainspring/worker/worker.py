"""Worker: claims jobs, runs them and stores their outcomes; its loops, start and stop."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Never
from zlib import crc32

from msgspec.structs import replace

from ..config import Settings, load
from ..errors import BadInput
from ..events import JobLost, SlotLeaked, WorkerStarted, WorkerStopped, WorkerStopping
from ..insight.queue_depth import DepthSampler
from ..records.job import Job
from ..records.outcome import Crashed, Outcome, Policy, RunEnd, decide
from ..records.run import Ending
from ..records.worker import BeatReply, WorkerCommands, WorkerInfo
from ..store_retry import StoreRetry
from ..supervisor.signals import on_stop
from ..task.task import Task
from ..webhook.record import QUEUE as WEBHOOKS
from ..webhook.record import TASK as WEBHOOK
from .claimer import Claimer
from .claims import ClaimLimits, ClaimTrigger, checked_queues
from .completer import Completer
from .heartbeat import Heartbeat, worker_info
from .judge import Judge
from .recycle import RecyclePolicy, resident_bytes
from .report_buffer import ReportBuffer
from .reports import ReportSender
from .rescue import OrphanRescue
from .runner import Runner
from .slots import Run, RunKey, Slots
from .state import WorkerState
from .transaction import TransactionalCompletion
from .watchdog import Watchdog, log_end

if TYPE_CHECKING:
    from ..engine import Engine

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
        engine: Engine,
        queues: Sequence[str] | Mapping[str, int | None] | None = None,
        concurrency: int | None = None,
        recycle: bool = False,
    ) -> None:
        """`queues` are those it serves (None: all); a mapping has the maximum number of slots of each.

        With `recycle` it stops by itself when a limit of the settings recycle_* is reached or a slot has leaked.
        """
        settings = self._choose_settings(engine.settings, concurrency)
        tasks = _served_tasks(engine, queues)
        clock, bus = engine.clock, engine.events
        host, pid = socket.gethostname(), os.getpid()
        # Never reused: a restarted worker must not take its predecessor's runs for its own.
        self.id = f"{settings.instance_id or host}-{pid}-{os.urandom(4).hex()}"
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._bus = bus
        self._recycles = recycle
        self._state = WorkerState(settings.grace)
        self._limits = ClaimLimits(queues, self._task_limits(tasks))
        self._scheduler = engine.scheduler(settings.fire)
        self._pruner = engine.pruner(tasks)
        self._webhooks = engine.dispatcher
        buffer = ReportBuffer(clock, lambda ctx: self._transactions.transaction(ctx))
        self._runner = runner = Runner(
            tasks,
            engine.registry.middleware,
            clock,
            buffer,
            timeout=settings.default_timeout,
            policy=Policy(settings.retry_max, settings.backoff),
            result_limit=settings.result_limit,
            max_crashes=settings.max_crashes,
            skew=settings.skew,
        )
        self._slots = Slots(runner, settings.concurrency, clock, self._on_end, self._on_leak)
        self._claim_trigger = ClaimTrigger(clock, self._slots, self._free_slots)
        self._report_sender = sender = ReportSender(buffer, clock, bus)
        self._judge = Judge(runner.policy, self._after_death, self._with_deliveries)
        self._completer = Completer(clock, bus, sender, self._claim_trigger.slot_freed, self._judge.limit_releases)
        self._transactions = TransactionalCompletion(runner, sender, clock, lambda: self._store, self._with_deliveries)
        self._depth_sampler = DepthSampler(clock)
        self._rescue = OrphanRescue(clock, bus, self._crashed, self._judge.limit_releases)
        self._claimer = Claimer(
            self.id,
            clock,
            bus,
            limits=self._limits,
            slots=self._slots,
            state=self._state,
            judge=self._judge,
            trigger=self._claim_trigger,
            free_slots=self._free_slots,
            on_expired=self._scheduler.note_failed_job,
            poll=settings.poll_interval,
            max_crashes=settings.max_crashes,
        )
        lease = settings.lease
        bounds = {"beat": lease, "sweep": 3 * settings.sweep + lease, "fire": 3 * settings.poll_interval + lease}
        self._watchdog = Watchdog(clock, bounds)
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
        self._listening: Callable[[], bool | None] = lambda: None
        self._phase = crc32(self.id.encode()) / 2**32
        jobs, memory = (settings.recycle_jobs, settings.recycle_memory) if recycle else (0, 0)
        self._recycle_policy = RecyclePolicy(clock, jobs=jobs, memory=memory)
        self._main: asyncio.Task[None] | None = None
        engine.add_worker(self)

    def _choose_settings(self, settings: Settings, concurrency: int | None) -> Settings:
        chosen = settings if concurrency is None else load({"concurrency": concurrency}, {})
        return replace(settings, concurrency=chosen.concurrency)

    def _task_limits(self, tasks: Mapping[str, Task[Any, Any]]) -> dict[str, int | None]:
        return {name: task.options.concurrency for name, task in tasks.items()}

    @property
    def recycled(self) -> str | None:
        """Why the worker stops by itself, to be replaced by a new process; None if it does not."""
        return self._state.recycled

    @property
    def stopped_by_operator(self) -> bool:
        """An operator has stopped it: only a supervisor starts a replacement."""
        return self._state.stopped_by_operator

    @property
    def claimable_at(self) -> datetime | None:
        """When the next job for this worker becomes claimable, as of its last claim; None if none is known."""
        return self._claimer.claimable_at

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
        if not self._state.stopping:
            _logger.info("worker %s recycles: %s", self.id, reason)
            self._stop_for_replacement(reason)

    def _stop_for_replacement(self, reason: str) -> None:
        if not self._state.stopping:
            self._state.recycle(reason)
            self._begin_stop(self._settings.grace)

    async def _start(self) -> asyncio.Task[None]:
        """Returns once the worker claims jobs. Raises if it could not start."""
        if self._main is not None:
            raise BadInput("a worker starts once; make another one with app.worker()")
        self._state.start()
        up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(self._run_main(up), name=f"mainspring-worker-{self.id}")
        self._main.add_done_callback(partial(log_end, self.id))
        await asyncio.wait([self._main, up], return_when=asyncio.FIRST_COMPLETED)
        if self._main.done():
            self._main.result()
        return self._main

    def _on_signal(self) -> None:
        self._begin_stop(0.0 if self._state.on_signal() else self._settings.grace)

    def _begin_stop(self, grace: float) -> None:
        if not self._state.stopping and self._main is not None:
            running = len(self._slots)
            self._bus.emit(WorkerStopping(at=self._clock.now(), worker=self.id, running=running, grace=grace))
        self._state.stop(grace)
        self._claim_trigger.ring()
        self._slots.wake()
        self._heartbeat.wake()

    async def _run_main(self, up: asyncio.Future[None]) -> None:
        await self._open()
        with self._webhooks.active():
            try:
                async with self._beating():
                    up.set_result(None)
                    self._state.run()
                    self._bus.emit(WorkerStarted(at=self._clock.now(), worker=self.id))
                    await self._run_loops()
            finally:
                self._bus.emit(WorkerStopped(at=self._clock.now(), worker=self.id))
                await self._webhooks.flush_last()
                await self._engine.feed.flush()
                self._state.end()

    async def _open(self) -> None:
        with self._watchdog.call("opening", "open", self._settings.lease):
            self._store = await self._retry("opening", self._engine.connect)
        self._listening = self._store.hears

    @asynccontextmanager
    async def _beating(self) -> AsyncIterator[None]:
        """Beats inside the block, and cleans everything up after it."""
        try:
            self._info = replace(self._info, schema=self._store.newest_schema)
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
            self._engine.feed.wrap_store(lambda store: self._watchdog.store(store, "feed"))
            on_change, queues = self._scheduler.on_store_change, self._info.queues
            loops = [
                begin(self._heartbeat.watch()),  # alive -> store.beat, returns cancels
                begin(self._completer.run(of("finish"), retry)),  # outcomes -> store.finish, in batches
                begin(self._report_sender.run(of("report"), retry)),  # log lines, progress -> store.report
                begin(self._sweep_loop()),  # orphaned runs -> store.finish
                begin(self._scheduler.run(of("fire"), retry, poll, self._watchdog)),  # schedules due -> store.fire
                begin(self._webhooks.run(of("webhook"), retry, self._settings.beat)),  # events -> webhook jobs
                begin(self._depth_sampler.run(of("depth"), self._phase)),  # queue depths -> a document, once a minute
                begin(self._claim_trigger.listen(of("listen"), retry, queues, poll, on_change)),  # store.wait -> claims
                begin(self._pruner.run(of("prune"), retry, self._phase)),  # finished jobs -> deleted
            ]
            await self._claim_loop()  # slots -> store.claim -> runner.run
            await self._slots.drain(lambda: self._state.grace)  # grace, then release what is left
            await self._completer.flush_last(store)
            for loop in loops:
                loop.cancel()

    # claim: slots -> store.claim -> runner.run

    async def _claim_loop(self) -> None:
        store = self._watchdog.store(self._store, "claim")
        await self._retry("reading webhooks", lambda: self._webhooks.refresh(store))
        while not self._state.stopping:
            if reason := self._recycle_policy.reason():
                self.recycle(reason)
                break
            wait = await self._retry("claiming", lambda: self._claimer.claim(store))
            if not self._state.stopping:
                await self._claim_trigger.wait(wait)

    def _free_slots(self) -> int:
        backlog = self._completer
        if (
            not self._state.may_claim
            or len(backlog) > BACKLOG_PER_SLOT * self._slots.size
            or backlog.bytes > BACKLOG_BYTES
        ):
            return 0
        return self._slots.free

    def _on_end(self, run: Run, ended: RunEnd) -> None:
        now, job = self._clock.now(), run.job
        self._recycle_policy.count_run()
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
        if self._recycles:
            self.recycle(f"a slot leaked: {job.task} {job.id} ignores its interruption")

    # beat: alive -> store.beat, returns cancels

    def _describe(self) -> tuple[WorkerInfo, set[RunKey]]:
        runs = {run.key for run in self._slots}
        slots, drained = self._slots, self._state.commands.drained
        info = replace(self._info, running=len(runs), finished=self._recycle_policy.jobs, memory=resident_bytes())
        info = replace(info, leaked=slots.leaks, concurrency=slots.size, drained=drained, deaf=self.deaf)
        return replace(info, stopping=self._state.stopping), runs

    def _on_beat(self, beat: BeatReply, sent: set[RunKey]) -> None:
        if self._state.renew():
            self._claim_trigger.ring()
        self._slots.apply_beat(beat, sent)
        self._engine.feed.watch_until(beat.watched_until)
        if beat.orders != self._state.commands:
            self._apply_commands(beat.orders)
        known = self._completer.keys() | {run.key for run in self._slots}
        self._rescue.note_unknown_runs(set() if self._claimer.under_way else set(beat.holds.items()) - known)
        self._rescue.note_lost_runs(beat.lost)

    def _apply_commands(self, commands: WorkerCommands) -> None:
        _logger.info("worker %s received commands: %s", self.id, commands)
        self._state.command(commands)
        self._slots.resize(commands.concurrency or self._settings.concurrency)
        self._claim_trigger.ring()
        if commands.stopped:
            self._stop_for_replacement("an operator has stopped it")

    def _lose_leases(self) -> None:
        self._state.lapse()
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
        return self._engine.registry.with_dead_letter_jobs(job, outcome)

    @property
    def deaf(self) -> bool:
        """Whether the store fails to notify it of changes, so that it falls back to its poll interval."""
        return self._listening() is False

    def stuck(self) -> list[str]:
        """What is wrong with a worker that was started and not stopped; empty if nothing is."""
        if self._main is None or self._state.stopping:
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
        self._store = await self._engine.connect()
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
                await self._claimer.claim(self._store)
                if not await self._webhooks.flush() and not len(self._slots):
                    break
                runs += len(self._slots)
                await self._slots.wait_idle()
                await self._completer.flush(self._store)
        return runs


def _served_tasks(engine: Engine, queues: Sequence[str] | Mapping[str, int | None] | None) -> dict[str, Task[Any, Any]]:
    """The tasks that a worker runs. Raises BadInput if there are none, or if the queues are wrong."""
    tasks = engine.registry.runnable
    if not tasks and WEBHOOKS not in (queues or ()):
        raise BadInput("this app has no tasks, so a worker would have nothing to run: register some with @app.task")
    checked_queues(queues)
    if queues is None or WEBHOOKS in queues:
        tasks[WEBHOOK] = engine.delivery_task()
    return tasks
