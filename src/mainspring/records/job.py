"""Records: what a job is, before, during and after its runs. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr, replace

from ..retry import Backoff
from ..span import Span, seconds
from ..suggest import HelpfulStruct

JobId = str
WorkerId = str
Lease = str
OnConflict = Literal["return", "raise", "replace", "debounce"]

MIN_PRIORITY, MAX_PRIORITY = -32768, 32767
# How the names of internal tasks begin.
INTERNAL = "mainspring."
# A job whose worker died under it this often is a suspect: a worker runs one of them at a time, so that a
# poison pill, at its last crash, takes no innocent neighbour along.
SUSPECT = 2


def is_internal(task: str) -> bool:
    """Whether it is a task of Mainspring's own, such as the deliveries of webhooks, which are signed."""
    return task.startswith(INTERNAL)


class State(StrEnum):
    """What the store keeps. The last four are final. ShownState has what people see."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        return self in FINAL

    @classmethod
    def _missing_(cls, value: object) -> None:
        if value in SHOWN:
            raise ValueError(
                f"{value!r} is shown, not stored: the job's state is 'pending'. "
                f"ShownState.{str(value).upper()} is for job.shown(now) and Filter(states=…)"
            )


FINAL = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED})
UNFINISHED = frozenset(State) - FINAL
# An idempotency key is free again after a run that did not do the work.
IDEMPOTENT = UNFINISHED | {State.COMPLETED}

Shown = Literal[
    "pending", "scheduled", "retrying", "running", "waiting", "paused",
    "completed", "dead", "cancelled", "expired",
]  # fmt: skip
SHOWN: tuple[Shown, ...] = (
    "pending", "scheduled", "retrying", "running", "waiting", "paused",
    "completed", "dead", "cancelled", "expired",
)  # fmt: skip


class ShownState:
    """What people see of a job in the CLI, the API, the pages, job.shown(now) and Filter(states=…), as plain texts.

    `SCHEDULED` and `RETRYING` are stored as State.PENDING.
    """

    PENDING: Final = "pending"
    SCHEDULED: Final = "scheduled"
    RETRYING: Final = "retrying"
    RUNNING: Final = "running"
    WAITING: Final = "waiting"
    PAUSED: Final = "paused"
    COMPLETED: Final = "completed"
    DEAD: Final = "dead"
    CANCELLED: Final = "cancelled"
    EXPIRED: Final = "expired"


class Action(StrEnum):
    """What an operator may do to a job."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    UPDATE = "update"
    DELETE = "delete"


# The whole state machine. A row reads: from this state, to those.
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.PAUSED, State.CANCELLED, State.EXPIRED}),
    State.RUNNING: frozenset({State.PENDING, State.COMPLETED, State.DEAD, State.CANCELLED}),
    State.WAITING: frozenset({State.PENDING, State.PAUSED, State.CANCELLED}),
    State.PAUSED: frozenset({State.PENDING, State.CANCELLED}),
    State.COMPLETED: frozenset(),
    State.DEAD: frozenset({State.PENDING}),
    State.CANCELLED: frozenset({State.PENDING}),
    State.EXPIRED: frozenset({State.PENDING}),
}
# Cancelling a running job asks its worker to stop it; cancelling twice is no error.
ALLOWED: Mapping[Action, frozenset[State]] = {
    Action.CANCEL: UNFINISHED | {State.CANCELLED},
    Action.RETRY: frozenset({State.DEAD, State.CANCELLED, State.EXPIRED}),
    Action.PAUSE: frozenset({State.PENDING, State.PAUSED}),
    Action.RESUME: frozenset({State.PAUSED, State.PENDING}),
    Action.UPDATE: frozenset({State.PENDING, State.PAUSED, State.WAITING}),
    Action.DELETE: frozenset(State) - {State.RUNNING},
}
# Which jobs an action by filter means where no state is said.
_WAITING: tuple[Shown, ...] = ("pending", "scheduled", "retrying")
MEANT: Mapping[Action, tuple[Shown, ...]] = {
    Action.CANCEL: (*_WAITING, "running", "waiting", "paused"),
    Action.RETRY: ("dead",),
    Action.PAUSE: _WAITING,
    Action.RESUME: ("paused",),
    Action.UPDATE: (*_WAITING, "waiting", "paused"),
    Action.DELETE: ("completed", "dead", "cancelled", "expired"),
}
# Where an action is allowed and changes nothing.
_DONE_ALREADY = {Action.CANCEL: State.CANCELLED, Action.PAUSE: State.PAUSED, Action.RESUME: State.PENDING}


