"""Events: what happens in the engine. Logs, metrics, webhooks and the live feed subscribe to them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct

from .codec import is_async
from .errors import BadInput, MainspringError
from .ids import JobId, WorkerId
from .records.job import Action, Enqueued, Job, NewJob, State
from .records.outcome import Outcome
from .records.run import Ending, RunReport
from .records.worker import WorkerCommand
from .schedule.record import Tick
from .survived_errors import SurvivedErrors, count_error, is_own_cancellation

_logger = logging.getLogger("mainspring")
# Seconds in which coroutine subscribers receive their last events when the app is closed.
FLUSH_SECONDS = 5.0
# Events that wait for one subscriber on one event loop. Further ones are dropped, logged and counted.
MAX_WAITING_EVENTS = 10_000
# Events delivered before other tasks of the event loop get their turn.
TURN_EVENTS = 100


class Event(Struct, frozen=True, kw_only=True):
    at: datetime


class JobEnqueued(Event, frozen=True, kw_only=True):
    id: JobId
    task: str
    queue: str
    status: Literal["new", "duplicate", "replaced", "debounced", "collected"]
    run_at: datetime | None = None
    """As requested. None: at once."""
    schedule: str | None = None


class JobStarted(Event, frozen=True, kw_only=True):
    job: Job


class JobEnded(Event, frozen=True, kw_only=True):
    """A run ended and its outcome was accepted. outcome.state is the job's new state."""

    job: Job
    outcome: Outcome

    @property
    def duration(self) -> timedelta | None:
        """The duration of the run. None if the job was never started."""
        began = self.job.started_at
        return None if began is None else max(self.outcome.finished_at - began, timedelta(0))


class JobPartial(JobEnded, frozen=True, kw_only=True):
    """A run completed although some of its items failed. outcome.failure has their number."""


class JobResultLost(JobEnded, frozen=True, kw_only=True):
    """A run completed, but its result could not be stored. outcome.failure has the reason."""


class JobFailed(JobEnded, frozen=True, kw_only=True):
    """A run failed. outcome.failure has the reason; outcome.state tells whether the job is retried."""


class JobRetrying(JobFailed, frozen=True, kw_only=True):
    """A run failed and will be retried at outcome.run_at. job.attempt is the number of the failed attempt."""


class JobPostponed(JobEnded, frozen=True, kw_only=True):
    """A run could not decode the payload, which another version of the task has made. outcome.failure has the details;
    a worker tries again at outcome.run_at."""


class JobDied(JobFailed, frozen=True, kw_only=True):
    """A run failed and the job is dead."""


class JobStopped(JobFailed, frozen=True, kw_only=True):
    """A run ended because its job was cancelled."""


class FlowEnded(Event, frozen=True, kw_only=True):
    """A flow ended, as a JobEnded of its job says, too. A flow that is retried ends again."""

    job: Job
    steps: Mapping[str, str]
    """How each step has ended: completed, dead, not_run, cancelled or skipped."""


class SignalReceived(Event, frozen=True, kw_only=True):
    """A signal was given to a flow, or to another job, through this app; or it was refused."""

    job: Job
    name: str
    answer: Literal["given", "twice", "late", "unknown", "full"]


class JobLost(Event, frozen=True, kw_only=True):
    """A run lost its lease: the store refused its outcome, or the worker did not send it."""

    job: Job

    @property
    def duration(self) -> timedelta | None:
        """From the start of the run until the loss was noticed. None if the job was never started."""
        began = self.job.started_at
        return None if began is None else max(self.at - began, timedelta(0))


class JobReported(Event, frozen=True, kw_only=True):
    """The store has accepted log lines or progress of a run under way."""

    job: Job
    report: RunReport


class JobsExpired(Event, frozen=True, kw_only=True):
    ids: tuple[JobId, ...]


class JobsChanged(Event, frozen=True, kw_only=True):
    """These jobs were cancelled, retried, paused, resumed, updated or deleted through this app."""

    action: Action
    ids: tuple[JobId, ...]


class JobsPruned(Event, frozen=True, kw_only=True):
    """Retention has deleted these finished jobs with their history."""

    state: State
    task: str
    ids: tuple[JobId, ...]


