"""Worker: claims jobs, runs them and stores their outcomes; its loops, start and stop."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec.structs import replace

from ..config import Settings, load
from ..errors import BadInput
from ..events import JobLost, SlotLeaked, WorkerStarted, WorkerStopped, WorkerStopping
from ..insight.queue_depth import DepthSampler
from ..records.job import Job
from ..records.outcome import Crashed, Outcome, RunEnd, decide
from ..records.run import Ending
from ..records.worker import BeatReply, WorkerCommands, WorkerInfo
from ..store import Listening, Store
from ..store.retry import StoreOnce, StoreRetry
from ..supervisor.signals import on_stop
from ..task.task import Task
from .claimer import Claimer
from .claims import GATHER_SECONDS, ClaimLimits, ClaimTrigger, served_tasks
from .completer import Completer
from .durable import DurableSteps
from .heartbeat import Heartbeat, worker_info
from .judge import Judge
from .recycle import RecyclePolicy, resident_bytes
from .report_buffer import ReportBuffer
from .reports import ReportSender
from .rescue import OrphanRescue
from .run import Run, RunKey
from .runner import Runner
from .slots import Slots
from .state import WorkerState
from .transaction import TransactionalCompletion
from .watchdog import Watchdog, log_end, unwrapped

if TYPE_CHECKING:
    from ..engine import Engine
    from ..task.context import Context
    from ..task.flow_failure import FlowEnd

_logger = logging.getLogger("mainspring")
# Outcomes not yet stored above which the worker stops claiming: per slot, and in bytes of jobs and results.
BACKLOG_PER_SLOT, BACKLOG_BYTES = 4, 16 << 20
_RELEASED = Ending.RELEASED
Loop = Coroutine[Any, Any, object]


class Worker:
    """Claims jobs, runs them and stores their outcomes until it is stopped."""

    _gather_seconds = GATHER_SECONDS
    _runner_type = Runner

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
        settings, tasks = self._choose_settings(engine.settings, concurrency), served_tasks(engine, queues)
        host, pid = socket.gethostname(), os.getpid()
        # Never reused: a restarted worker must not take its predecessor's runs for its own.
        self.id = f"{settings.instance_id or host}-{pid}-{os.urandom(4).hex()}"
        self._engine, self._settings, self._recycles = engine, settings, recycle
        self._clock, self._bus = clock, bus = engine.clock, engine.events
        self._scheduler, self._pruner = engine.scheduler(settings.fire), engine.pruner(tasks)
        self._state, self._webhooks = WorkerState(settings.grace), engine.dispatcher
        buffer = ReportBuffer(clock, lambda c: self._transactions.transaction(c), lambda c: self._durable(c), engine)
        self._runner = runner = self._runner_type.of(tasks, engine.registry, clock, buffer, settings, self._store_calls)
        self._limits = ClaimLimits(queues, self._task_limits(tasks), children := runner.children)
        self._slots = slots = Slots(
            runner,
            settings.concurrency,
            clock,
            self._on_end,
            lambda: self._claim_trigger.slot_freed(),
            self._on_leak,
            counts=self._limits.has_limits,
        )
        self._claim_trigger = trigger = ClaimTrigger(clock, slots, self._free_slots, self._gather_seconds)
        self._report_sender = sender = ReportSender(buffer, clock, bus)
        self._judge = judge = Judge(runner.policy, self._after_death, self._with_deliveries)
        self._completer = Completer(clock, bus, sender, trigger.slot_freed, judge.limit_releases, children.__len__)
        self._transactions = TransactionalCompletion(runner, sender, clock, lambda: self._store, self._with_deliveries)
        self._durable = partial(DurableSteps, clock, runner.threads, self._store_calls, slots.lose, self._transactions)
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
        self._retry, self._depth_sampler = StoreRetry(clock, bus, self.id), DepthSampler(clock)
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
        self._phase = crc32(self.id.encode()) / 2**32
        jobs, memory = (settings.recycle_jobs, settings.recycle_memory) if recycle else (0, 0)
        self._recycle_policy = RecyclePolicy(clock, jobs=jobs, memory=memory)
        self._main: asyncio.Task[None] | None = None
        engine.add_worker(self)

    def _store_calls(self) -> tuple[Store, StoreRetry]:
        return self._store, self._retry

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

    async def drain(self, limit: float = math.inf) -> int:
        """Runs due jobs until none is left, instead of start and stop; returns the number of runs.

        After `limit` runs it claims no more. An error of the store is raised at once.
        """
        try:
            main = await self._start(until_idle=True, max_runs=limit)
            await asyncio.wait([main])
        finally:
            with unwrapped():
                await self.stop(grace=0.0)
        return self._claimer.started

    async def _start(self, *, until_idle: bool = False, max_runs: float = math.inf) -> asyncio.Task[None]:
        """Returns once the worker claims jobs. Raises if it could not start."""
        if self._main is not None:
            raise BadInput("a worker starts once; make another one with app.worker()")
        self._state.start(until_idle=until_idle, max_runs=max_runs)
        if until_idle:
            self._retry = StoreOnce(self._clock, self._bus, self.id)
        up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(self._run_main(up), name=f"mainspring-worker-{self.id}")
        if not until_idle:  # else drain() raises the error
            self._main.add_done_callback(partial(log_end, self.id))
        await asyncio.wait([self._main, up], return_when=asyncio.FIRST_COMPLETED)
        if self._main.done():
            self._main.result()
        return self._main

    def _on_signal(self) -> None:
        self._begin_stop(0.0 if self._state.on_signal() else self._settings.grace)

    def _begin_stop(self, grace: float) -> None:
        if not (self._state.stopping or self._state.until_idle) and self._main is not None:
            self._bus.emit(WorkerStopping(at=self._clock.now(), worker=self.id, running=self._slots.taken, grace=grace))
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
                    if not self._state.until_idle:
                        self._bus.emit(WorkerStarted(at=self._clock.now(), worker=self.id))
                    await self._run_loops()
            finally:
                if not self._state.until_idle:
                    self._bus.emit(WorkerStopped(at=self._clock.now(), worker=self.id))
                await self._webhooks.flush_last()
                await self._engine.feed.flush()
                self._state.end()

    async def _open(self) -> None:
        with self._watchdog.call("opening", "open", self._settings.lease):
            self._store = await self._retry("opening", self._engine.connect_to_work)
        self._listening = lambda: self._store.listening
        if not self._store.capabilities.in_process:
            self._slots.overlap_with_store()
        if self._store.capabilities.carries_on:
            self._completer.carry_on(self._claimer)

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
        self._engine.feed.wrap_store(lambda store: self._watchdog.store(store, "feed"))
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(loop) for loop in (*self._job_loops(), *self._other_loops())]
            await self._claim_loop()  # slots -> store.claim -> runner.run
            await self._slots.drain(lambda: self._state.grace)  # grace, then release what is left
            await self._completer.flush_last(self._store)
            for loop in loops:
                loop.cancel()

    def _job_loops(self) -> list[Loop]:
        of, retry = partial(self._watchdog.store, self._store), self._retry
        return [
            self._heartbeat.watch(),  # alive -> store.beat, returns cancels
            self._completer.run(of("finish"), retry),  # outcomes -> store.finish, in batches
            self._report_sender.run(of("report"), retry),  # log lines, progress -> store.report
            self._rescue.run(of("sweep"), retry, self._settings.sweep, self._phase, self._watchdog),  # -> store.finish
            self._webhooks.run(of("webhook"), retry, self._settings.beat),  # events -> webhook jobs
        ]

    def _other_loops(self) -> list[Loop]:
        """Loops that wake by the time of day or because the store has changed."""
        of, retry, poll = partial(self._watchdog.store, self._store), self._retry, self._settings.poll_interval
        on_change, once = self._scheduler.on_store_change, self._state.until_idle
        return [
            self._scheduler.run(of("fire"), retry, poll, self._watchdog, once),  # schedules due -> store.fire
            self._depth_sampler.run(of("depth"), self._phase),  # queue depths -> a document, once a minute
            self._claim_trigger.listen(of("listen"), retry, poll, on_change),  # store.wait -> claims
            self._pruner.run(of("prune"), retry, self._phase),  # finished jobs -> deleted
        ]

    # claim: slots -> store.claim -> runner.run

    async def _claim_loop(self) -> None:
        store = self._watchdog.store(self._store, "claim")
        await self._retry("reading webhooks", lambda: self._webhooks.refresh(store))
        while not self._state.stopping:
            if reason := self._recycle_policy.reason():
                self.recycle(reason)
                break
            before = self._progress() if self._state.until_idle and self._at_rest() else None
            wait = await self._retry("claiming", lambda: self._claimer.claim(store))
            if self._state.until_idle and await self._is_idle(store, before):
                self._state.stop(self._settings.grace)
            if not self._state.stopping:
                await self._claim_trigger.wait(wait)

    async def _is_idle(self, store: Store, before: object) -> bool:
        """Whether nothing runs, everything is stored, and no loop has found anything to do since `before`."""
        if not self._at_rest():
            return False  # the end of the last run, and of storing it, wakes the claim loop
        idle = before == self._progress()
        if idle:
            await self._scheduler.fire_all(store)
            await self._rescue.sweep(store)
            await self._webhooks.flush()
            idle = before == self._progress() and self._at_rest()
        if not idle:
            self._claim_trigger.ring()
        return idle

    def _progress(self) -> object:
        """What the loops have done, in numbers: any of it may have made more jobs due. So may a run that ends."""
        claims = self._claimer.started, self._claimer.ended
        return claims, self._scheduler.fired, self._rescue.settled, self._webhooks.enqueued

    def _at_rest(self) -> bool:
        return not len(self._slots) and not self._completer.bytes

    def _free_slots(self) -> int:
        backlog = self._completer
        many = backlog.bytes and len(backlog) > BACKLOG_PER_SLOT * self._slots.capacity
        return 0 if many or backlog.bytes > BACKLOG_BYTES or not self._state.may_claim else self._room()

    def _room(self) -> int:
        return math.ceil(min(self._slots.free, self._state.max_runs - self._claimer.started))

    def _on_end(self, run: Run, ctx: Context | None, ended: RunEnd) -> None:
        now, job = self._clock.now(), run.job
        self._recycle_policy.count_run()
        commitment = None if ctx is None else ctx.commitment
        if commitment is not None and commitment.outcome is not None:
            self._completer.committed(run, commitment.outcome, ended)
        elif run.lost:
            self._bus.emit(JobLost(at=now, job=job))
        else:
            outcome = self._judge.outcome(job, ended, now, ctx)
            if outcome.ending is _RELEASED and outcome.failure is not None and outcome.run_at is not None:
                self._claim_trigger.note_postponed(outcome.run_at)
            self._completer.add(run, outcome, None if ctx is None else ctx.flow_end)

    def _with_deliveries(self, job: Job, outcome: Outcome) -> Outcome:
        return self._webhooks.with_deliveries(job, outcome) if self._webhooks.watches_jobs else outcome

    def _on_leak(self, job: Job, stack: str) -> None:
        self._bus.emit(SlotLeaked(at=self._clock.now(), job=job, stack=stack))
        if self._recycles:
            self.recycle(f"a slot leaked: {job.task} {job.id} ignores its interruption")

    # beat: alive -> store.beat, returns cancels

    def _describe(self) -> tuple[WorkerInfo, set[RunKey]]:
        slots, state, runs = self._slots, self._state, {run.key for run in self._slots}
        info = replace(self._info, running=slots.taken, finished=self._recycle_policy.jobs, memory=resident_bytes())
        info = replace(info, leaked=slots.leaks, concurrency=slots.size, drained=state.commands.drained)
        return replace(info, deaf=self.deaf, stopping=state.stopping), runs

    def _on_beat(self, beat: BeatReply, sent: set[RunKey]) -> None:
        if self._state.renew():
            self._claim_trigger.ring()
        self._slots.apply_beat(beat, sent)
        self._engine.feed.watch_until(beat.watched_until)
        self._webhooks.note_version(beat.webhooks)
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

    # what becomes of a job

    def _crashed(self, job: Job, now: datetime) -> Outcome:
        if job.task not in self._limits.tasks:
            # Only a worker that knows the task knows its dead-letter handlers: see _finish_poisoned.
            return self._judge.complete(job, decide(job, Crashed(job.worker or "", sys.maxsize), now=now))
        return self._judge.outcome(job, Crashed(job.worker or "", self._settings.max_crashes), now)

    def _after_death(self, job: Job, outcome: Outcome, flow_end: FlowEnd | None) -> Outcome:
        """The outcome with the consequences of the job's death."""
        if job.schedule is not None:
            self._scheduler.note_failed_job(job.id, outcome.finished_at)
        return self._engine.registry.with_dead_letter_jobs(job, outcome, flow_end)

    @property
    def deaf(self) -> bool:
        """Whether the store fails to notify it of changes, so that it falls back to its poll interval."""
        return self._listening() == "failed"

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