class Ending(StrEnum):
    """How one run ended, as its execution row tells."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SNOOZED = "snoozed"
    RELEASED = "released"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    CRASHED = "crashed"


# Runs that did their work, and runs that should have. The other endings say nothing about the task.
WENT_WELL = frozenset({Ending.COMPLETED})
WENT_WRONG = frozenset({Ending.FAILED, Ending.TIMEOUT, Ending.DISCARDED, Ending.CRASHED})

# A completed run some of whose items failed, no more than its task's failed_ratio allows. It has a failure of the type
# PARTIAL_TYPE, so that a filter by the error PARTIAL_KIND finds its job; an earlier release shows that as a note.
PARTIAL, PARTIAL_TYPE, PARTIAL_KIND = "partial", "Partial", "Partial: … of … items failed"

# What differs between two messages of the same error: numbers, ids, addresses, quoted values.
# A quote after a letter is an apostrophe: "can't", but not b'…'.
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|(?<!\w)b?'[^']*'|(?<!\w)b?\"[^\"]*\"|\d+", re.IGNORECASE)
KIND_LIMIT = 120
LINE_LIMIT = 240


class Failure(Struct, frozen=True, omit_defaults=True):
    """An exception as text: nothing is ever rebuilt from it."""

    type: str
    message: str
    stack: str = ""
    since: datetime | None = None
    """When the first of several runs in a row failed in this way; only version skew keeps it."""

    @property
    def kind(self) -> str:
        """Type and first line without what varies from one time to the next: equal for the same trouble."""
        first = self.message.partition("\n")[0][: 4 * KIND_LIMIT]
        return f"{self.type}: {_VARYING.sub('…', first)}"[:KIND_LIMIT]

    @property
    def line(self) -> str:
        """Type and first line as they are: what people know the trouble by."""
        first = self.message.partition("\n")[0].rstrip()
        return (f"{self.type}: {first}" if first else self.type)[:LINE_LIMIT]


# Of what is longer, a brief job has nothing.
BRIEF_CHARACTERS = 4096
# The metadata of a brief job that has longer ones: no others are this very object.
LEFT_OUT: Mapping[str, Any] = MappingProxyType({})

# Failure.type of a job whose record cannot be decoded, and the lease of one that was set aside because of it.
UNREADABLE = "mainspring.Unreadable"


class UnreadableRecord(Struct, frozen=True):
    """A record of the store that this release cannot decode."""

    kind: str
    """What it is a record of: job, schedule, worker, …"""
    name: str
    error: str


class Items(Struct, frozen=True, omit_defaults=True):
    """How the items went that one run worked through."""

    success: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        return self.success + self.failed + self.skipped

    def verdict(self, ratio: float = 0.5) -> Literal["success", "partial", "failed"]:
        """Failed if more than `ratio` of the items did; no items are a success."""
        if not self.failed:
            return "success"
        return "failed" if self.failed > ratio * self.total else "partial"


class Usage(Struct, frozen=True):
    """What a run in a process of its own has used."""

    cpu: float
    """Seconds, of user and system together."""
    memory: int
    """Bytes, at the peak of the whole process. If it died: at most this, since what its worker held counts in."""


class Account(Struct, frozen=True, omit_defaults=True):
    """What a run has to say for itself beside its value."""

    items: Items | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = {}


class Progress(Struct, frozen=True, omit_defaults=True):
    """How far a run has come."""

    run: int
    at: datetime
    done: float
    total: float | None = None
    note: str = ""


class LogLine(Struct, frozen=True):
    """A line a task has logged; `n` counts from 1 in each run."""

    run: int
    n: int
    at: datetime
    level: int
    text: str


class NewJob(Struct, frozen=True, kw_only=True):
    """A request to run a task, complete enough for any store to accept."""

    id: JobId
    task: str
    payload: str
    queue: str = "default"
    priority: int = 0
    run_at: datetime | None = None
    """None: at once."""
    expires_at: datetime | None = None
    timeout: float | UnsetType | None = UNSET
    """UNSET: the task's own; None: no limit."""
    max_retries: int | None = None
    """None: the task's own."""
    backoff: Backoff | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    unique_key: str | None = None
    idempotency_key: str | None = None
    on_conflict: OnConflict = "return"
    debounce_limit: float | None = None
    """The longest a debounced job may be put off, counted from its creation, in seconds."""
    schedule: str | None = None
    """The schedule that makes it, and the tick it is for."""
    scheduled_at: datetime | None = None
    beside: bool = False
    """Made beside its schedule's series, so that its end says nothing about that."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that made the payload; None: its maker did not have the task's code."""
    enqueued_by: str | None = None
    """The API key, token or person that asked for it, where that is known: key:deploy."""


