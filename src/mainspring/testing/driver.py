"""The driver of a worker under test: production's loops, which run due jobs on request, one after the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ..bounds import later
from ..config import Settings
from ..engine import Engine
from ..events import Bus, Event, JobsChanged, TickFired
from ..records.outcome import Released
from ..store import Store
from ..task.context import Context
from ..task.task import Task
from ..worker.run import Run, RunKey
from ..worker.watchdog import unwrapped
from ..worker.worker import Loop, Worker
from .clock import VirtualClock

# Real time for a run that neither ends nor waits for the test's clock; then time passes without it: it may wait for
# its own timeout.
REAL_SECONDS = 5.0
# The same if another run waits for the clock: the run may wait for that one.
REAL_SECONDS_BESIDE = 0.5
# Interval of the worker's loops: the driver lets them work, and they set no timers on the test's clock. A sleeping run
# keeps its lease, however far the test moves the clock.
NEVER_SECONDS = 100 * 365 * 86_400.0


class DrivenWorker(Worker):
    """Production's claim loop and the loops around a run. It pauses when nothing is left to do, until work() is called.

    One job runs at a time, beside those that wait for virtual time. Nothing wakes it by the time of day.
    """

    _gather_seconds = 0.0

    def __init__(self, engine: Engine, clock: VirtualClock, *, fires: bool) -> None:
        """Without `fires` it fires no schedules."""
        self._virtual = clock
        self._fires = fires
        self._may_work = asyncio.Event()
        self._goal = 0.0
        self._passing = False
        self._suspended: set[RunKey] = set()
        self._asleep: set[Context] = set()
        self.settled = False
        """Whether its sleeping runs sleep until time passes."""
        self.next_at: datetime | None = None
        """When the next job or schedule is due, as of its last pause; None if nothing is."""
        super().__init__(engine, concurrency=1)
        # _room() lets one job start at a time; runs that wait for time need no slot.
        self._slots.resize(sys.maxsize)

    def _choose_settings(self, settings: Settings, concurrency: int | None) -> Settings:
        chosen = super()._choose_settings(settings, concurrency)
        fire = chosen.fire if self._fires else "never"
        never = NEVER_SECONDS
        return replace(chosen, beat=never, lease=never, sweep=never, poll_interval=never, fire=fire)

    def _task_limits(self, tasks: Mapping[str, Task[Any, Any]]) -> dict[str, int | None]:
        # One job at a time needs no task limits, and without them jobs come in the store's order.
        return dict.fromkeys(tasks)

    def _other_loops(self) -> list[Loop]:
        return [self._scheduler.run_on_demand(self._store)]

    # life cycle

    async def open(self) -> None:
        main = await self._start(until_idle=True)
        main.add_done_callback(lambda _: self._slots.wake())

    async def close(self) -> None:
        """Releases the jobs of its runs."""
        with unwrapped():
            await self.stop(grace=0.0)

    def abandon(self) -> None:
        """Closes it where nothing can be awaited: runs are cancelled, and their outcomes are not stored."""
        if self._main is not None and not self._main.get_loop().is_closed():
            self._main.get_loop().call_soon_threadsafe(self._main.cancel)

    def _begin_stop(self, grace: float) -> None:
        self._may_work.set()
        super()._begin_stop(grace)

    # working and pausing

    def work(self, limit: float, *, passing: bool) -> None:
        """Lets it run at most `limit` jobs, until nothing is left to do.

        With `passing` it goes on when a run waits for time.
        """
        self._goal = self._claimer.started + limit
        self._passing, self._suspended = passing, {run.key for run in self._slots}
        self.settled = False
        self._may_work.set()
        self._claim_trigger.ring()

    async def refresh(self, *, cancels: bool) -> None:
        """Reads what may have changed while it was paused: the webhooks and, with `cancels`, cancelled runs."""
        await self._webhooks.refresh(self._store)
        if cancels:
            self._heartbeat.wake()  # the reply to a beat names the cancelled runs
            await self._virtual.settle()

    async def store_outcomes(self) -> None:
        await self._completer.flush(self._store)

    async def leave_row(self, lease: float) -> None:
        """When it is closed: it is known for so long as a worker that has not stopped."""
        now = self._clock.now()
        await self._store.beat(self._info, until=later(now, lease), now=now)

    def halt(self) -> None:
        """Lets it start no more jobs."""
        self._goal = 0.0

    @property
    def paused(self) -> bool:
        """Whether it has nothing left to do. Raises the error that has ended it."""
        if self._main is not None and self._main.done():
            with unwrapped():
                self._main.result()
        return not self._may_work.is_set()

    @property
    def started(self) -> int:
        """Number of runs started so far."""
        return self._claimer.started

    @property
    def fresh(self) -> list[Run]:
        """Its runs that work() has started and that have not ended."""
        return [run for run in self._slots if run.key not in self._suspended]

    async def _claim_loop(self) -> None:
        await self._may_work.wait()
        await super()._claim_loop()

    async def _is_idle(self, store: Store, before: object) -> bool:
        self._slots.wake()  # the driver looks at the runs that a claim has started
        if await super()._is_idle(store, before):
            at = earliest(self._claimer.claimable_at, self._scheduler.next_at)
            self.next_at = at if at is None or at > self._clock.now() else None
            self._may_work.clear()
            self._slots.wake()
            await self._may_work.wait()
        return False

    def _at_rest(self) -> bool:
        return not self._completer.bytes and (not len(self._slots) or (self.settled and not self.awake()))

    def _room(self) -> int:
        # One after the other: the outcome of the last run is stored before the next one starts.
        may_start = self._claimer.started < self._goal and self._at_rest() and (self._passing or not self.fresh)
        return 1 if may_start else 0

    # runs that wait for time

    def awake(self) -> list[Run]:
        """Its runs that do not wait for time."""
        return [run for run in self._slots if run.ctx not in self._asleep]

    def fall_asleep(self, ctx: Context) -> None:
        self._asleep.add(ctx)
        self.settled = False

    def wake_up(self, ctx: Context) -> None:
        self._asleep.discard(ctx)
        self.settled = False

    def settle_asleep(self) -> None:
        """Its sleeping runs will not wake before time passes: it may start the next job, or pause."""
        for ctx in self._asleep - {run.ctx for run in self._slots}:
            self._asleep.discard(ctx)  # not at once: other threads add to it
        self.settled = True
        self._claim_trigger.ring()


class Driver:
    """Runs the jobs of one worker. Runs that wait for virtual time stay suspended until they end or it is closed."""

    def __init__(self, worker: DrivenWorker, bus: Bus, clock: VirtualClock) -> None:
        self._bus = bus
        self._clock = clock
        self._stack = ExitStack()
        self._changed = False
        self._drive(worker)

    def _drive(self, worker: DrivenWorker) -> None:
        self.worker, self._slots = worker, worker._slots

    @property
    def suspended(self) -> list[Run]:
        """Runs that have started and not ended."""
        return list(self._slots)

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stack.enter_context(self._clock.listening(self._on_wait))
        for kind in (JobsChanged, TickFired):
            self._bus.subscribe(kind, self._on_change)
            self._stack.callback(self._bus.unsubscribe, kind, self._on_change)
        await self.worker.open()

    async def close(self) -> None:
        """Releases the jobs of suspended runs, and closes the worker."""
        try:
            await self._release(self.suspended)
            await self.worker.close()
        finally:
            self._stack.close()

    def abandon(self) -> None:
        """Closes it where nothing can be awaited."""
        self._stack.close()
        self.worker.abandon()

    # running

    async def work(self, limit: float, *, passing: bool) -> int:
        """Runs the due jobs, at most `limit`; returns the number of runs started.

        With `passing` time will go on afterwards, so a run that waits for it is suspended. Otherwise time stands
        still, and a run that starts here and waits for it raises AssertionError.
        """
        worker, before, began = self.worker, self.worker.started, self._clock.now()
        await worker.refresh(cancels=self._changed and len(self._slots) > 0)
        self._changed = False
        worker.work(limit, passing=passing)
        while not worker.paused:
            awake, started = worker.awake(), worker.fresh
            # The test may let time pass beside process_one() or drain(), and then the run goes on.
            stands = not passing and not self._clock.elapsing and self._clock.now() == began
            if awake and passing:
                await self._wait_real_time(awake)
            elif awake or worker.settled or not len(self._slots) or (started and not passing and not stands):
                await self._slots.wait_change()
            elif await self._all_asleep():
                if started and stands:
                    await self._refuse(started)
                worker.settle_asleep()
        return worker.started - before

    async def _all_asleep(self) -> bool:
        """Whether all runs wait for time, also when everything else has come to rest."""
        await self._clock.settle()
        return not self.worker.awake() and len(self._slots) > 0

    async def _wait_real_time(self, awake: list[Run]) -> None:
        """Waits for a change, or until too much real time has passed: then these runs count as asleep."""
        alone = len(awake) == len(self._slots)
        try:
            async with asyncio.timeout(REAL_SECONDS if alone else REAL_SECONDS_BESIDE):
                await self._slots.wait_change()
        except TimeoutError:
            for ctx in [run.ctx for run in awake if run.ctx is not None]:
                self.worker.fall_asleep(ctx)

    def _on_wait(self, ctx: Context, waits: bool) -> None:
        """Called from any thread when a run begins or stops waiting for time."""
        (self.worker.fall_asleep if waits else self.worker.wake_up)(ctx)
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._slots.wake)

    def _on_change(self, event: Event) -> None:
        self._changed = True

    # ending

    async def _release(self, runs: list[Run]) -> None:
        """Ends these runs and makes their jobs pending again."""
        if not runs:
            return
        self.worker.halt()
        for run in runs:
            run.end(Released())
            if run.ctx is not None:
                self._clock.wake(run.ctx)  # a thread can be interrupted only while it does not wait
        await self._clock.settle()
        for run in runs:
            self._slots.settle(run, Released())
        await self.worker.store_outcomes()

    async def _refuse(self, sleeping: list[Run]) -> None:
        await self._release(sleeping)
        while not self.worker.paused:
            self.worker.settle_asleep()
            await self._slots.wait_change()
        names = ", ".join(sorted({repr(run.job.task) for run in sleeping}))
        raise AssertionError(
            f"task {names} waits for time to pass (app.clock.sleep, or the result of another job), and time stands "
            "still in drain(), process_one() and inline jobs. Run it with `await jobs.advance(minutes=5)`, which lets "
            "time pass; the job is pending again"
        )


def earliest(*instants: datetime | None) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)
