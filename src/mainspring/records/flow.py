"""A flow: the row with the statuses of its steps, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from ..ids import JobId
from .job import NewJob
from .plan import Plan

FlowState = Literal["open", "finishing", "failing", "cancelling", "aborting", "over"]
"""open; being stopped by Finish, by the death of a step (fail_fast), by a cancel, or by a second cancel; over."""


class StepStatus:
    """The statuses of a step, one character each in the flow's row."""

    WAITING = "w"
    RELEASED = "r"
    """Its job was made; the job's state says more."""
    COMPLETED = "c"
    DEAD = "d"
    UPSTREAM_FAILED = "u"
    """Not run, because something that it needs has failed."""
    CANCELLED = "x"
    SKIPPED_BY_CONDITION = "f"
    SKIPPED_ABSENT = "a"
    """An argument has no value, and its parameter does not accept None."""
    SKIPPED_WITH_ALL = "l"
    """Everything that it needs was skipped."""
    SKIPPED_BY_TASK = "s"
    """The task raised Skip."""
    NOT_NEEDED = "n"
    """It runs after a failure, and there was none."""
    SKIPPED_BY_OPERATOR = "o"


SKIPPED = frozenset("falsno")
OPEN = frozenset("wr")
SKIP_REASONS: Mapping[str, str] = {
    StepStatus.SKIPPED_BY_CONDITION: "when",
    StepStatus.SKIPPED_ABSENT: "absent",
    StepStatus.SKIPPED_WITH_ALL: "all-skipped",
    StepStatus.SKIPPED_BY_TASK: "said",
    StepStatus.NOT_NEEDED: "not-needed",
    StepStatus.SKIPPED_BY_OPERATOR: "operator",
}


# The internal job that makes the items of a large map, or of a map over a large value.
FAN_OUT = "mainspring.fan_out"
# The internal job that cancels what a stopped flow has left, or deletes what a deleted one has left.
CANCEL_STEPS = "mainspring.cancel_steps"
# The internal task of a flow that has a plan but no function.
PLANNED_FLOW = "mainspring.flow"
# The internal job that stops a flow at its deadline.
FLOW_DEADLINE = "mainspring.flow_deadline"
# The internal task of a batch.
BATCH = "mainspring.batch"
# The number of the step of a batch that has its jobs.
JOBS_STEP = 0
# The internal job that closes a batch: whose maker has gone, or which was made in a transaction.
CLOSE_BATCH = "mainspring.close_batch"
FLOW_TASKS = frozenset({FAN_OUT, CANCEL_STEPS, PLANNED_FLOW, FLOW_DEADLINE, BATCH, CLOSE_BATCH})
# The internal tasks whose jobs are deadlines. Without it, a flow, a signal or a batch could wait for ever.
DEADLINE_TASKS = frozenset({FLOW_DEADLINE, CLOSE_BATCH})
# The tasks of flows whose jobs come with their plans.
PLANNED_TASKS = frozenset({PLANNED_FLOW, BATCH})
# In the metadata of a flow's job: the id of the flow that it replays.
REPLAY_OF = "replay_of"
# The failure of a flow that cannot begin while workers of older releases are alive.
OLDER_RELEASE = "OlderRelease"
# Why a job of a step was cancelled with its flow.
FLOW_STOPPED = "its flow has stopped"
# Jobs of steps that are cancelled or deleted in the transaction that stops or deletes their flow.
MAX_CANCELLED_JOBS = 1000
# Dead and cancelled jobs of a flow that are retried with it.
MAX_RETRIED_JOBS = 10_000
# Names of signals that a job keeps, the characters of a name, and the bytes of a value and of all values together.
MAX_SIGNAL_NAMES = 100
MAX_SIGNAL_NAME_CHARACTERS = 200
MAX_SIGNAL_BYTES = 65_536
MAX_INBOX_BYTES = 262_144


class ItemCounts(Struct, frozen=True, gc=False, omit_defaults=True):
    """The items of a map, counted."""

    made: int = 0
    ended: int = 0
    dead: int = 0
    cancelled: int = 0
    closed: bool = True
    """Whether no more items will be made."""
    released_at: datetime | None = None
    """Of a map whose items are made by a job, page by page. The ids of the items follow from it."""

    @property
    def done(self) -> bool:
        return self.closed and self.ended >= self.made