class Pruned(Event, frozen=True, kw_only=True):
    """Retention has deleted `count` jobs. JobsPruned has their ids; it is emitted only if it has subscribers."""

    count: int


class TickFired(Event, frozen=True, kw_only=True):
    """A schedule reached a tick, and its job was enqueued."""

    schedule: str
    tick: Tick


class TickPassed(Event, frozen=True, kw_only=True):
    """One or more ticks passed without a job. tick.what and tick.reason tell why."""

    schedule: str
    tick: Tick


class SchedulePaused(Event, frozen=True, kw_only=True):
    """A schedule was paused after the number of failures in a row that it allows."""

    schedule: str
    note: str


class SchedulesChanged(Event, frozen=True, kw_only=True):
    """These schedules were changed through this app; by "declare" if the code did, when a worker started."""

    action: Literal["declare", "create", "update", "pause", "resume", "reschedule", "rebalance", "delete"]
    names: tuple[str, ...]


class QueuePaused(Event, frozen=True, kw_only=True):
    """This queue was paused through this app."""

    queue: str


class QueueResumed(Event, frozen=True, kw_only=True):
    queue: str


class LeaderChanged(Event, frozen=True, kw_only=True):
    """A leader of this app has begun to lead, or has ceased to."""

    name: str
    holder: str
    term: int
    leading: bool


class SlotLeaked(Event, frozen=True, kw_only=True):
    """A run ignores its interruption. Its outcome is recorded, and its slot is lost until the run ends."""

    job: Job
    stack: str


class WorkerStarted(Event, frozen=True, kw_only=True):
    worker: WorkerId


class WorkerStopping(Event, frozen=True, kw_only=True):
    """The worker claims no more jobs. The `running` ones have `grace` seconds to end before they are released."""

    worker: WorkerId
    running: int
    grace: float


class WorkerStopped(Event, frozen=True, kw_only=True):
    worker: WorkerId


class WorkersOrdered(Event, frozen=True, kw_only=True):
    """These workers were given a command through this app. Each receives it with its next beat."""

    action: WorkerCommand
    workers: tuple[WorkerId, ...]


class StoreTrouble(Event, frozen=True, kw_only=True):
    """A call of the store failed and will be repeated in `again` seconds."""

    doing: str
    error: str
    again: float


# Those from which webhooks get messages; the ends of runs come to them with the outcome.
COLLECTED_EVENTS: tuple[type[Event], ...] = (
    JobsChanged, JobsExpired, SchedulePaused, TickPassed, WorkerStarted, WorkerStopped
)  # fmt: skip


def enqueued_event(at: datetime, job: NewJob, answer: Enqueued | None = None) -> JobEnqueued:
    """The event for a job that the store has accepted. `answer` is the store's, None for a new job."""
    status = "new" if answer is None or answer.status == "refused" else answer.status
    return JobEnqueued(
        at=at,
        id=answer.id if answer else job.id,
        task=job.task,
        queue=job.queue,
        status=status,
        run_at=job.run_at,
        schedule=job.schedule,
    )


def ended_event(at: datetime, job: Job, outcome: Outcome) -> JobEnded:
    """The most specific event for a run whose outcome was accepted."""
    if outcome.failure is None or outcome.step_end == "skipped":
        return JobEnded(at=at, job=job, outcome=outcome)
    if outcome.partial:
        return JobPartial(at=at, job=job, outcome=outcome)
    if outcome.state is State.COMPLETED:
        return JobResultLost(at=at, job=job, outcome=outcome)
    if outcome.ending is Ending.RELEASED and outcome.state is State.PENDING:
        return JobPostponed(at=at, job=job, outcome=outcome)
    return _KINDS.get(outcome.state, JobFailed)(at=at, job=job, outcome=outcome)


_KINDS: dict[State, type[JobFailed]] = {
    State.PENDING: JobRetrying,
    State.DEAD: JobDied,
    State.CANCELLED: JobStopped,
}

E = TypeVar("E", bound=Event)


class EventsDropped(MainspringError):
    """Events were dropped because a coroutine subscriber was too slow."""