class Job(Struct, frozen=True, kw_only=True):
    """A durable request to run a task, as the store has it."""

    id: JobId
    task: str
    payload: str
    queue: str
    priority: int
    state: State
    run_at: datetime
    created_at: datetime
    expires_at: datetime | None = None
    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    unique_key: str | None = None
    idempotency_key: str | None = None
    schedule: str | None = None
    scheduled_at: datetime | None = None
    """The tick's own instant, however late it runs; None: it is of no schedule."""
    beside: bool = False
    """It was made beside its schedule's series, by a backfill."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that made the payload; None: not known."""
    enqueued_by: str | None = None
    """The API key, token or person that asked for it; None: code did, or it is not known."""
    attempt: int = 0
    """Counted runs: a claim adds one, snooze and release give it back."""
    crashes: int = 0
    """Runs that ended because their worker was gone."""
    runs: int = 0
    """All runs ever; the number of the newest execution."""
    lease: Lease | None = None
    worker: WorkerId | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_reason: str | None = None
    """Set when a cancel was asked for; the worker hears it at its next beat."""
    result: str | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    """The newest that was told; of an earlier run until this one tells its own."""

    @property
    def due_at(self) -> datetime:
        """From when on a worker may take it: one that was put into the past waits since it is there."""
        run_at, created_at = self.run_at, self.created_at
        return run_at if run_at is created_at or run_at > created_at else created_at  # every run asks

    @property
    def series(self) -> str | None:
        """The schedule of whose series it is a run."""
        return None if self.beside else self.schedule

    @property
    def unreadable(self) -> bool:
        """Its record cannot be decoded: what could be read of it stands here, and its failure says why."""
        return self.failure is not None and self.failure.type == UNREADABLE

    @property
    def partial(self) -> bool:
        """It has completed, and some of the items of its last run failed."""
        return self.failure is not None and self.failure.type == PARTIAL_TYPE and self.state is State.COMPLETED

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out of it, as it may be of a brief one."""
        return self.payload != "" and self.result != "" and self.metadata is not LEFT_OUT

    def shown(self, now: datetime) -> Shown:
        """The state people see: derived, so nothing has to move when its time comes."""
        if self.state is not State.PENDING:
            return cast(Shown, self.state.value)
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        if self.attempt:
            return "retrying"
        return "scheduled" if self.run_at > now else "pending"

    def outcome(self, now: datetime) -> str | None:
        """How it ended: the state people see, but "partial" where it completed in part; None: it has not ended."""
        state = self.met(now)
        return PARTIAL if self.partial else state.value if state.final else None

    def met(self, now: datetime) -> State:
        """The state as an operator meets it: one that waited past its expires_at has expired."""
        return State.EXPIRED if self.shown(now) == "expired" else self.state

    def actions(self, now: datetime) -> tuple[Action, ...]:
        """The actions that would change something now. A retry may still find its key held by another job."""
        state, stopping = self.met(now), self.state is State.RUNNING and self.cancel_reason is not None
        if self.unreadable:
            return () if state is State.RUNNING else (Action.DELETE,)
        allowed = [one for one in Action if state in ALLOWED[one] and _DONE_ALREADY.get(one) is not state]
        return tuple(one for one in allowed if not (stopping and one is Action.CANCEL))

    def state_since(self, now: datetime) -> datetime | None:
        """When it came into the state people see; None where that is not kept."""
        match self.shown(now):
            case "running":
                return self.started_at
            case "scheduled":
                return self.created_at
            case "pending":
                return self.due_at
            case "completed" | "dead" | "cancelled":
                return self.finished_at
            case "expired":
                return self.finished_at or self.expires_at
        return None


class Execution(Struct, frozen=True, kw_only=True):
    """The history row of one run."""

    job_id: JobId
    number: int
    attempt: int
    ending: Ending
    worker: WorkerId
    lease: Lease
    started_at: datetime
    finished_at: datetime
    result_size: int = 0
    failure: Failure | None = None
    items: Items | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = {}

    @property
    def duration(self) -> timedelta:
        return self.finished_at - self.started_at

    @property
    def outcome(self) -> str:
        """Its ending; but "partial" where it completed and some of its items failed."""
        return outcome_of(self.ending, self.failure)


def outcome_of(ending: Ending, failure: Failure | None) -> str:
    """What people and statistics call the end of a run."""
    partial = failure is not None and failure.type == PARTIAL_TYPE and ending is Ending.COMPLETED
    return PARTIAL if partial else ending.value


OUTCOMES = (*(ending.value for ending in Ending), PARTIAL)


class Enqueued(Struct, frozen=True):
    """What the store did with one NewJob."""

    id: JobId
    status: Literal["new", "duplicate", "replaced", "debounced", "refused"] = "new"
    key: str | None = None
    """The key that was held, where one was."""


class Claim(Struct, frozen=True):
    """Jobs taken under a fresh lease, and when asking again can help."""

    jobs: list[Job]
    next_at: datetime | None = None
    """None: nothing is waiting for these queues and tasks."""
    expired: list[JobId] = []
    """Jobs this call ended because their expires_at had passed."""
    unreadable: list[UnreadableRecord] = []
    """Jobs this call set aside because their records cannot be decoded."""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One worker process, as its beat describes it."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None: all of them."""
    tasks: tuple[str, ...]
    concurrency: int
    started_at: datetime
    running: int = 0
    limits: Mapping[str, int] = {}
    """Tasks of which only so many may run here at once."""
    queue_limits: Mapping[str, int] = {}
    finished: int = 0
    """Runs that have ended since it started."""
    leaked: int = 0
    """Slots held by runs that ignore their interruption."""
    memory: int = 0
    """Bytes resident."""
    drained: bool = False
    """It takes no more jobs until it is told to resume."""
    stopping: bool = False
    """It takes no more jobs, and ends when those that run have ended or its grace is over."""
    deaf: bool = False
    """It listens for news in vain, and looks for jobs at its poll interval."""
    lease: float = 0.0
    """Seconds from a beat to the end of its lease; 0: not said."""
    grace: float | None = None
    """Seconds that running jobs have to end when it is stopped; None: of a release that cannot be told to."""
    beats: int = 0
    """Which of its beats says so, counted from 1: one that was given up may come after later ones."""
    schema: int = 0
    """The newest schema of the store that its release knows; 0: not said."""
    fingerprints: tuple[str, ...] = ()
    """Arguments.fingerprint of each of its tasks, in their order; none: of a release that does not know."""


