"""A worker under test whose process dies at a point of its runs, and its driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ..engine import Engine
from ..events import Bus
from ..executor.threads import Threads
from ..ids import JobId
from ..records.outcome import Released, RunEnd
from ..records.run import RunReport
from ..store import Store
from ..task.context import Context
from ..task.task import Task
from ..worker.run import Run
from ..worker.runner import Runner
from .clock import VirtualClock
from .crash import Crash, start_of
from .driver import DrivenWorker, Driver


class CrashThreads(Threads):
    """Threads whose functions a crash can end."""

    crash: Crash | None = None

    async def call(self, fn: Callable[[], Any], tag: Any = None) -> Any:
        return await super().call(fn if self.crash is None else partial(self.crash.call, fn), tag)


class CrashRunner(Runner):
    """A runner whose runs a crash can end."""

    _crash: Crash | None = None
    threads: CrashThreads
    _threads_type = CrashThreads

    def die_by(self, crash: Crash) -> None:
        self._crash = self.threads.crash = crash

    async def run(self, ctx: Context) -> RunEnd:
        work = super().run(ctx)
        if self._crash is None:
            return await work
        return await self._crash.run(work, ctx.job.id, start_of(self._tasks[ctx.job.task].fn), Released())


class CrashStore:
    """A store that gets no reports of a dead worker. Before and after it stores a checkpoint the worker may die."""

    def __init__(self, store: Store, crash: Crash) -> None:
        self._store = store
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def clone(self) -> Store:
        """Itself. A worker closes the clone that it gets, and this store in memory is its app's, too."""
        return cast(Store, self)

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        keeping = [report for report in reports if report.checkpoints]
        for report in keeping:
            self._crash.before_storing(report)
        if self._crash.dead:
            return set()
        stands = await self._store.report(reports)
        for report in keeping:
            self._crash.after_storing(report)
        return stands


class CrashWorker(DrivenWorker):
    """Runs the jobs of these tasks (None: all) until it crashes."""

    _runner: CrashRunner
    _runner_type = CrashRunner

    def __init__(
        self,
        engine: Engine,
        clock: VirtualClock,
        tasks: Collection[str] | None,
        crash: Crash | None,
        *,
        fires: bool = False,
    ) -> None:
        self._served = tasks
        super().__init__(engine, clock, fires=fires)
        self._crash = crash
        if crash is not None:
            crash.on_death = self._die
            self._runner.die_by(crash)

    def _task_limits(self, tasks: Mapping[str, Task[Any, Any]]) -> dict[str, int | None]:
        return {name: None for name in tasks if self._served is None or name in self._served}

    async def _open(self) -> None:
        await super()._open()
        if self._crash is not None:
            self._store = cast(Store, CrashStore(self._store, self._crash))

    def _on_end(self, run: Run, ctx: Context | None, ended: RunEnd) -> None:
        if self._crash is None or not self._crash.dead:
            super()._on_end(run, ctx, ended)

    def _die(self) -> None:
        """It starts no more runs."""
        self.halt()


class CrashDriver(Driver):
    """The driver of a worker that can die."""

    def __init__(self, worker: DrivenWorker, crash: Crash | None, bus: Bus, clock: VirtualClock) -> None:
        super().__init__(worker, bus, clock)
        self.crash = crash

    async def open(self) -> None:
        if self.crash is not None:
            self._stack.enter_context(self.crash.following(asyncio.get_running_loop()))
        await super().open()

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            if self.crash is not None and self.crash.dead:
                await self.crash.free()
