"""A job: the request to run a task, its record in the store, its states and what may be done to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from msgspec import UNSET, Struct, UnsetType

from ..ids import JobId, Lease, WorkerId
from ..retry import Backoff
from .run import PARTIAL, PARTIAL_TYPE, Failure, Progress

OnConflict = Literal["return", "raise", "replace", "debounce"]

MIN_PRIORITY, MAX_PRIORITY = -32768, 32767
# How the names of internal tasks begin.
INTERNAL = "mainspring."
# A job whose worker died under it this often is a suspect: a worker runs one of them at a time, so that a
# poison pill, at its last crash, takes no innocent neighbour along.
POISON_SUSPECT_CRASHES = 2


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


class Enqueued(Struct, frozen=True):
    """What the store did with one NewJob."""

    id: JobId
    status: Literal["new", "duplicate", "replaced", "debounced", "refused"] = "new"
    key: str | None = None
    """The key that was held, where one was."""
