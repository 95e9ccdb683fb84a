"""A job: the request to run a task, its record in the store, its states, and the actions allowed in each state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args

from msgspec import UNSET, Struct, UnsetType, field

from ..ids import JobId, Lease, WorkerId
from ..retry import Backoff
from ..suggest import renamed_value
from .plan import Plan
from .run import PARTIAL, PARTIAL_TYPE, Failure, Progress
from .step import StepRef, StepValue

OnConflict = Literal["return", "raise", "replace", "debounce"]

MIN_PRIORITY = -32768
MAX_PRIORITY = 32767
# Prefix of the names of internal tasks.
INTERNAL = "mainspring."
# After this many crashes a job is a poison suspect. A worker runs one suspect at a time, so that the last crash of a
# poison pill takes no innocent job with it.
POISON_SUSPECT_CRASHES = 2


def is_internal(task: str) -> bool:
    """Whether the task is Mainspring's own, such as the delivery of webhooks."""
    return task.startswith(INTERNAL)


class State(StrEnum):
    """The stored state of a job. The last four are final. ShownState has the states that people see."""

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
# States in which a job holds its idempotency key: the key is free again if the work was not done.
IDEMPOTENT_STATES = UNFINISHED | {State.COMPLETED}

Shown = Literal[
    "pending", "scheduled", "retrying", "running", "waiting", "paused",
    "completed", "dead", "cancelled", "expired",
]  # fmt: skip
SHOWN: tuple[Shown, ...] = get_args(Shown)


class ShownState:
    """The states that the CLI, the API, the dashboard, job.shown(now) and Filter(states=…) use, as plain texts.

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
    """An operator's action on a job."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    UPDATE = "update"
    DELETE = "delete"


# The whole state machine: from each state, the states it can change to.
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.WAITING, State.PAUSED, State.CANCELLED, State.EXPIRED}),
    State.RUNNING: frozenset({State.PENDING, State.WAITING, State.COMPLETED, State.DEAD, State.CANCELLED}),
    State.WAITING: frozenset({State.PENDING, State.PAUSED, State.CANCELLED}),
    State.PAUSED: frozenset({State.PENDING, State.CANCELLED}),
    State.COMPLETED: frozenset(),
    State.DEAD: frozenset({State.PENDING, State.WAITING}),
    State.CANCELLED: frozenset({State.PENDING, State.WAITING}),
    State.EXPIRED: frozenset({State.PENDING, State.WAITING}),
}
# The states in which an action is allowed. Cancelling a running job asks its worker to stop it; cancelling twice is no
# error.
ALLOWED: Mapping[Action, frozenset[State]] = {
    Action.CANCEL: UNFINISHED | {State.CANCELLED},
    Action.RETRY: frozenset({State.DEAD, State.CANCELLED, State.EXPIRED}),
    Action.PAUSE: frozenset({State.PENDING, State.PAUSED}),
    Action.RESUME: frozenset({State.PAUSED, State.PENDING}),
    Action.UPDATE: frozenset({State.PENDING, State.PAUSED, State.WAITING}),
    Action.DELETE: frozenset(State) - {State.RUNNING},
}
# The states that a bulk action selects if its filter names none.
_WAITING: tuple[Shown, ...] = ("pending", "scheduled", "retrying")
DEFAULT_STATES: Mapping[Action, tuple[Shown, ...]] = {
    Action.CANCEL: (*_WAITING, "running", "waiting", "paused"),
    Action.RETRY: ("dead",),
    Action.PAUSE: _WAITING,
    Action.RESUME: ("paused",),
    Action.UPDATE: (*_WAITING, "waiting", "paused"),
    Action.DELETE: ("completed", "dead", "cancelled", "expired"),
}
# States in which an action is allowed but changes nothing.
_DONE_ALREADY = {Action.CANCEL: State.CANCELLED, Action.PAUSE: State.PAUSED, Action.RESUME: State.PENDING}

# A brief job leaves out each value that is longer than this.
BRIEF_CHARACTERS = 4096
# The metadata of a brief job whose own metadata was left out. It is recognised by identity.
LEFT_OUT: Mapping[str, Any] = MappingProxyType({})

# Failure.type of a job whose record cannot be decoded, and the lease of a job that was set aside because of it.
UNREADABLE = "mainspring.Unreadable"


class UnreadableRecord(Struct, frozen=True):
    """A stored record that this release cannot decode."""

    kind: str
    """The kind of record: job, schedule, worker, …"""
    name: str
    error: str


