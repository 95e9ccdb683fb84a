"""A flow: the plan of its steps, the row with their statuses, and the step that a job belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from ..ids import JobId
from ..retry import Backoff
from .job import NewJob

# A plan with more steps is refused: work of that size is a map.
MAX_STEPS = 10_000
_STEP_SHIFT_BITS, _LIFE_SHIFT_BITS = 32, 56

On = Literal["success", "failure", "end"]
"""When a step runs: once all that it needs has succeeded, as soon as something has failed, or once all has ended."""

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


class StepRef(Struct, frozen=True, gc=False):
    """The step of a flow that a job belongs to."""

    flow: JobId
    position: int
    """life << 56 | step << 32 | index. Index 0 is the step itself; the items of a map count from 1."""
    queue: str
    """The queue of the flow's own job, which names the shard of the flow's row."""

    @property
    def life(self) -> int:
        return self.position >> _LIFE_SHIFT_BITS

    @property
    def step(self) -> int:
        return (self.position >> _STEP_SHIFT_BITS) & ((1 << (_LIFE_SHIFT_BITS - _STEP_SHIFT_BITS)) - 1)

    @property
    def index(self) -> int:
        return self.position & ((1 << _STEP_SHIFT_BITS) - 1)


def position_of(step: int, index: int = 0, life: int = 0) -> int:
    return life << _LIFE_SHIFT_BITS | step << _STEP_SHIFT_BITS | index


# operands: where the value of an argument, of one side of a comparison or of the flow itself comes from


class Input(Struct, frozen=True, array_like=True, tag="i"):
    """A value that was known when the flow was planned: the n-th of the flow's inputs."""

    n: int


class ValueOf(Struct, frozen=True, array_like=True, tag="v"):
    """The result of a step, or what stands at a path in it."""

    step: int
    path: tuple[str | int, ...] = ()


class FirstOf(Struct, frozen=True, array_like=True, tag="f"):
    """The first of these operands that has a value."""

    operands: tuple[Operand, ...]


class ListOf(Struct, frozen=True, array_like=True, tag="l"):
    items: tuple[Operand, ...]


class ObjectOf(Struct, frozen=True, array_like=True, tag="o"):
    fields: Mapping[str, Operand]


Operand = Input | ValueOf | FirstOf | ListOf | ObjectOf

# conditions


class Compare(Struct, frozen=True, array_like=True, tag="c"):
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in"]
    left: Operand
    right: Operand


class IsTrue(Struct, frozen=True, array_like=True, tag="t"):
    operand: Operand


class Exists(Struct, frozen=True, array_like=True, tag="e"):
    operand: Operand


class Not(Struct, frozen=True, array_like=True, tag="n"):
    condition: Condition


class AllOf(Struct, frozen=True, array_like=True, tag="&"):
    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True, array_like=True, tag="|"):
    conditions: tuple[Condition, ...]


Condition = Compare | IsTrue | Exists | Not | AllOf | AnyOf


class StepOptions(Struct, frozen=True, omit_defaults=True):
    """The options of a step's jobs."""

    queue: str = "default"
    priority: int = 0
    delay: float = 0.0
    """Seconds from the release."""
    expires: float | None = None
    """Seconds after it is due."""
    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    fingerprint: str | None = None


class PlannedStep(Struct, frozen=True, omit_defaults=True):
    """One step of a plan. It needs only steps before it."""

    name: str
    task: str
    args: Mapping[str, Operand] = {}
    accepts_none: tuple[str, ...] = ()
    """The arguments whose parameters accept None."""
    after: tuple[int, ...] = ()
    when: Condition | None = None
    on: On = "success"
    optional: bool = False
    over: Operand | None = None
    """The list whose items are a job each; None if the step is one job."""
    item: str = ""
    """The parameter that receives the item."""
    failed_ratio: float = 0.0
    """The share of a map's items that may be dead."""
    options: StepOptions = StepOptions()


class Plan(Struct, frozen=True, omit_defaults=True):
    """The steps of a flow, each after those that it needs, and what the flow returns."""

    steps: tuple[PlannedStep, ...]
    inputs: tuple[str, ...] = ()
    """The values that were known when the flow was planned, as JSON."""
    result: Operand | None = None
    fail_fast: bool = False


class ItemCounts(Struct, frozen=True, omit_defaults=True):
    """The items of a map, counted."""

    made: int = 0
    ended: int = 0
    dead: int = 0
    cancelled: int = 0
    closed: bool = True
    """Whether no more items will be made."""

    @property
    def done(self) -> bool:
        return self.closed and self.ended >= self.made


class Flow(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    finish: str | None = None
    """The value that a task gave with Finish."""
    cancelled: bool = False
    """Whether a cancel was asked for before it was over."""
    began_at: datetime
    ended_at: datetime | None = None


class StepEnd(Struct, frozen=True, kw_only=True):
    """The end of a step's job, or of one item's."""

    position: int
    state: Literal["completed", "dead", "cancelled"]
    """An expired job counts as dead, a deleted one as cancelled."""
    result: str | None = None
    skipped: bool = False
    """The task raised Skip."""
    finish: bool = False
    """The task raised Finish: the result is the flow's."""


class StepJob(Struct, frozen=True):
    """A job that a move makes."""

    job: NewJob
    ref: StepRef
    refs: Mapping[str, ValueOf] = {}
    """The values that the worker reads before it decodes the payload, by where they belong in it (/name/field)."""


class Move(Struct, frozen=True):
    """A flow after something happened to it, and what follows in the same transaction."""

    flow: Flow
    jobs: tuple[StepJob, ...] = ()
    cancel: tuple[int, ...] = ()
    """Steps whose unfinished jobs are cancelled."""
    wake: bool = False
    """Whether the flow's own job is due, to conclude."""