class _LoopQueue:
    """The events that wait on one event loop, and the task that delivers them while there are any."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.task: asyncio.Task[None] | None = None


class AsyncSubscriber:
    """Calls the coroutine function `act` with each event, after emit() has returned."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopQueue] = WeakKeyDictionary()
        self._dropped = SurvivedErrors("subscriber", "events beyond the limit are dropped")

    def __call__(self, event: object) -> None:
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, _LoopQueue())
        if len(queue.waiting) >= MAX_WAITING_EVENTS:
            self._dropped(EventsDropped(f"{MAX_WAITING_EVENTS:,} events wait for subscriber {self.act!r}"))
            return
        queue.waiting.append(event)
        if queue.task is None:
            # In an empty context: what the subscriber logs must not belong to the run that emitted the event.
            queue.task = loop.create_task(self._deliver(queue), context=Context())

    async def _deliver(self, queue: _LoopQueue) -> None:
        try:
            while queue.waiting:
                for _ in range(min(TURN_EVENTS, len(queue.waiting))):
                    await self._call(queue.waiting.popleft())
                await asyncio.sleep(0)  # a subscriber that never waits would give other tasks no turn
        finally:
            queue.task = None

    async def _call(self, event: object) -> None:
        try:
            await self.act(event)
        except BaseException as error:  # even SystemExit: in a task it would end the event loop
            if is_own_cancellation(error):
                raise
            _logger.exception("subscriber %r raised on %s", self.act, type(event).__name__)
            count_error("subscriber", error)

    async def flush(self, timeout: float) -> None:
        """Waits until the events of this event loop are delivered. After `timeout` seconds the others are dropped."""
        queue = self._queues.get(asyncio.get_running_loop())
        if queue is None or queue.task is None or queue.task is asyncio.current_task():
            return
        await asyncio.wait([queue.task], timeout=timeout)
        if queue.task is not None:
            left = len(queue.waiting)
            queue.waiting.clear()
            queue.task.cancel()
            text = f"subscriber {self.act!r} was still at work after {timeout:g} s"
            self._dropped(EventsDropped(f"{text}: its call is cancelled, {left:,} more events are dropped"))


class Bus:
    """Delivers events to subscribers. An error of a subscriber does not reach the engine.

    A plain function is called by emit(), so it should be fast. A coroutine function is called later on the same event
    loop, one event at a time and in order; at most MAX_WAITING_EVENTS wait for it.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], list[Callable[[Any], object]]] = {}
        self._cached_acts: dict[type[Event], tuple[Callable[[Any], object], ...]] = {}

    def subscribe(self, kind: type[E], act: Callable[[E], object]) -> None:
        """Calls `act` with every event of this class and its subclasses. Event stands for all events."""
        if not isinstance(kind, type) or not issubclass(kind, Event):
            raise BadInput(f"subscribers name a kind of event, e.g. JobEnded; got {kind!r:.80}")
        if not callable(act):
            raise BadInput(f"a subscriber is a function of one event, async or not; got {act!r:.80}")
        self._subscribers.setdefault(kind, []).append(AsyncSubscriber(act) if is_async(act) else act)
        self._cached_acts = {}

    def unsubscribe(self, kind: type[E], act: Callable[[E], object]) -> None:
        for one in self._subscribers.get(kind, ()):
            if act in (one, getattr(one, "act", None)):
                self._subscribers[kind].remove(one)
                self._cached_acts = {}
                return

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Waits until coroutine subscribers on this event loop have received all events, at most `timeout` seconds."""
        waits = {one for acts in self._subscribers.values() for one in acts if isinstance(one, AsyncSubscriber)}
        await asyncio.gather(*(one.flush(timeout) for one in waits))

    def wants(self, kind: type[Event]) -> bool:
        """Whether an event of this class has subscribers."""
        return bool(self._acts(kind))

    def emit(self, event: Event) -> None:
        for act in self._acts(type(event)):
            try:
                act(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a CancelledError would end the loop that emitted the event
                _logger.exception("subscriber %r raised on %s", act, type(event).__name__)
                count_error("subscriber", error)

    def _acts(self, kind: type[Event]) -> tuple[Callable[[Any], object], ...]:
        # Each subscription replaces this cache: another thread may still write an outdated entry into the old one.
        cached = self._cached_acts
        acts = cached.get(kind)
        if acts is None:
            cached[kind] = acts = tuple(act for base in kind.__mro__ for act in self._subscribers.get(base, ()))
        return acts
