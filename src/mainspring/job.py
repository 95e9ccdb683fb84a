"""Records: what a job is, before, during and after its runs. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, cast

from msgspec import UNSET, Struct, UnsetType

from .retry import Backoff

JobId = str
WorkerId = str
Lease = str
OnConflict = Literal["return", "raise", "replace", "debounce"]

MIN_PRIORITY, MAX_PRIORITY = -32768, 32767
# A job whose worker died under it this often is a suspect: a worker runs one of them at a time, so that a
# poison pill, at its last crash, takes no innocent neighbour along.
SUSPECT = 2


class State(StrEnum):
    """What the store keeps. The last four are final."""

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


class Action(StrEnum):
    """What an operator may do to a job."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
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
    Action.DELETE: frozenset(State) - {State.RUNNING},
}


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


class Failure(Struct, frozen=True, omit_defaults=True):
    """An exception as text: nothing is ever rebuilt from it."""

    type: str
    message: str
    stack: str = ""


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

    def shown(self, now: datetime) -> Shown:
        """The state people see: derived, so nothing has to move when its time comes."""
        if self.state is not State.PENDING:
            return cast(Shown, self.state.value)
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        if self.attempt:
            return "retrying"
        return "scheduled" if self.run_at > now else "pending"


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

    @property
    def duration(self) -> timedelta:
        return self.finished_at - self.started_at


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


class LiveWorker(Struct, frozen=True):
    """A worker's row in the store."""

    info: WorkerInfo
    until: datetime


class Beat(Struct, frozen=True):
    """What a worker hears when it says that it lives."""

    holds: dict[JobId, Lease]
    """The runs the store believes this worker has."""
    cancels: dict[JobId, str]
    """Those of them somebody asked to cancel, with the reason."""


class Refusal(Struct, frozen=True):
    """Why an action left a job alone: its state, or who holds its key."""

    state: State
    key: str | None = None
    holder: JobId | None = None


class Changed(Struct, frozen=True):
    """What an operator's action did, job by job."""

    done: list[JobId]
    refused: dict[JobId, Refusal]


class Queue(Struct, frozen=True, kw_only=True):
    """A queue as operators see it. Counts hold unfinished jobs only."""

    name: str
    paused: bool = False
    pending: int = 0
    scheduled: int = 0
    retrying: int = 0
    running: int = 0


class Filter(Struct, frozen=True, kw_only=True):
    """Which jobs: closed and conjunctive. None means any."""

    ids: tuple[JobId, ...] | None = None
    states: tuple[Shown, ...] | None = None
    queues: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """All of them must be on the job."""