class Collecting(Struct, frozen=True, kw_only=True, gc=False):
    """The items of a job that collects them, counted, and its bounds.

    It collects while it has its unique key: until it is full, was claimed or was changed by an operator. Its payload is
    an object whose only value is the list of the items.
    """

    size: int
    """Items with which it is full."""
    delay: float
    """It is due this many seconds after its first item."""
    grace: float | None = None
    """It is due this many seconds after its last item, if that is earlier."""
    max_bytes: int
    """The payload is no longer than this, unless one call alone is."""
    count: int = 1
    """The items so far; of a request those that it adds."""


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A request to run a task, ready to be stored."""

    id: JobId
    task: str
    payload: str
    queue: str = "default"
    priority: int = 0
    run_at: datetime | None = None
    """None: at once."""
    expires_at: datetime | None = None
    timeout: float | UnsetType | None = UNSET
    """Seconds. UNSET: the task's timeout. None: no limit."""
    max_retries: int | None = None
    """None: as the task allows."""
    backoff: Backoff | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    unique_key: str | None = None
    idempotency_key: str | None = None
    on_conflict: OnConflict = "return"
    debounce_limit: float | None = None
    """The longest a debounced job can be put off, in seconds after its creation."""
    schedule: str | None = None
    """The schedule that makes the job."""
    scheduled_at: datetime | None = None
    """The instant of the tick that the job is for."""
    detached: bool = field(default=False, name="beside")
    """The job does not count for its schedule: its end changes neither the schedule's overlap nor its failures."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that made the payload. None if the caller did not have the task's code."""
    enqueued_by: str | None = None
    """The API key, token or person that enqueued the job, such as key:deploy. None if not known."""
    step: StepRef | None = None
    """The step of a flow that the job belongs to."""
    refs: Mapping[str, StepValue] = {}
    """Values that the worker puts into the payload before it decodes it, by JSON pointer."""
    plan: Plan | None = None
    """The job is a flow that was planned already: it is stored as waiting, and its steps begin."""
    collect: Collecting | None = None
    """Its items are added to the job that holds its unique key, while that collects."""
    limit_key: str | None = None
    """The group of a limit that the job belongs to, see records.limit. None: it has no limit."""

    @property
    def beside(self) -> bool:
        """Deprecated: `detached`."""
        return renamed_value("NewJob.beside", "detached", self.detached)


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """A job as the store keeps it."""

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
    """The instant of the tick that the job is for, however late it runs. None if no schedule made the job."""
    detached: bool = field(default=False, name="beside")
    """The job does not count for its schedule: a backfill made it."""
    fingerprint: str | None = None
    """Arguments.fingerprint of the task that made the payload. None if not known."""
    enqueued_by: str | None = None
    """The API key, token or person that enqueued the job. None if code did, or if not known."""
    step: StepRef | None = None
    """The step of a flow that the job belongs to."""
    refs: Mapping[str, StepValue] = {}
    """Values that the worker puts into the payload before it decodes it, by JSON pointer."""
    collect: Collecting | None = None
    """The items that the job collects, or has collected."""
    limit_key: str | None = None
    """The group of a limit that the job belongs to, see records.limit. None: it has no limit."""
    attempt: int = 0
    """Counted runs: a claim adds one; a snooze and a release take it back."""
    crashes: int = 0
    """Runs that ended because their worker died."""
    runs: int = 0
    """All runs so far: the number of the newest execution."""
    lease: Lease | None = None
    worker: WorkerId | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_reason: str | None = None
    """Set when a running job is cancelled. Its worker receives the reason with its next beat."""
    result: str | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    """The newest progress reported; that of an earlier run until the current run reports its own."""

    @property
    def due_at(self) -> datetime:
        """When the job became claimable: `run_at`, but not before it was created."""
        run_at, created_at = self.run_at, self.created_at
        return run_at if run_at is created_at or run_at > created_at else created_at  # hot: called for every run

    @property
    def counted_schedule(self) -> str | None:
        """The schedule this job counts for. None for backfills."""
        return None if self.detached else self.schedule

    @property
    def unreadable(self) -> bool:
        """Whether the record cannot be decoded. The job has the values that could be read; `failure` has the reason."""
        return self.failure is not None and self.failure.type == UNREADABLE

    @property
    def partial(self) -> bool:
        """Whether the job completed although some items of its last run failed."""
        return self.failure is not None and self.failure.type == PARTIAL_TYPE and self.state is State.COMPLETED

    @property
    def is_whole(self) -> bool:
        """Whether the job is complete: a brief job leaves out long values."""
        return self.payload != "" and self.result != "" and self.metadata is not LEFT_OUT

    def shown(self, now: datetime) -> Shown:
        """The state people see. It is derived from the stored state and `now`, so no write is needed when a job becomes
        due or expires."""
        if self.state is not State.PENDING:
            return cast(Shown, self.state.value)
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        if self.attempt:
            return "retrying"
        return "scheduled" if self.run_at > now else "pending"

    def outcome(self, now: datetime) -> str | None:
        """How the job ended: its shown state, or "partial" if some items failed. None if it has not ended."""
        state = self.state_at(now)
        return PARTIAL if self.partial else state.value if state.final else None

    def state_at(self, now: datetime) -> State:
        """The state at `now`: a pending job whose expires_at has passed is expired, although no write says so yet."""
        return State.EXPIRED if self.shown(now) == "expired" else self.state

    def actions(self, now: datetime) -> tuple[Action, ...]:
        """The actions that would change the job now. A retry can still be refused, if another job holds its key."""
        state, stopping = self.state_at(now), self.state is State.RUNNING and self.cancel_reason is not None
        if self.unreadable:
            return () if state is State.RUNNING else (Action.DELETE,)
        allowed = [one for one in Action if state in ALLOWED[one] and _DONE_ALREADY.get(one) is not state]
        return tuple(one for one in allowed if not (stopping and one is Action.CANCEL))

    def state_since(self, now: datetime) -> datetime | None:
        """When the shown state began. None if that is not recorded."""
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

    @property
    def beside(self) -> bool:
        """Deprecated: `detached`."""
        return renamed_value("Job.beside", "detached", self.detached)

    @property
    def series(self) -> str | None:
        """Deprecated: `counted_schedule`."""
        return renamed_value("Job.series", "counted_schedule", self.counted_schedule)

    def met(self, now: datetime) -> State:
        """Deprecated: `state_at`."""
        return renamed_value("Job.met", "state_at", self.state_at(now))


class Enqueued(Struct, frozen=True, gc=False):
    """The store's answer for one NewJob."""

    id: JobId
    status: Literal["new", "duplicate", "replaced", "debounced", "collected", "refused"] = "new"
    key: str | None = None
    """The key that another job holds. None if there was no conflict."""