class Orders(Struct, frozen=True, omit_defaults=True):
    """What an operator wants of a worker; it hears them at its next beat."""

    concurrency: int | None = None
    """None: as it was started."""
    drained: bool = False
    stopped: bool = False
    """It is to end; there is no way back."""


WorkerState = Literal["open", "draining", "drained", "resuming", "stopping"]
Order = Literal["resize", "drain", "resume", "stop"]


class LiveWorker(Struct, frozen=True):
    """A worker's row in the store."""

    info: WorkerInfo
    until: datetime
    orders: Orders = Orders()

    @property
    def state(self) -> WorkerState:
        """What people see: orders it has not heard yet are on their way."""
        if self.orders.stopped or self.info.stopping:
            return "stopping"
        if self.orders.drained:
            return "drained" if self.info.drained and not self.info.running else "draining"
        return "resuming" if self.info.drained else "open"

    @property
    def running(self) -> int:
        """Jobs it ran at its last beat; `app.workers.running(id)` has the jobs themselves."""
        return self.info.running

    @property
    def beat_at(self) -> datetime | None:
        """When it beat last; None if it has not said how long its lease is."""
        return self.until - timedelta(seconds=self.info.lease) if self.info.lease else None


class Beat(Struct, frozen=True):
    """What a worker hears when it says that it lives."""

    holds: dict[JobId, Lease]
    """The runs the store believes this worker has."""
    cancels: dict[JobId, str]
    """Those of them somebody asked to cancel, with the reason."""
    orders: Orders = Orders()
    lost: bool = True
    """False: no silent worker holds runs, and a sweep would find nothing."""
    watched_until: datetime | None = None
    """Until when somebody wants, or wanted, news of what happens here."""


