"""The plan of a flow: its steps, what each of them needs, and what the flow returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from ..retry import Backoff
from .run import Failure

# A plan with more steps is refused: work of that size is a map.
MAX_STEPS = 10_000

On = Literal["success", "failure", "end"]
"""When a step runs: once all that it needs has succeeded, as soon as something has failed, or once all has ended."""


# operands: where the value of an argument, of one side of a comparison or of the flow itself comes from


class Input(Struct, frozen=True, gc=False, array_like=True, tag="i"):
    """A value that was known when the flow was planned: the n-th of the flow's inputs."""

    n: int


class ValueOf(Struct, frozen=True, gc=False, array_like=True, tag="v"):
    """The result of a step, or what stands at a path in it."""

    step: int
    path: tuple[str | int, ...] = ()


class FirstOf(Struct, frozen=True, gc=False, array_like=True, tag="f"):
    """The first of these operands that has a value."""

    operands: tuple[Operand, ...]


class ListOf(Struct, frozen=True, gc=False, array_like=True, tag="l"):
    items: tuple[Operand, ...]


class ObjectOf(Struct, frozen=True, gc=False, array_like=True, tag="o"):
    fields: Mapping[str, Operand]


Operand = Input | ValueOf | FirstOf | ListOf | ObjectOf

# conditions


class Compare(Struct, frozen=True, gc=False, array_like=True, tag="c"):
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in"]
    left: Operand
    right: Operand


class IsTrue(Struct, frozen=True, gc=False, array_like=True, tag="t"):
    operand: Operand


class Exists(Struct, frozen=True, gc=False, array_like=True, tag="e"):
    operand: Operand


class Not(Struct, frozen=True, gc=False, array_like=True, tag="n"):
    condition: Condition


class AllOf(Struct, frozen=True, gc=False, array_like=True, tag="&"):
    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True, gc=False, array_like=True, tag="|"):
    conditions: tuple[Condition, ...]


Condition = Compare | IsTrue | Exists | Not | AllOf | AnyOf


class StepOptions(Struct, frozen=True, gc=False, omit_defaults=True):
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
    limit_key: str | None = None
    """Of a map with at_once only the name of its limit: the flow and the step are the key."""


class SignalStep(Struct, frozen=True, gc=False, omit_defaults=True):
    """What makes a step a signal: it has no job, and its value is given from outside."""

    timeout: float | None = None
    """Seconds from the end of what the step needs; None: it waits without end."""
    default: Operand | None = None
    """Its value after the timeout. None: it is dead then."""
    schema: str = ""
    """The JSON schema of its values; empty: they are not described."""


class PlannedStep(Struct, frozen=True, gc=False, omit_defaults=True):
    """One step of a plan. It needs only steps before it."""

    name: str
    task: str
    """Empty if the step is a signal."""
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
    yields: bool = False
    """Whether its task yields the items of the maps over this step."""
    open_seconds: float | None = None
    """Of a batch: its items are jobs of any task that are added from outside until it is closed. So long after the last
    one of them it is closed as dead. None: an ordinary step."""
    summary: str = ""
    """The parameter that receives how far the batch is, as a records.batch.BatchSummary."""
    options: StepOptions = StepOptions()
    signal: SignalStep | None = None


class KeptStep(Struct, frozen=True, gc=False, omit_defaults=True):
    """A step that has ended in an earlier flow, as another one takes it over that replays a part of that flow."""

    status: str
    """One of flow.StepStatus."""
    value: str | None = None
    """The result of a step that is no map as JSON, if another step or the flow's result may read it. A signal whose
    time was over has none."""
    items: tuple[tuple[int, str | Failure], ...] | None = None
    """The results of a map by index, from 0 on, or why items have none; None if nothing may read them."""
    made: int | None = None
    """The items of a map that has begun, and how many of them are dead and cancelled."""
    dead: int = 0
    cancelled: int = 0
    note: str | None = None
    """Flow.notes of the step; of one that an operator has skipped, the reason."""


class Plan(Struct, frozen=True, gc=False, omit_defaults=True):
    """The steps of a flow, each after those that it needs, and what the flow returns."""

    steps: tuple[PlannedStep, ...]
    inputs: tuple[str, ...] = ()
    """The values that were known when the flow was planned, as JSON."""
    result: Operand | None = None
    fail_fast: bool = False
    metadata: Mapping[str, str] = {}
    """What all jobs of its steps have in their metadata, beside that of their options."""
    timeout: float | None = None
    """Seconds from the plan to the end of the last step; None: no limit."""
    kept: Mapping[int, KeptStep] = {}
    """Steps that are not run, since the flow takes them over from another one; dead ones in the order of their deaths.
    A step that is put back to work is no longer one of them."""
    grows: bool = False
    """Whether it is of a durable job, whose later runs add steps. These need no other steps."""


NO_STEPS = Plan(())
"""The plan of a row without one."""
