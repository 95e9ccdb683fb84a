"""What happened, as values; logs, metrics, webhooks and the live stream subscribe here."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
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
# Seconds that coroutine subscribers have for their last events when the app is closed.
FLUSH_SECONDS = 5.0
# Events that wait for one subscriber on one loop; what comes beyond is dropped, logged and counted.
MAX_WAITING_EVENTS = 10_000
# Events after which other tasks of the loop have their turn.
TURN_EVENTS = 100


class Event(Struct, frozen=True, kw_only=True):
    at: datetime


class JobEnqueued(Event, frozen=True, kw_only=True):
    id: JobId
    task: str
    queue: str
    status: Literal["new", "duplicate", "replaced", "debounced"]
    run_at: datetime | None = None
    """As it was asked for; None: at once."""
    schedule: str | None = None


class JobStarted(Event, frozen=True, kw_only=True):
    job: Job


class JobEnded(Event, frozen=True, kw_only=True):
    """A run ended and its outcome stands: outcome.state says what became of the job."""

    job: Job
    outcome: Outcome

    @property
    def duration(self) -> timedelta | None:
        """From the start of the run to its end, as its execution has it; None: the job never started."""
        began = self.job.started_at
        return None if began is None else max(self.outcome.finished_at - began, timedelta(0))


class JobPartial(JobEnded, frozen=True, kw_only=True):
    """A run completed although some of its items failed; outcome.failure says how many."""


class JobResultLost(JobEnded, frozen=True, kw_only=True):
    """A run completed and its result could not be kept; outcome.failure says why."""


class JobFailed(JobEnded, frozen=True, kw_only=True):
    """A run that did not do its work; outcome.failure says why, outcome.state whether it is tried again."""


class JobRetrying(JobFailed, frozen=True, kw_only=True):
    """A run that failed and is followed by another: job.attempt says which it was, outcome.run_at when."""


class JobPostponed(JobEnded, frozen=True, kw_only=True):
    """A run could not read the payload, which another version of the task has made: outcome.failure says more, and
    outcome.run_at when a worker tries again."""


class JobDied(JobFailed, frozen=True, kw_only=True):
    """A run that was the job's last: the job is dead."""


class JobStopped(JobFailed, frozen=True, kw_only=True):
    """A run that ended because the job was cancelled."""


class JobLost(Event, frozen=True, kw_only=True):
    """A run's lease was lost: its outcome was refused, or not even offered."""

    job: Job

    @property
    def duration(self) -> timedelta | None:
        """From the start of the run until its loss was noticed; None: the job never started."""
        began = self.job.started_at
        return None if began is None else max(self.at - began, timedelta(0))


class JobReported(Event, frozen=True, kw_only=True):
    """A run under way has logged lines or told its progress, and the store has it."""

    job: Job
    report: RunReport


class JobsExpired(Event, frozen=True, kw_only=True):
    ids: tuple[JobId, ...]


class JobsChanged(Event, frozen=True, kw_only=True):
    """Somebody has cancelled, retried, paused, resumed, updated or deleted these jobs through this app."""

    action: Action
    ids: tuple[JobId, ...]


class JobsPruned(Event, frozen=True, kw_only=True):
    """Finished jobs that retention has removed, with their history."""

    state: State
    task: str
    ids: tuple[JobId, ...]


class Pruned(Event, frozen=True, kw_only=True):
    """Retention has removed so many jobs; JobsPruned says which, where somebody wants to know."""

    count: int


class TickFired(Event, frozen=True, kw_only=True):
    """A schedule came to a tick, and its job was made."""

    schedule: str
    tick: Tick


class TickPassed(Event, frozen=True, kw_only=True):
    """A tick, or several, for which no job was made: tick.what and tick.reason say why."""

    schedule: str
    tick: Tick


class SchedulePaused(Event, frozen=True, kw_only=True):
    """A schedule has paused itself after as many failures in a row as it allows."""

    schedule: str
    note: str


class SchedulesChanged(Event, frozen=True, kw_only=True):
    """Somebody has changed these schedules through this app; "declare": the code did, when a worker started."""

    action: Literal["declare", "create", "update", "pause", "resume", "reschedule", "rebalance", "delete"]
    names: tuple[str, ...]


class QueuePaused(Event, frozen=True, kw_only=True):
    """Somebody has paused this queue through this app."""

    queue: str


class QueueResumed(Event, frozen=True, kw_only=True):
    queue: str


class LeaderChanged(Event, frozen=True, kw_only=True):
    """A leader of this app has begun to lead, or does so no longer."""

    name: str
    holder: str
    term: int
    leading: bool


class SlotLeaked(Event, frozen=True, kw_only=True):
    """A run ignores its interruption: its job has been settled, and its slot is lost until it ends."""

    job: Job
    stack: str


class WorkerStarted(Event, frozen=True, kw_only=True):
    worker: WorkerId


class WorkerStopping(Event, frozen=True, kw_only=True):
    """No more claims; `running` jobs have `grace` seconds to end before they are released."""

    worker: WorkerId
    running: int
    grace: float


class WorkerStopped(Event, frozen=True, kw_only=True):
    worker: WorkerId


class WorkersOrdered(Event, frozen=True, kw_only=True):
    """Somebody has given these workers orders through this app; each hears them at its next beat."""

    action: WorkerCommand
    workers: tuple[WorkerId, ...]


