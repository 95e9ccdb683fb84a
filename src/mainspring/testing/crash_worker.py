"""The worker of an idempotency check: its process dies at a point of its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ..clock import Clock
from ..engine import Engine
from ..executor.threads import Threads
from ..ids import JobId
from ..records.outcome import Released, RunEnd
from ..records.run import RunReport
from ..store import Store
from ..task.context import Context
from ..task.task import Task
from ..worker.runner import Runner
from .clock import VirtualClock
from .crash import Crash, start_of
from .driver import DrivenWorker


class CrashThreads(Threads):
    """Threads whose functions a crash can end."""

    def __init__(self, clock: Clock, crash: Crash) -> None:
        super().__init__(clock)
        self._crash = crash

    async def call(self, fn: Callable[[], Any], tag: Any = None) -> Any:
        return await super().call(partial(self._crash.call, fn), tag)


class CrashRunner(Runner):
    """A runner whose runs a crash can end."""

    _crash: Crash | None = None

    def die_by(self, crash: Crash) -> None:
        self._crash = crash
        self.threads = CrashThreads(self._clock, crash)

    async def run(self, ctx: Context) -> RunEnd:
        work = super().run(ctx)
        if self._crash is None:
            return await work
        return await self._crash.run(work, ctx.job.id, start_of(self._tasks[ctx.job.task].fn), Released())


class CrashStore:
    """A store that gets no reports of a dead worker. Before it stores a checkpoint there is a point."""

    def __init__(self, store: Store, crash: Crash) -> None:
        self._store = store
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        for report in reports:
            if report.checkpoints:
                self._crash.note_job(report.id)
        return set() if self._crash.dead else await self._store.report(reports)


class CrashWorker(DrivenWorker):
    """Runs the jobs of these tasks (None: all) until it crashes, and fires no schedules."""

    _runner: CrashRunner
    _runner_type = CrashRunner

    def __init__(self, engine: Engine, clock: VirtualClock, tasks: Collection[str] | None, crash: Crash | None) -> None:
        self._served = tasks
        super().__init__(engine, clock, fires=False)
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

    def _die(self) -> None:
        """Its runs end without an outcome, and it starts no more."""
        self.halt()
        for run in self._slots:
            run.lost = True