class Refusal(Struct, frozen=True):
    """Why an action left a job alone: its state, who holds its key, or what is wrong with its new arguments."""

    state: State
    key: str | None = None
    holder: JobId | None = None
    error: str | None = None


class Changed(Struct, frozen=True):
    """What an operator's action did, job by job."""

    done: list[JobId]
    refused: dict[JobId, Refusal]
    next: JobId | None = None
    """Give it as `after` to go on; None: there is no more."""


class Update(Struct, frozen=True, kw_only=True):
    """New values for a job that waits. UNSET: as it is."""

    payload: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    run_at: datetime | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    timeout: float | UnsetType | None = UNSET
    max_retries: int | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: Mapping[str, Any] | UnsetType = UNSET
    fingerprint: str | UnsetType | None = UNSET
    """Of the new payload; without it, a new payload's is not known."""


Updates = Update | Mapping[JobId, Update]
"""The same new values for each job, or its own for each that is named."""


class Report(Struct, frozen=True, kw_only=True):
    """What a run says while it goes on. The lease says which run."""

    id: JobId
    lease: Lease
    lines: tuple[LogLine, ...] = ()
    progress: Progress | None = None


class Breaker(Struct, frozen=True, metaclass=HelpfulStruct):
    """Stops a task after `failures` failures in a row; after `cooldown`, a span such as 60 or "5m", one job may try."""

    failures: int = 5
    cooldown: float = 60.0

    if TYPE_CHECKING:  # kept as seconds, and given as any span

        def __init__(self, failures: int = 5, cooldown: Span = 60.0) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.cooldown
        if isinstance(given, str | timedelta):
            force_setattr(self, "cooldown", seconds(given, "Breaker(cooldown=…)"))


class Circuit(Struct, frozen=True):
    """A task's breaker, as the store has it. A task without one has not failed last time."""

    task: str
    failures: int
    """In a row."""
    open_until: datetime | None = None
    """None: closed. Passed: half open, one job may try."""
    probe: JobId | None = None
    """The job that tries."""


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead jobs of one task that failed in the same way."""

    task: str
    error: str
    count: int
    newest: JobId
    last_at: datetime


class Queue(Struct, frozen=True, kw_only=True):
    """A queue as operators see it. Counts hold unfinished jobs only."""

    name: str
    paused: bool = False
    pending: int = 0
    scheduled: int = 0
    retrying: int = 0
    running: int = 0
    paused_at: datetime | None = None
    """None: it is not paused, or an earlier release paused it."""
    paused_by: str | None = None
    note: str = ""
    """Why it was paused."""


class End(Struct, frozen=True):
    """One end of a job: a job that was put back to work and has ended again has another."""

    finished_at: datetime | None
    runs: int


class Filter(Struct, metaclass=HelpfulStruct, frozen=True, kw_only=True):
    """Which jobs: closed and conjunctive. None means any."""

    ids: tuple[JobId, ...] | None = None
    states: tuple[Shown, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """All of them must be on the job."""
    workers: tuple[WorkerId, ...] | None = None
    """Who runs it now."""
    errors: tuple[str, ...] | None = None
    """What it failed with last: Failure.kind."""
    schedules: tuple[str, ...] | None = None
    """Which made it."""
    key_prefix: str | None = None
    """How its unique or idempotency key begins."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    """Those two: the instant itself is within."""
    ends: Mapping[JobId, End] | None = None
    """These jobs, while this is their newest end."""
    outcome: Literal["partial"] | None = None
    """Completed jobs some of whose items failed. app.jobs turns it into `errors`: no store sees it."""

    def by_error(self) -> Filter:
        """The same jobs, without an `outcome`."""
        if self.outcome is None:
            return self
        errors = (PARTIAL_KIND,) if self.errors is None or PARTIAL_KIND in self.errors else ()
        states = ("completed",) if self.states is None or "completed" in self.states else ()
        return replace(self, outcome=None, errors=errors, states=cast(tuple[Shown, ...], states))


Sort = Literal["created", "due", "finished"]
SORTS: tuple[Sort, ...] = ("created", "due", "finished")


class Cursor(Struct, frozen=True):
    """Where a page ended: the last job's instant (none when sorted by creation) and id."""

    id: JobId
    at: datetime | None = None
