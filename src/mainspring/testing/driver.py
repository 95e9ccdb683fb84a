"""The driver of a worker under test: it runs due jobs on request, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from ..config import Settings
from ..engine import Engine
from ..events import Bus, Event, JobsChanged, TickFired
from ..records.outcome import Released
from ..task.context import Context
from ..task.task import Task
from ..worker.slots import Run
from ..worker.worker import Worker
from .clock import VirtualClock

# Real time for a run that neither ends nor waits for the test's clock; then time passes without it: it may wait for
# its own timeout.
REAL_SECONDS = 5.0
# The same if another run waits for the clock: the run may wait for that one.
REAL_SECONDS_BESIDE = 0.5
# A sleeping run keeps its lease, however far the test moves the clock.
LEASE_SECONDS = 100 * 365 * 86_400.0
# Turns of the event loop in which most runs end.
QUICK_TURNS = 8


class DrivenWorker(Worker):
    """A worker for one job after the other, whose leases never lapse. Without `fires` it fires no schedules."""

    def __init__(self, engine: Engine, *, fires: bool) -> None:
        self._fires = fires
        super().__init__(engine, concurrency=1)

    def _choose_settings(self, settings: Settings, concurrency: int | None) -> Settings:
        chosen = super()._choose_settings(settings, concurrency)
        fire = chosen.fire if self._fires else "never"
        return replace(chosen, beat=LEASE_SECONDS, lease=LEASE_SECONDS, fire=fire)

    def _task_limits(self, tasks: Mapping[str, Task[Any, Any]]) -> dict[str, int | None]:
        # One job at a time needs no task limits, and without them jobs come in the store's order.
        return dict.fromkeys(tasks)


class Driver:
    """Runs the jobs of one worker. Runs that wait for virtual time stay suspended until they end or it is closed."""

    def __init__(self, worker: DrivenWorker, bus: Bus, clock: VirtualClock) -> None:
        self.worker = worker
        self.next_at: datetime | None = None
        """When the next job or schedule is due, as of the last work(); None if nothing is."""
        self._bus = bus
        self._clock = clock
        self._slots = worker._slots
        self._stack = AsyncExitStack()
        # All runs by context, and those that do not wait for time. Ended runs are removed in _find_awake().
        self._runs: dict[Context, Run] = {}
        self._awake: set[Context] = set()
        self._cancelled = False

    @property
    def suspended(self) -> list[Run]:
        """Runs that have started and not ended."""
        return list(self._slots)

    async def open(self) -> None:
        worker, enter = self.worker, self._stack.enter_async_context
        self.loop = asyncio.get_running_loop()
        await worker._open()
        self._stack.enter_context(worker._webhooks.active())
        self._stack.enter_context(self._clock.listening(self._on_wait))
        for kind in (JobsChanged, TickFired):
            self._bus.subscribe(kind, self._on_change)
            self._stack.callback(self._bus.unsubscribe, kind, self._on_change)
        await enter(worker._beating())
        await enter(worker._scheduler.leading())
        await worker._scheduler.declare(worker._store)

    async def close(self) -> None:
        """Releases the jobs of suspended runs, and closes the worker."""
        await self._release(self.suspended)
        await self._stack.aclose()

    def abandon(self) -> None:
        """Closes it where nothing can be awaited: runs are cancelled, and their outcomes are not stored."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._slots.lose_leases)

    # running

    async def work(self, limit: float, *, passing: bool) -> int:
        """Runs the due jobs, at most `limit`; returns the number of runs started.

        With `passing` time will go on afterwards, so a run that waits for it is suspended. Otherwise time stands
        still, and a run that starts here and waits for it raises AssertionError.
        """
        worker, started = self.worker, 0
        await worker._webhooks.refresh(worker._store)
        if self._cancelled and self._slots:
            self._cancelled = False
            worker._heartbeat._wake_loop()  # the reply to a beat names the cancelled runs
            await self._clock.settle()
        await self._finish_runs(passing)
        await worker._rescue.sweep(worker._store)
        while started < limit:
            runs = await self._start_one()
            if not runs and not await worker._webhooks.flush():
                break
            started += len(runs)
            await self._finish_runs(passing)
            if not passing and (sleeping := [run for run in runs if run.key in self._slots]):
                await self._refuse(sleeping)
        return started

    async def _start_one(self) -> list[Run]:
        """Starts one job if one is due; sets `next_at`."""
        worker, store, slots, before = self.worker, self.worker._store, self._slots, len(self._slots)
        while (wait := await worker._scheduler.run_once(store)) == 0.0:
            pass
        slots.resize(before + slots.leaks + 1)
        await worker._claimer.claim(store)
        now = self._clock.now()
        at = earliest(worker.claimable_at, None if wait is None else now + timedelta(seconds=wait))
        self.next_at = at if at is None or at > now else None
        started = slots.newest(len(slots) - before)
        self._runs |= {run.ctx: run for run in started}
        self._awake |= {run.ctx for run in started}
        return started

    async def _finish_runs(self, passing: bool) -> None:
        """Waits until each run waits for time, or has ended and its outcome is stored."""
        for _ in range(QUICK_TURNS):
            if not self._find_awake():
                break
            await asyncio.sleep(0)
        if self._slots:
            await self._until_asleep(passing)
        await self.worker._completer.flush(self.worker._store)

    async def _until_asleep(self, passing: bool) -> None:
        began = self._clock.now()
        while self._slots:
            awake = self._find_awake()
            if awake and passing:
                await self._wait_real_time(awake)
            elif awake or (not passing and (self._clock.elapsing or self._clock.now() != began)):
                # The test lets time pass beside process_one() or drain(), so the run goes on.
                await self._slots.wait_change()
            else:
                await self._clock.settle()
                if not self._find_awake():
                    return

    def _find_awake(self) -> set[Context]:
        for ctx in list(self._awake):
            run = self._runs.get(ctx)
            if run is None or run.key not in self._slots:
                self._awake.discard(ctx)
                self._runs.pop(ctx, None)
        return self._awake

    async def _wait_real_time(self, awake: set[Context]) -> None:
        """Waits for a change, or until too much real time has passed: then these runs count as asleep."""
        alone = len(awake) == len(self._slots)
        try:
            async with asyncio.timeout(REAL_SECONDS if alone else REAL_SECONDS_BESIDE):
                await self._slots.wait_change()
        except TimeoutError:
            awake.clear()

    def _on_wait(self, ctx: Context, waits: bool) -> None:
        """Called from any thread when a run begins or stops waiting for time."""
        if ctx in self._runs:
            (self._awake.discard if waits else self._awake.add)(ctx)
            if not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._slots.wake)

    def _on_change(self, event: Event) -> None:
        self._cancelled = True

    # ending

    async def _release(self, runs: list[Run]) -> None:
        """Ends these runs and makes their jobs pending again."""
        if not runs:
            return
        for run in runs:
            run.end(Released())
            self._clock.wake(run.ctx)  # a thread can be interrupted only while it does not wait
        await self._clock.settle()
        for run in runs:
            self._slots.settle(run, Released())
        await self.worker._completer.flush(self.worker._store)

    async def _refuse(self, sleeping: list[Run]) -> None:
        await self._release(sleeping)
        names = ", ".join(sorted({repr(run.job.task) for run in sleeping}))
        raise AssertionError(
            f"task {names} waits for time to pass (app.clock.sleep, or the result of another job), and time stands "
            "still in drain(), process_one() and inline jobs. Run it with `await jobs.advance(minutes=5)`, which lets "
            "time pass; the job is pending again"
        )


def earliest(*instants: datetime | None) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)
