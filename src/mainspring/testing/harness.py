"""The harness of `app.testing()`: an app on a memory store and a virtual clock for the duration of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

from ..clock import StoreClock
from ..errors import BadInput, JobCancelled, JobDead, JobUnfinished, ScheduleNotFound
from ..events import Bus, JobEnded
from ..ids import JobId
from ..records.job import Job, State
from ..records.query import Filter
from ..schedule.record import Tick
from ..span import Span
from ..store import Store
from ..stores import open_store
from ..suggest import did_you_mean
from ..sync import Sync
from ..task.context import running
from ..task.handle import Handle
from ..task.task import Task
from .clock import VirtualClock, span_of
from .crash import note_insert
from .driver import Driver, earliest
from .engine import HarnessEngine
from .expectation import Expectation, describe, id_of
from .step_crash import HarnessFaults

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..insight.flow_view import StepState
    from ..records.plan import Plan
    from ..sync import SyncHandle
    from .idempotency import IdempotencyReport

Mode = Literal["manual", "inline"]
T = TypeVar("T")
P = ParamSpec("P")

# Runs of one drain() after which a task probably enqueues itself for ever.
MAX_RUNS = 1000
# Nested inline jobs after which a task probably enqueues itself for ever.
MAX_INLINE_DEPTH = 50
_ALL_ROWS = 1 << 30
_depth: ContextVar[int] = ContextVar("mainspring_inline_depth", default=0)
_ENDS: dict[State, type[JobUnfinished]] = {State.DEAD: JobDead, State.CANCELLED: JobCancelled}


class Harness:
    """Puts an app on a memory store and a virtual clock inside a `with` or `async with` block, and restores it after.

    Jobs go through the real engine: arguments are encoded and decoded, middleware, timeouts and retries
    apply, outcomes are stored. Time stands still until the test moves `clock`.
    """

    clock: VirtualClock

    def __init__(self, app: Mainspring, mode: Mode = "manual", *, raises: bool = True) -> None:
        if mode not in get_args(Mode):
            raise BadInput(f"app.testing() is 'manual' (the test runs jobs) or 'inline' (enqueue does), not {mode!r}")
        self._app = app
        self._mode = mode
        self._raises = raises
        self._delays: dict[JobId, timedelta] = {}
        self._kept: Driver | None = None
        self.faults = HarnessFaults(self)
        self._stack = ExitStack()

    # entering and leaving

    def __enter__(self) -> Harness:
        if isinstance(self._app._engine, HarnessEngine):
            raise BadInput("this app is under test already: use what the outer app.testing() gave, or leave it first")
        self._begin(self._app.events)
        return self

    def _begin(self, bus: Bus) -> None:
        self._delays.clear()
        self.clock = VirtualClock()
        clock, app = StoreClock(self.clock), self._app
        self._store: Store = open_store("memory://", clock=clock)
        before = app._engine
        self._engine = HarnessEngine(self._store, clock, before.registry, before.settings, bus, self._around)
        self._stack.enter_context(app._using(self._engine))
        # Schedules are declared here, so that their first ticks count from now even if the test moves the clock first.
        try:
            _at_once(self._store.open())
            _at_once(self._engine.scheduler().declare(self._store))
        except BaseException:
            self._stack.close()
            raise

    @contextmanager
    def _afresh(self) -> Iterator[None]:
        """Inside the block it has an empty store and a clock of their own, and its events are told to no subscriber."""
        outer = dict(vars(self))
        vars(self).update(vars(Harness(self._app)))
        self._begin(Bus())
        try:
            yield
        finally:
            self._stack.close()
            vars(self).update(outer)

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.abandon()
            self._kept = None
        self._stack.close()

    async def __aenter__(self) -> Harness:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        kept = self._kept
        if kept is not None and kept.loop is asyncio.get_running_loop():
            self._kept = None
            await kept.close()
        self.__exit__()

    @property
    def sync(self) -> Any:
        """The same methods for a test that does not await: jobs.sync.drain()."""
        return Sync(self)

    # what was enqueued

    @property
    def enqueued(self) -> list[Job]:
        """Every job enqueued in this block, in order, in its present state."""
        return self._records(Filter())

    def of(self, task: Task[Any, Any] | str) -> list[Job]:
        """The jobs of one task."""
        return self._records(Filter(tasks=(task if isinstance(task, str) else task.name,)))

    def assert_enqueued(
        self,
        task: Task[Any, Any] | str,
        /,
        *args: Any,
        queue: str | None = None,
        delay: Span | None = None,
        **kwargs: Any,
    ) -> Job:
        """Returns the first job of the task with these arguments; arguments not given may have any value.

        Raises AssertionError if there is none. A task parameter named queue or delay is given by position.
        """
        wanted = Expectation(self._app, task, args, kwargs, queue, delay)
        if not (found := self._matching(wanted)):
            raise AssertionError(f"no job {wanted} was enqueued; {self._listing(self.enqueued)}")
        return found[0]

    def assert_not_enqueued(
        self,
        task: Task[Any, Any] | str | None = None,
        /,
        *args: Any,
        queue: str | None = None,
        delay: Span | None = None,
        **kwargs: Any,
    ) -> None:
        """Raises AssertionError if there is such a job; without a task, if there is any job."""
        wanted = Expectation(self._app, task, args, kwargs, queue, delay)
        if found := self._matching(wanted):
            raise AssertionError(f"a job {wanted} was enqueued; {self._listing(found)}")

    def _matching(self, wanted: Expectation) -> list[Job]:
        return [job for job in self.enqueued if wanted.matches(job, self._delay(job))]

    def _listing(self, jobs: Sequence[Job]) -> str:
        lines = [f"\n  {describe(job, self._delay(job))}" for job in jobs]
        return f"there {'is' if len(jobs) == 1 else 'are'}:{''.join(lines)}" if lines else "nothing was"

    def _delay(self, job: Job) -> timedelta:
        return self._delays.get(job.id, job.run_at - job.created_at)

    def _records(self, which: Filter) -> list[Job]:
        _at_once(self._store.open())  # the code under test may have closed the app
        return _at_once(self._store.jobs(which, now=self.clock.now(), limit=_ALL_ROWS))

    # flows

    def plan(self, flow: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """The plan of the flow for these arguments. Nothing is stored."""
        from ..flow.function import plan_of

        payload = flow.arguments.encode(args, kwargs, self._engine.settings.payload_limit)
        return plan_of(flow, *flow.arguments.decode(payload))

    async def steps(self, run: Handle[Any] | SyncHandle[Any] | JobId) -> dict[str, StepState]:
        """The state of each step of a flow: {"charge": "completed", "ship": "waiting"}."""
        return {step.name: step.state for step in await self._engine.flows.steps(id_of(run))}

    def assert_step(self, run: Handle[Any] | SyncHandle[Any] | JobId, step: str, /, *args: Any, **kwargs: Any) -> Job:
        """Returns the job of this step of a flow. Raises AssertionError if it has none with these arguments."""
        found = self._matching_step(id_of(run), step, args, kwargs)
        if isinstance(found, str):
            raise AssertionError(found)
        return found

    def _matching_step(self, id: JobId, step: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job | str:
        steps = _at_once(self._engine.flows.steps(id))
        view = next((one for one in steps if one.name == step), None)
        if view is None:
            return f"the flow has no step {step!r} (it has {', '.join(repr(one.name) for one in steps[:20])})"
        if view.items is not None:
            return f"step {step!r} is a map: its items are jobs, see app.flows.items(id, {step!r})"
        if view.job_id is None:
            return f"step {step!r} has no job: it is {view.state}"
        (job,) = self._these([view.job_id])
        wanted = Expectation(self._app, self._app.tasks.get(job.task, job.task), args, kwargs, None, None)
        if wanted.matches(job, timedelta(0)):
            return job
        return f"step {step!r} is no job {wanted}; it is {describe(job, timedelta(0))}"

    async def signal(self, run: Handle[Any] | SyncHandle[Any] | JobId, name: str, value: Any = None) -> None:
        """Gives a signal of a flow, or of a job that waits for one, its value."""
        await self._engine.flows.signal(id_of(run), name, value)

    # schedules

    def ticks(self, schedule: str) -> list[Tick]:
        """The recorded ticks of a schedule, oldest first: fired, skipped or missed, and why.

        Raises ScheduleNotFound if there is no such schedule.
        """
        known = {row.name for row in _at_once(self._store.schedules(limit=_ALL_ROWS))} | set(
            self._engine.registry.schedules
        )
        if schedule not in known:
            raise ScheduleNotFound(f"there is no schedule {schedule!r}; {did_you_mean(schedule, known)}")
        return _at_once(self._store.ticks(schedule, limit=_ALL_ROWS))[::-1]

    def fired(self, schedule: str) -> list[datetime]:
        """The ticks of a schedule that were fired, in order."""
        return [tick.at for tick in self.ticks(schedule) if tick.what == "fired"]

    async def advance(self, span: Span | None = None, /, *, limit: int = MAX_RUNS, **parts: float) -> list[Job]:
        """Lets time pass with a worker running: `await jobs.advance(hours=3)`. Returns the job's record after each run.

        Each tick, delayed job and retry on the way is handled at its own instant. Runs that sleep on the app's clock
        wake at theirs, if necessary in a later advance(). `clock.advance()` simulates an outage instead: no worker
        runs, and what came due is late. Raises AssertionError after `limit` runs.
        """
        end = self.clock.now() + span_of(span, parts)
        async with self._driving() as (driver, ran):
            started = await driver.work(limit, passing=True)
            while started < limit or not self._due_by(end):
                at = earliest(driver.worker.next_at, self.clock.next_timer)
                if at is None or at > end:
                    await self._pass(end)
                    return ran
                await self._pass(at)
                started += await driver.work(limit - started, passing=True)
        raise AssertionError(
            f"after {started} runs it is {self.clock.now()}, not yet {end}: "
            "advance in smaller steps, or give advance() a higher limit="
        )

    async def _pass(self, until: datetime) -> None:
        """Moves the clock to `until`; if a timer is on the way, its tasks run."""
        timer = self.clock.next_timer
        if timer is not None and timer <= until:
            await self.clock.elapse(until - self.clock.now())
        else:
            self.clock.set(until)

    # running

    async def process_one(self) -> Job | None:
        """Runs the next due job and returns its record after the run; None if no job was due."""
        return next(iter(await self._work(1)), None)

    async def drain(self, *, with_scheduled: bool = False, limit: int = MAX_RUNS) -> list[Job]:
        """Runs jobs one after the other until none is due; returns the record after each run. Time stands still.

        `with_scheduled` also moves the clock on to delayed jobs and retries. Raises AssertionError after `limit` runs.
        """
        async with self._driving() as (driver, ran):
            await driver.work(limit, passing=False)
            while with_scheduled and len(ran) < limit and (due := self._next_due()) is not None:
                self.clock.set(due)
                await driver.work(limit - len(ran), passing=False)
        left = [job for job in self._runnable() if with_scheduled or job.run_at <= self.clock.now()]
        if left:
            raise AssertionError(
                f"after {len(ran)} runs a job of {left[0].task!r} is still due: does a task enqueue itself? "
                "Run jobs with process_one(), or give drain() a higher limit="
            )
        return ran

    async def _work(self, limit: int, *, fires: bool = True) -> list[Job]:
        async with self._driving(fires=fires) as (driver, ran):
            await driver.work(limit, passing=False)
        return ran

    @asynccontextmanager
    async def _driving(self, *, fires: bool = True) -> AsyncIterator[tuple[Driver, list[Job]]]:
        """A driver, and a list that gets the record of each job after its run.

        A driver with suspended runs is kept for the next call.
        """
        # Waits in here belong to the driver, not to the run that enqueued an inline job.
        token = running.set(None)
        driver, ran = await self._driver(fires), list[Job]()

        def on_end(event: JobEnded) -> None:
            if event.job.worker == driver.worker.id:
                ran.extend(self._records(Filter(ids=(event.job.id,))))

        try:
            with self._subscribed(on_end):
                yield driver, ran
        finally:
            if driver.suspended:
                self._kept = driver
            else:
                await driver.close()
            running.reset(token)

    async def _driver(self, fires: bool) -> Driver:
        kept = self._kept
        # A nested inline job needs a driver of its own: the driver of the outer job waits for it.
        if fires and kept is not None and kept.loop is asyncio.get_running_loop():
            self._kept = None
            return kept
        driver = self.faults.new_driver(fires=fires)
        await driver.open()
        return driver

    @contextmanager
    def _subscribed(self, act: Callable[[JobEnded], object]) -> Iterator[None]:
        self._engine.events.subscribe(JobEnded, act)
        try:
            yield
        finally:
            self._engine.events.unsubscribe(JobEnded, act)

    def _runnable(self) -> list[Job]:
        now = self.clock.now()
        paused = {queue.name for queue in _at_once(self._store.overview(now=now)).queues if queue.paused}
        real = self._engine.registry.runnable
        waiting = self._records(Filter(states=("pending", "scheduled", "retrying")))
        return [job for job in waiting if job.task in real and job.queue not in paused]

    def _due_by(self, end: datetime) -> bool:
        """Whether a job or a schedule is due at or before `end`."""
        rows = _at_once(self._store.schedules(limit=_ALL_ROWS))
        due = [row.due_at for row in rows if row.due_at is not None] + [job.run_at for job in self._runnable()]
        return any(at <= end for at in due)

    def _next_due(self) -> datetime | None:
        now = self.clock.now()
        return min((job.run_at for job in self._runnable() if job.run_at > now), default=None)

    # crashes

    async def check_idempotent(
        self,
        task: Task[Any, Any],
        /,
        *args: Any,
        state: Callable[[], object],
        reset: Callable[[], object] | None = None,
        restart: Callable[[], object] | None = None,
        also: Sequence[object] = (),
        limit: int = 1000,
        raises: bool = True,
        **kwargs: Any,
    ) -> IdempotencyReport:
        """Runs the task once for each point at which its worker can die, and again, as after a crash; what it leaves
        has to equal what one run leaves. Raises AssertionError at the first point after which it does not.

        `state` returns what is compared, `reset` puts it back, and `restart` does what a new process begins with. Each
        may be a coroutine function. `also`: functions, classes and modules whose lines are points, as the task's are.
        """
        from .idempotency import check

        call = partial(task.enqueue, *args, **kwargs)
        report = await check(self, task, call, state=state, reset=reset, restart=restart, also=also, limit=limit)
        if raises and not report.idempotent:
            raise AssertionError(str(report))
        return report

    # inline

    async def _around(self, insert: Callable[[], Awaitable[list[Handle[Any]]]]) -> list[Handle[Any]]:
        """Inserts jobs, and runs those that are due inline."""
        if _depth.get() >= MAX_INLINE_DEPTH:
            raise AssertionError(f"inline jobs are nested {MAX_INLINE_DEPTH} deep: does a task enqueue itself?")
        handles = await insert()
        note_insert()
        now = self.clock.now()
        moved = {handle.id for handle in handles if handle.status in ("new", "debounced", "collected")}
        for job in self._records(Filter(ids=tuple(moved))):
            self._delays[job.id] = job.run_at - now
        if self._mode == "inline":
            await self._run(moved | {handle.id for handle in handles if handle.status == "replaced"})
        return handles

    async def _run(self, ids: Collection[JobId]) -> None:
        """Waits until each of these jobs that is due has had its run, here or in a concurrent call."""
        loop, changed, ended = asyncio.get_running_loop(), asyncio.Event(), set[JobId]()

        def on_end(event: JobEnded) -> None:
            ended.add(event.job.id)
            loop.call_soon_threadsafe(changed.set)

        token = _depth.set(_depth.get() + 1)
        try:
            with self._subscribed(on_end):
                await self._work(MAX_RUNS, fires=False)
                while any(job.state is State.RUNNING and job.id not in ended for job in self._these(ids)):
                    await changed.wait()
                    changed.clear()
        finally:
            _depth.reset(token)
        if self._raises:
            self._raise(self._these(ids))

    def _these(self, ids: Collection[JobId]) -> list[Job]:
        return self._records(Filter(ids=tuple(ids)))

    def _raise(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.failure is not None and job.state is not State.COMPLETED:
                why = f"job {job.id} ({job.task}) is {job.shown(self.clock.now())}"
                text = f"{why}: {job.failure.type}: {job.failure.message}\n\n{job.failure.stack}".rstrip()
                raise _ENDS.get(job.state, JobUnfinished)(text)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits, such as a verb of the memory store, without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise BadInput("this store waits for I/O; the harness needs one that answers at once")