class FlowDeadline(Struct, frozen=True):
    """When a flow that goes on is stopped, or a signal is late, and the job that sees to it."""

    at: datetime
    job_id: JobId


class GivenSignal(Struct, frozen=True, gc=False, omit_defaults=True):
    """The value of a signal, as it was given."""

    value: str
    """JSON."""
    delivery: str
    at: datetime


class AwaitedSignal(Struct, frozen=True):
    """A signal that a job without a plan waits for."""

    name: str
    deadline: datetime | None = None
    """When the job goes on without it."""


class Flow(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How far a flow is. Every change raises its revision."""

    id: JobId
    queue: str = "default"
    """The queue of the flow's own job."""
    revision: int = 1
    statuses: str
    """A character of StepStatus for each step."""
    state: FlowState = "open"
    values: Mapping[int, str] = {}
    """Small results by step, while a step that waits, or the flow's result, needs them."""
    extracts: Mapping[str, str] = {}
    """Of larger results: what conditions read, by extract_key()."""
    counts: Mapping[int, ItemCounts] = {}
    lives: Mapping[int, int] = {}
    """How often each step was put back to work after it had been released."""
    dead: tuple[int, ...] = ()
    """Dead steps in the order of their deaths."""
    notes: Mapping[int, str] = {}
    """Why the engine itself ended a step as dead."""
    skipped: Mapping[int, str] = {}
    """The reasons of an operator who skips steps. A step whose job still runs is skipped when that has ended."""
    finish: str | None = None
    """The value that a task gave with Finish."""
    cancelled: bool = False
    """Whether a cancel was asked for before it was over."""
    timed_out: bool = False
    """Whether it was stopped at its deadline."""
    deadline: FlowDeadline | None = None
    """None once it is over, and without a timeout."""
    planned: bool = True
    """Whether there is a plan. If not, the job has signals only, or is a flow that is not planned yet."""
    inbox: Mapping[str, GivenSignal] = {}
    """The signals that were given, by name."""
    waits: Mapping[str, FlowDeadline | None] = {}
    """The signals that are waited for, by name; None: without a timeout."""
    late: tuple[str, ...] = ()
    """The signals whose time was over before they came."""
    began_at: datetime
    ended_at: datetime | None = None


class FlowWithPlan(Struct, frozen=True, gc=False):
    """A flow's row and its plan; the plan of no steps if it has none (Flow.planned)."""

    row: Flow
    plan: Plan


class StepEnd(Struct, frozen=True, kw_only=True, gc=False):
    """The end of a step's job, or of one item's."""

    position: int
    state: Literal["completed", "dead", "cancelled"]
    """An expired job counts as dead, a deleted one as cancelled."""
    result: str | None = None
    skipped: bool = False
    """The task raised Skip."""
    finish: bool = False
    """The task raised Finish: the result is the flow's."""


class SkipStep(Struct, frozen=True):
    """An operator skips a step."""

    step: int
    reason: str = ""


class TimeOut(Struct, frozen=True):
    """The deadline of a flow, or of a signal, has come. Another deadline than that of this job is left alone."""

    job_id: JobId


class GiveSignal(Struct, frozen=True):
    """Gives a signal its value. The same delivery may be repeated."""

    name: str
    value: str
    """JSON."""
    delivery: str


class CloseBatch(Struct, frozen=True):
    """No more jobs are added to a batch from outside."""

    abandoned_at: int | None = None
    """Its maker has gone: it is closed as dead, if it still has this many jobs."""


FlowRequest = SkipStep | TimeOut | GiveSignal | CloseBatch
"""What is asked of a flow, beside what happens to its jobs."""


class Move(Struct, frozen=True, gc=False):
    """A flow after something happened to it, and what follows in the same transaction."""

    flow: Flow
    jobs: tuple[NewJob, ...] = ()
    cancel: tuple[int, ...] = ()
    """Steps whose unfinished jobs are cancelled."""
    drop: tuple[JobId, ...] = ()
    """Jobs of deadlines that are no longer needed."""
    wake: bool = False
    """Whether the flow's own job is due, to conclude."""