class StoreTrouble(Event, frozen=True, kw_only=True):
    """A store call failed and will be repeated in `again` seconds."""

    doing: str
    error: str
    again: float


def enqueued_event(at: datetime, job: NewJob, answer: Enqueued | None = None) -> JobEnqueued:
    """The store has taken the job, or has said what it did instead."""
    status = "new" if answer is None or answer.status == "refused" else answer.status
    return JobEnqueued(
        at=at, id=answer.id if answer else job.id, task=job.task, queue=job.queue, status=status, run_at=job.run_at,
        schedule=job.schedule,
    )  # fmt: skip


def ended_event(at: datetime, job: Job, outcome: Outcome) -> JobEnded:
    """The most telling event for a run whose outcome stands."""
    if outcome.failure is None:
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
    """A coroutine subscriber got more events than it could take."""


class _LoopQueue:
    """The events that wait on one loop, and the task that delivers them while there are any."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.task: asyncio.Task[None] | None = None


class AsyncSubscriber:
    """Calls `act` with each event, after the code that emitted it has gone on."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.act = act
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopQueue] = WeakKeyDictionary()
        self._dropped = SurvivedErrors("subscriber", "events beyond the limit are dropped")

    def __call__(self, event: object) -> None:
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(loop, _LoopQueue())
        if len(line.waiting) >= MAX_WAITING_EVENTS:
            self._dropped(EventsDropped(f"{MAX_WAITING_EVENTS:,} events wait for subscriber {self.act!r}"))
            return
        line.waiting.append(event)
        if line.task is None:
            # Without the context of the run that emitted it: what the subscriber logs is not the run's.
            line.task = loop.create_task(self._deliver(line), context=Context())

    async def _deliver(self, line: _LoopQueue) -> None:
        try:
            while line.waiting:
                for _ in range(min(TURN_EVENTS, len(line.waiting))):
                    await self._call(line.waiting.popleft())
                await asyncio.sleep(0)  # a subscriber that never waits gives other tasks no turn
        finally:
            line.task = None

    async def _call(self, event: object) -> None:
        try:
            await self.act(event)
        except BaseException as error:  # of any kind: a task that ends by SystemExit ends the event loop
            if is_own_cancellation(error):
                raise
            _logger.exception("subscriber %r raised on %s", self.act, type(event).__name__)
            count_error("subscriber", error)

    async def flush(self, timeout: float) -> None:
        """Waits until the events of this loop are delivered; after `timeout` seconds those left are dropped."""
        line = self._lines.get(asyncio.get_running_loop())
        if line is None or line.task is None or line.task is asyncio.current_task():
            return
        await asyncio.wait([line.task], timeout=timeout)
        if line.task is not None:
            left = len(line.waiting)
            line.waiting.clear()
            line.task.cancel()
            text = f"subscriber {self.act!r} was still at work after {timeout:g} s"
            self._dropped(EventsDropped(f"{text}: its call is cancelled, {left:,} more events are dropped"))


class Bus:
    """Hands events to subscribers after the fact; nothing they do reaches the engine.

    A plain function is called where the event happens, so it should be quick. A coroutine function is called on the
    same event loop a little later, one event at a time and in their order; up to MAX_WAITING of them wait.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], list[Callable[[Any], object]]] = {}
        self._heard_by: dict[type[Event], tuple[Callable[[Any], object], ...]] = {}

    def subscribe(self, kind: type[E], act: Callable[[E], object]) -> None:
        """`act` gets every event of this kind and of those derived from it; Event is all of them."""
        if not isinstance(kind, type) or not issubclass(kind, Event):
            raise BadInput(f"subscribers name a kind of event, e.g. JobEnded; got {kind!r:.80}")
        if not callable(act):
            raise BadInput(f"a subscriber is a function of one event, async or not; got {act!r:.80}")
        self._subscribers.setdefault(kind, []).append(AsyncSubscriber(act) if is_async(act) else act)
        self._heard_by = {}

    def unsubscribe(self, kind: type[E], act: Callable[[E], object]) -> None:
        for one in self._subscribers.get(kind, ()):
            if act in (one, getattr(one, "act", None)):
                self._subscribers[kind].remove(one)
                self._heard_by = {}
                return

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Waits until coroutine subscribers on this loop have had every event so far, or `timeout` seconds are over."""
        waits = {one for acts in self._subscribers.values() for one in acts if isinstance(one, AsyncSubscriber)}
        await asyncio.gather(*(one.flush(timeout) for one in waits))

    def wants(self, kind: type[Event]) -> bool:
        """Whether it is worth making such an event at all."""
        return bool(self._acts(kind))

    def emit(self, event: Event) -> None:
        for act in self._acts(type(event)):
            try:
                act(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # one that says CancelledError would end the loop it is called from
                _logger.exception("subscriber %r raised on %s", act, type(event).__name__)
                count_error("subscriber", error)

    def _acts(self, kind: type[Event]) -> tuple[Callable[[Any], object], ...]:
        # A new one with each subscription: another thread may be about to write what it found before.
        heard_by = self._heard_by
        acts = heard_by.get(kind)
        if acts is None:
            heard_by[kind] = acts = tuple(act for base in kind.__mro__ for act in self._subscribers.get(base, ()))
        return acts
