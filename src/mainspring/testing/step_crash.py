"""`jobs.faults`: the worker of a test dies at a durable step, and another one rescues its jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import BadInput
from ..records.run import RunReport
from .crash import Crash, CrashPoint, DoomedRun, own_code, own_garbage, start_of
from .crash_worker import CrashDriver, CrashWorker
from .driver import DrivenWorker, Driver

if TYPE_CHECKING:
    from .harness import Harness


class PlannedCrash(Struct, eq=False):
    """A call of crash_at()."""

    step: str
    stored: bool
    has_happened: bool = False


class HarnessFaults:
    """Faults of the worker under test: `with jobs.faults.crash_at("charge"):`."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.planned: list[PlannedCrash] = []

    @contextmanager
    def crash_at(self, step: str, *, stored: bool = True) -> Iterator[None]:
        """Inside the block the worker dies once, as a process that is killed: when the durable step of this name is
        stored; with `stored=False` when its function has returned, and before that is stored.

        From then on no line of its tasks runs, no `finally` either. Another worker rescues its jobs when its lease is
        over. Raises AssertionError at the end of the block if no worker has died.
        """
        if self._harness._mode == "inline":
            raise BadInput(
                "crash_at() needs time to pass before the job is rescued: use app.testing() without 'inline'"
            )
        if self._harness._kept is not None:
            raise BadInput(
                "a run under way waits for time, in a worker that cannot die: call crash_at() before it begins"
            )
        planned = PlannedCrash(step, stored)
        self.planned.append(planned)
        try:
            with own_garbage():
                yield
        finally:
            self.planned.remove(planned)
        if not planned.has_happened:
            raise AssertionError(
                f"no worker has died at step {step!r}: in the block no job has run a step of that name"
            )

    def new_driver(self, *, fires: bool) -> Driver:
        """The driver of a worker that dies as planned."""
        if self.planned:
            return StepCrashDriver(self._harness, fires=fires)
        engine, clock = self._harness._engine, self._harness.clock
        return Driver(DrivenWorker(engine, clock, fires=fires), engine.events, clock)


class StepCrash(Crash):
    """Dies at the first step for which a crash is planned."""

    def __init__(self, planned: Iterable[PlannedCrash], files: Collection[str]) -> None:
        """`files` are those of the tasks."""
        tests = [own_code(file) for file in files]
        super().__init__((), lambda name: any(is_own(name) for is_own in tests))
        self._planned = planned

    def note(self, run: DoomedRun, wait: CrashPoint | None = None) -> bool:
        return self.dead

    def before_storing(self, report: RunReport) -> None:
        self._look_at(report, stored=False)

    def after_storing(self, report: RunReport) -> None:
        self._look_at(report, stored=True)

    def _look_at(self, report: RunReport, stored: bool) -> None:
        names = {one.name for one in report.checkpoints}
        for planned in self._planned:
            if not self.dead and not planned.has_happened and planned.stored is stored and planned.step in names:
                planned.has_happened = True
                self._die()


class StepCrashDriver(CrashDriver):
    """Goes on with another worker when one has died."""

    def __init__(self, harness: Harness, *, fires: bool) -> None:
        self._harness = harness
        self._fires = fires
        super().__init__(*self._new_worker(), harness._engine.events, harness.clock)

    def _new_worker(self) -> tuple[DrivenWorker, Crash | None]:
        engine, clock = self._harness._engine, self._harness.clock
        planned = self._harness.faults.planned
        if all(one.has_happened for one in planned):
            return DrivenWorker(engine, clock, fires=self._fires), None
        tasks = engine.registry.runnable.values()
        crash = StepCrash(planned, {start_of(task.fn).file for task in tasks})
        return CrashWorker(engine, clock, None, crash, fires=self._fires), crash

    async def work(self, limit: float, *, passing: bool) -> int:
        started = await super().work(limit, passing=passing)
        while self.crash is not None and self.crash.dead:
            await self._replace_worker()
            started += await super().work(limit - started, passing=passing)
        return started

    async def _replace_worker(self) -> None:
        lease = self._harness._engine.settings.lease
        await self.close()
        await self.worker.leave_row(lease)
        self._clock.call_later(lease, lambda: None)  # advance() stops there, and lets the other worker look
        worker, self.crash = self._new_worker()
        self._drive(worker)
        await self.open()
