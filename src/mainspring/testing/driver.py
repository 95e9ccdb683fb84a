"""A worker that a test drives: it runs what is due when the test says so, one job after the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

from ..events import Bus, Event, JobsChanged, TickFired
from ..records.outcome import Released
from ..task.context import Context
from ..worker.slots import Run
from ..worker.worker import Worker
from .clock import VirtualClock

# Real seconds for a run that neither ends nor waits for the test's clock, before time goes on without it: it may wait
# for its own timeout. Less if another run waits for the clock: it may wait for that one.
REAL_SECONDS, REAL_SECONDS_BESIDE = 5.0, 0.5
# The lease of a run that sleeps lasts, however far the test moves its clock.
LEASE_SECONDS = 100 * 365 * 86_400.0
# Turns of the event loop in which most runs end.
QUICK_TURNS = 8


class Driver:
    """Runs that wait for time to pass stay in it until they have ended, or it is closed."""

    def __init__(self, worker: Worker, bus: Bus, clock: VirtualClock) -> None:
        self.worker = worker
        self.next_at: datetime | None = None
        """When the next job or schedule is due, as of the last work(); None: it knows of none."""
        self._bus = bus
        self._clock = clock
        self._slots = worker._slots
        self._stack = AsyncExitStack()
        # The runs here by their contexts, and those that do not wait for time. What has ended is dropped when met.
        self._runs: dict[Context, Run] = {}
        self._awake: set[Context] = set()
        self._cancelled = False
        worker._heartbeat._beat = worker._heartbeat._lease = LEASE_SECONDS
        # One job at a time needs no other limit, and without them jobs come in the order of the store.
        worker._limits.tasks = dict.fromkeys(worker._limits.tasks)

    @property
    def suspended(self) -> list[Run]:
        """The runs that have begun and not ended."""
        return list(self._slots)

    async def open(self) -> None:
        worker, enter = self.worker, self._stack.enter_async_context
        self.loop = asyncio.get_running_loop()
        worker._store = await worker._connect()
        self._stack.enter_context(worker._webhooks.active())
        self._stack.enter_context(self._clock.listening(self._hear))
        for kind in (JobsChanged, TickFired):
            self._bus.subscribe(kind, self._note_cancel)
            self._stack.callback(self._bus.unsubscribe, kind, self._note_cancel)
        await enter(worker._beating())
        await enter(worker._scheduler.leading())
        await worker._scheduler.declare(worker._store)

    async def close(self) -> None:
        """Gives the jobs of suspended runs back to the store."""
        await self._release(self.suspended)
        await self._stack.aclose()

    def abandon(self) -> None:
        """Closes it where nothing can be awaited: the runs are cancelled, and nothing of them is stored."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._slots.lose_leases)

    # running

    async def work(self, limit: float, *, passing: bool) -> int:
        """Runs what is due now, up to `limit` jobs; returns how many were begun.

        With `passing` time is about to go on: a run that waits for it is suspended. Without, time stands still, and a
        run that begins here and waits for it fails the test.
        """
        worker, begun = self.worker, 0
        await worker._webhooks.refresh(worker._store)
        if self._cancelled and self._slots:
            self._cancelled = False
            worker._heartbeat._wake_loop()  # the beat's answer says which runs were cancelled
            await self._clock.settle()
        await self._rest(passing)
        await worker._rescue.sweep(worker._store)
        while begun < limit:
            runs = await self._begin()
            if not runs and not await worker._webhooks.flush():
                break
            begun += len(runs)
            await self._rest(passing)
            if not passing and (sleeping := [run for run in runs if run.key in self._slots]):
                await self._refuse(sleeping)
        return begun

    async def _begin(self) -> list[Run]:
        """Begins one job, if one is due; sets `next_at`."""
        worker, store, slots, before = self.worker, self.worker._store, self._slots, len(self._slots)
        while (wait := await worker._scheduler.run_once(store)) == 0.0:
            pass
        slots.size = before + slots.leaks + 1
        await worker._claim(store)
        now = self._clock.now()
        at = earliest(worker.claimable_at, None if wait is None else now + timedelta(seconds=wait))
        self.next_at = at if at is None or at > now else None
        begun = slots.newest(len(slots) - before)
        self._runs |= {run.ctx: run for run in begun}
        self._awake |= {run.ctx for run in begun}
        return begun

    async def _rest(self, passing: bool) -> None:
        """Until each run has ended, and is stored, or waits for time."""
        for _ in range(QUICK_TURNS):
            if not self._find_awake():
                break
            await asyncio.sleep(0)
        if self._slots:
            await self._quiet(passing)
        await self.worker._completer.flush(self.worker._store)

    async def _quiet(self, passing: bool) -> None:
        began = self._clock.now()
        while self._slots:
            awake = self._find_awake()
            if awake and passing:
                await self._await_real(awake)
            elif awake or (not passing and (self._clock.elapsing or self._clock.now() != began)):
                # A caller that lets time pass beside process_one() or drain() makes the run go on.
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

    async def _await_real(self, awake: set[Context]) -> None:
        """Until something has changed, or too much real time has passed: then these runs count as asleep."""
        alone = len(awake) == len(self._slots)
        try:
            async with asyncio.timeout(REAL_SECONDS if alone else REAL_SECONDS_BESIDE):
                await self._slots.wait_change()
        except TimeoutError:
            awake.clear()

    def _hear(self, ctx: Context, waits: bool) -> None:
        """In whatever thread."""
        if ctx in self._runs:
            (self._awake.discard if waits else self._awake.add)(ctx)
            if not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._slots.wake)

    def _note_cancel(self, event: Event) -> None:
        self._cancelled = True

    # ending

    async def _release(self, runs: list[Run]) -> None:
        """Ends these runs; their jobs are pending again."""
        if not runs:
            return
        for run in runs:
            run.end(Released())
            self._clock.wake(run.ctx)  # a thread is interrupted only while it does not wait
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
