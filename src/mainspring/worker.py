"""Worker: claim, finish, beat and tick loops; start and stop."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar
from zlib import crc32

from msgspec.structs import replace

from .clock import Alarm, StoreClock
from .config import Settings
from .errors import BadInput, MainspringError, StoreUnavailable
from .events import (
    Bus,
    JobEnded,
    JobEnqueued,
    JobLost,
    JobsExpired,
    JobStarted,
    SlotLeaked,
    StoreTrouble,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
    ended,
)
from .failpoint import failpoint
from .job import Beat, Ending, Job, JobId, Lease, Orders, Report, State, WorkerInfo
from .outcome import Crashed, Ended, Outcome, Policy, Released, decide
from .prune import Pruner
from .pulse import Pulse
from .retry import Backoff
from .runner import Runner
from .slots import Run, RunKey, Slots
from .store import Store
from .wear import Wear, resident

T = TypeVar("T")
_logger = logging.getLogger("mainspring")

# A freed slot waits this long for others before the worker claims for fewer than half of its slots.
GATHER = 0.005
# Outcomes not yet stored, as a multiple of the slots, before the worker stops claiming.
BACKLOG = 4
# What one sweep looks at.
SWEEP_LIMIT = 200
# Log lines and progress wait this long for more of them.
REPORT = 0.5
# How often retention is looked after.
PRUNE = 60.0
# How long runs may take to end after a stop has cancelled them.
LAST_CALL = 3.0
# How often a stop tries to store the last outcomes. After that the leases end, and others take the jobs.
LAST_FLUSHES = 10
_DEAD = State.DEAD
_AGAIN = Backoff(initial=0.1, max=2.0, jitter=0.5)


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
        pruner: Pruner | None = None,
    ) -> None:
        """`tasks` and `queues` (a mapping) say how many of each may run at once here; None: no limit.

        With `recycle` it stops by itself when the process is worn, as the settings recycle_* say, or a slot
        has leaked. `mourned` adds to an outcome what a job's death brings about.
        """
        self._opened = opened
        self._runner = runner
        self._tasks = tasks
        self._queues = queues if queues is None or isinstance(queues, Mapping) else dict.fromkeys(queues)
        self._settings = settings
        self._clock = clock
        self._bus = bus
        self._mourned = mourned
        self._pruner = pruner
        self._slots = Slots(runner, settings.concurrency, clock, self._on_end, self._on_leak)
        self._wake, self._ended, self._gathered, self._laid = (Alarm(clock) for _ in range(4))
        self._orders = Orders()
        self._unsent: list[Report] = []
        self._carrying = asyncio.Lock()
        self._turned: dict[str, float] = {}
        host = socket.gethostname()
        # Never the same twice: a restarted worker must not take what its predecessor left for its own.
        self.id = f"{settings.instance_id or host}-{os.getpid()}-{os.urandom(4).hex()}"
        self._info = WorkerInfo(
            id=self.id, host=host, pid=os.getpid(), queues=None if self._queues is None else tuple(self._queues),
            tasks=tuple(sorted(tasks)), concurrency=settings.concurrency, started_at=clock.now(), lease=settings.lease,
            limits={name: limit for name, limit in tasks.items() if limit is not None},
            queue_limits={name: limit for name, limit in (self._queues or {}).items() if limit is not None},
        )  # fmt: skip
        self._pulse = Pulse(
            clock, bus, beat=settings.beat, lease=settings.lease, describe=self._describe, heard=self._heard,
            silent=self._fall_silent, turned=lambda: self._turn("beat"),
        )  # fmt: skip
        self._outcomes: list[tuple[Run, Outcome]] = []
        self._flushing = asyncio.Lock()
        self._settling: set[RunKey] = set()
        self._strays: set[RunKey] = set()
        self._orphans: set[RunKey] = set()
        self._claiming = False
        self._silent = False
        self._silences = 0
        self._gathering = False
        self._phase = crc32(self.id.encode()) / 2**32
        self._stopping = False
        self._grace = settings.grace
        self._wear = Wear(clock, jobs=settings.recycle_jobs, memory=settings.recycle_memory) if recycle else Wear(clock)
        self._recycles = recycle
        self.recycled: str | None = None
        """Why it stops or has stopped by itself, for a fresh process to take its place; None: it did not."""
        self._main: asyncio.Task[None] | None = None

    # start and stop

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT, then stops gracefully; a second signal stops at once."""
        loop = asyncio.get_running_loop()
        caught: list[signal.Signals] = []
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or Windows
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal)
                caught.append(number)
        try:
            main = await self._start()
            await asyncio.wait([main])
            await self.stop()
        finally:
            # Who cancels it does not wait for running jobs; they are released.
            await self.stop(grace=0.0)
            for number in caught:
                loop.remove_signal_handler(number)

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
            self.recycled = reason
            _logger.info("worker %s recycles: %s", self.id, reason)
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
        error = None if main.cancelled() else main.exception()
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
        self._wake.ring()
        self._ended.ring()
        self._pulse.hurry()

    async def _live(self, up: asyncio.Future[None]) -> None:
        self._store = await self._insist("opening", self._opened)
        try:
            await self._pulse.start(self._store)
            up.set_result(None)
            self._bus.emit(WorkerStarted(at=self._clock.now(), worker=self.id))
            await self._work()
        finally:
            self._lose_all()
            self._slots.close()
            await self._pulse.stop()
            self._runner.close()
            self._bus.emit(WorkerStopped(at=self._clock.now(), worker=self.id))

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(self._pulse.watch()),  # alive      -> store.beat, hears cancels
                group.create_task(self._finish_loop()),  # outcomes   -> store.finish, in batches
                group.create_task(self._report_loop()),  # log lines  -> store.report
                group.create_task(self._tick_loop()),  #   expired    -> store.finish
                group.create_task(self._prune_loop()),  #  finished   -> gone, as retention says
                group.create_task(self._listen_loop()),  # store.wait -> claim at once
            ]
            await self._claim_loop()  # slots -> store.claim -> runner.run
            await self._drain()  # grace, then release what is left
            for loop in loops:
                loop.cancel()

    async def _drain(self) -> None:
        """Running jobs get their grace, then are released; every outcome is stored before it returns."""
        await self._until_idle(lambda: self._grace)
        for run in self._slots:
            run.end(Released())
        await self._until_idle(lambda: LAST_CALL)
        for run in self._slots:
            # It ignores its cancellation: the job is released all the same, and the run counts for nothing.
            self._slots.give_up(run, Released())
        for _ in range(LAST_FLUSHES):
            with suppress(StoreUnavailable):
                await self._flush()
                break
            await self._clock.sleep(_AGAIN.initial)

    async def _until_idle(self, patience: Callable[[], float]) -> None:
        began = self._clock.monotonic()
        while len(self._slots) and (left := began + patience() - self._clock.monotonic()) > 0:
            await self._ended.wait(left)

    # claim: slots -> store.claim -> runner.run

    async def _claim_loop(self) -> None:
        while not self._stopping:
            if reason := self._wear.reason():
                self.recycle(reason)
                break
            wait = await self._insist("claiming", self._claim)
            if not self._stopping:
                await self._wake.wait(wait)

    async def _claim(self) -> float | None:
        """Fills free slots; returns the seconds until asking again can help, None: when a slot is free."""
        wait = self._settings.poll_interval
        for queues, tasks, room in self._requests():
            now, silences = self._clock.now(), self._silences
            self._claiming = True
            try:
                claim = await self._store.claim(queues, worker=self.id, tasks=tasks, limit=room, now=now)
            finally:
                self._claiming = False
            # Came after we had let go of everything: others may have these jobs. If not, they are orphans.
            for job in claim.jobs if silences == self._silences else ():
                self._begin(job)
            if claim.expired:
                self._bus.emit(JobsExpired(at=now, ids=tuple(claim.expired)))
            if claim.next_at is not None:
                wait = min(wait, max(0.0, (claim.next_at - self._clock.now()).total_seconds()))
        return wait if self._free() > 0 else None

    def _requests(self) -> Iterator[tuple[list[str] | None, list[str], int]]:
        """What to ask for: each limited queue and task by its own room, then all that is unlimited at once."""
        for queues, in_queue in _groups(self._queues):
            for tasks, of_task in _groups(self._tasks):
                room = self._free()
                for limits, running, name in (
                    (self._queues, self._slots.per_queue, in_queue),
                    (self._tasks, self._slots.per_task, of_task),
                ):
                    if name is not None and limits is not None:
                        room = min(room, (limits[name] or 0) - running[name])
                if room > 0 and tasks is not None:
                    yield queues, tasks, room

    def _free(self) -> int:
        waiting = len(self._outcomes) + len(self._settling)
        held_back = self._stopping or self._silent or self._orders.drained
        if held_back or waiting > BACKLOG * self._slots.size:
            return 0
        return self._slots.free

    def _begin(self, job: Job) -> None:
        self._slots.begin(job)
        if self._bus.wants(JobStarted):
            self._bus.emit(JobStarted(at=self._clock.now(), job=job))

    def _on_end(self, run: Run, ended: Ended) -> None:
        now, job = self._clock.now(), run.job
        self._wear.jobs += 1
        if run.lost:
            self._bus.emit(JobLost(at=now, job=job))
        else:
            outcome = decide(job, ended, now=now, policy=self._runner.policy(job), account=run.ctx.account())
            if outcome.state is _DEAD:
                outcome = self._mourned(job, outcome)
            self._outcomes.append((run, outcome))
            self._gathered.ring()
        self._ended.ring()
        self._ask_again()

    def _on_leak(self, job: Job, stack: str) -> None:
        self._bus.emit(SlotLeaked(at=self._clock.now(), job=job, stack=stack))
        if self._recycles:
            self.recycle(f"a slot leaked: {job.task} {job.id} ignores its interruption")

    def _ask_again(self) -> None:
        """At once if half the slots are free; else soon, so that one claim fills several."""
        half = self._slots.free * 2 >= self._slots.size
        if self._gathering and not half:
            return
        if half and self._free() * 2 >= self._slots.size:
            self._wake.ring()
        elif not self._gathering:
            self._gathering = True
            self._clock.call_later(GATHER, self._ask_now)

    def _ask_now(self) -> None:
        self._gathering = False
        self._wake.ring()

    async def _listen_loop(self) -> None:
        queues = None if self._queues is None else list(self._queues)
        while True:
            await self._insist("waiting", lambda: self._store.wait(queues, self._settings.poll_interval))
            self._wake.ring()

    # finish: outcomes -> store.finish, in batches

    async def _finish_loop(self) -> None:
        while True:
            await self._gathered.wait(None)
            await self._insist("finishing", self._flush)

    async def _flush(self) -> None:
        """Stores what has gathered; what comes meanwhile is the next batch."""
        async with self._flushing:
            while self._outcomes:
                batch, self._outcomes = self._outcomes, []
                self._settling = {run.key for run, _ in batch}
                try:
                    await self._carry()
                    stands = await self._store.finish([outcome for _, outcome in batch])
                except BaseException:
                    self._outcomes = batch + self._outcomes
                    raise
                finally:
                    self._settling = set()
                failpoint("finish.after_commit")
                self._tell(batch, stands)
                self._ask_again()

    def _tell(self, batch: list[tuple[Run, Outcome]], stands: set[JobId]) -> None:
        wanted = self._bus.wants(JobEnded)
        for run, outcome in batch:
            if outcome.id not in stands:
                self._bus.emit(JobLost(at=outcome.finished_at, job=run.job))
            elif wanted or outcome.failure is not None:
                self._stands(run.job, outcome)

    def _stands(self, job: Job, outcome: Outcome) -> None:
        at = outcome.finished_at
        self._bus.emit(ended(at, job, outcome))
        for new in outcome.then:
            self._bus.emit(JobEnqueued(at=at, id=new.id, task=new.task, queue=new.queue, status="new"))

    # report: log lines and progress -> store.report

    async def _report_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._runner.desk.ring = lambda: loop.is_closed() or loop.call_soon_threadsafe(self._laid.ring)
        while True:
            if not self._runner.desk:
                await self._laid.wait(None)
            await self._clock.sleep(REPORT)
            await self._insist("reporting", self._carry)

    async def _carry(self) -> None:
        """What runs have said goes to the store, before their outcomes do: those end what may be said."""
        if not self._unsent and not self._runner.desk:
            return
        async with self._carrying:
            while reports := self._unsent or self._runner.desk.take():
                self._unsent = reports
                await self._store.report(reports)
                self._unsent = []

    # beat: alive -> store.beat, hears cancels

    def _describe(self) -> tuple[WorkerInfo, set[RunKey]]:
        runs = {run.key for run in self._slots}
        about = replace(
            self._info, running=len(runs), finished=self._wear.jobs, leaked=self._slots.leaks, memory=resident(),
            concurrency=self._slots.size, drained=self._orders.drained,
        )  # fmt: skip
        return about, runs

    def _heard(self, beat: Beat, sent: set[RunKey]) -> None:
        if self._silent:
            self._silent = False
            self._wake.ring()
        self._slots.hear(beat, sent)
        if beat.orders != self._orders:
            self._obey(beat.orders)
        # Ours in the store, unknown here, and no claim under way: the answer to a claim got lost. Seen
        # twice in a row, so that an outcome on its way is not taken for one.
        known = self._settling | {run.key for run, _ in self._outcomes} | {run.key for run in self._slots}
        strays = set() if self._claiming else set(beat.holds.items()) - known
        self._orphans = strays & self._strays
        self._strays = strays

    def _obey(self, orders: Orders) -> None:
        _logger.info("worker %s has new orders: %s", self.id, orders)
        self._orders = orders
        self._slots.size = orders.concurrency or self._settings.concurrency
        self._wake.ring()

    def _fall_silent(self) -> None:
        self._silent = True
        self._silences += 1
        self._lose_all()

    def _lose_all(self) -> None:
        for run in self._slots:
            run.lose()

    # tick: expired -> store.finish

    async def _tick_loop(self) -> None:
        while True:
            wait = await self._insist("sweeping", self._sweep)
            await self._clock.sleep(wait)

    async def _prune_loop(self) -> None:
        pruner = self._pruner
        while pruner is not None:
            # Workers that started together need not prune together.
            await self._clock.sleep(PRUNE * (0.5 + self._phase))
            await self._insist("pruning", lambda: pruner.prune(self._store))

    async def _sweep(self) -> float:
        """Settles the runs of silent workers, and those nobody here knows; returns when to look again."""
        self._turn("tick")  # a store that fails does not make the loop stand still
        now = self._clock.now()
        lost = await self._store.expired(now=now, limit=SWEEP_LIMIT)
        outcomes = {job.id: self._crashed(job, now) for job in lost}
        orphans, self._orphans = self._orphans, set()
        released = [_released(id, lease, now) for id, lease in sorted(orphans)]
        if lost or released:
            stands = await self._store.finish([*outcomes.values(), *released])
            for job in lost:
                if job.id in stands:
                    self._stands(job, outcomes[job.id])
        # Workers that started together need not sweep together.
        return 0.0 if len(lost) == SWEEP_LIMIT else self._settings.sweep * (0.75 + 0.25 * self._phase)

    def _crashed(self, job: Job, now: datetime) -> Outcome:
        policy = self._runner.policy(job) if job.task in self._tasks else Policy()
        outcome = decide(job, Crashed(job.worker or "", self._settings.max_crashes), now=now, policy=policy)
        return self._mourned(job, outcome) if outcome.state is State.DEAD else outcome

    # all of them

    def _turn(self, loop: str) -> None:
        self._turned[loop] = self._clock.monotonic()

    def stuck(self) -> list[str]:
        """What is wrong with a worker that has started and was not stopped; empty: nothing."""
        if self._main is None or self._stopping:
            return []
        if self._main.done():
            return [f"worker {self.id} has ended"]
        now = self._clock.monotonic()
        bounds = {"beat": self._settings.lease, "tick": 3 * self._settings.sweep + self._settings.lease}
        found = [
            f"worker {self.id}: its {loop} loop has not turned for {now - self._turned[loop]:.0f} s"
            for loop, bound in bounds.items()
            if loop in self._turned and now - self._turned[loop] > bound
        ]
        if self._slots.leaks >= self._slots.size:
            found.append(f"worker {self.id}: every slot is leaked")
        return found

    async def _insist(self, doing: str, act: Callable[[], Awaitable[T]]) -> T:
        """The one place that repeats store calls: passing trouble is waited out, everything else ends the worker."""
        failures = 0
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                failures += 1
                again = _AGAIN.delay(failures, seed=f"{self.id}{doing}")
                self._bus.emit(StoreTrouble(at=self._clock.now(), doing=doing, error=str(error), again=again))
                await self._clock.sleep(again)

    async def drain(self, limit: float = math.inf) -> int:
        """Runs what is due until nothing is, instead of start and stop; returns the number of runs.

        With a `limit` it claims no more once there were so many.
        """
        self._store = await self._opened()
        await self._pulse.start(self._store)
        runs = 0
        try:
            while runs < limit:
                await self._sweep()
                await self._claim()
                if not len(self._slots):
                    break
                runs += len(self._slots)
                while len(self._slots):
                    await self._ended.wait(None)
                await self._flush()
            return runs
        finally:
            self._lose_all()
            self._slots.close()
            await self._pulse.stop()
            self._runner.close()


def _groups(limits: Mapping[str, int | None] | None) -> list[tuple[list[str] | None, str | None]]:
    """Names to ask for: each that has a limit, then all others together, who would leave it no slot."""
    if limits is None:
        return [(None, None)]
    free = [name for name in limits if limits[name] is None]
    alone: list[tuple[list[str] | None, str | None]] = [([name], name) for name in limits if limits[name] is not None]
    return [*alone, (free, None)] if free else alone


def _released(id: JobId, lease: Lease, now: datetime) -> Outcome:
    return Outcome(
        id=id,
        lease=lease,
        state=State.PENDING,
        ending=Ending.RELEASED,
        finished_at=now,
        run_at=now,
        refund=True,
    )
