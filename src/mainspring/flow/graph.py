"""The graph of a plan: what each step needs, and which steps depend on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..records.job import NewJob
from ..records.plan import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Exists,
    FirstOf,
    IsTrue,
    KeptStep,
    ListOf,
    Not,
    ObjectOf,
    Operand,
    Plan,
    PlannedStep,
    ValueOf,
)

_NONE: Mapping[int, int] = {}


class StepDependencies:
    """What follows from the steps of a plan and from what it returns. It never changes."""

    def __init__(self, plan: Plan) -> None:
        steps = plan.steps
        self.steps, self.result = steps, plan.result
        # Those of a plan that grows need nothing, and it may grow a thousand times.
        nothing: list[list[Any]] | None = [[]] * len(steps) if plan.grows else None
        self.argument_steps = nothing or [_steps_of(_arguments(step)) for step in steps]
        """The steps whose values a step gets as arguments, or maps over."""
        condition_values = nothing or [[] if step.when is None else list(values_in(step.when)) for step in steps]
        self.value_steps = [
            sorted({*self.argument_steps[n], *(value.step for value in values)}) if values else self.argument_steps[n]
            for n, values in enumerate(condition_values)
        ]
        """The steps whose values a step needs to be released."""
        self.needs = [
            sorted({*self.value_steps[n], *step.after}) if step.after else self.value_steps[n]
            for n, step in enumerate(steps)
        ]
        self.dependents: list[list[int]] = [[] for _ in steps]
        for n, needs in enumerate(self.needs):
            for need in needs:
                self.dependents[need].append(n)
        self.value_readers: list[list[int]] = [[] for _ in steps]
        for n, sources in enumerate(self.value_steps):
            for source in sources:
                self.value_readers[source].append(n)
        """The steps that need a step's value to be released."""
        self.required = nothing or [_required(step) for step in steps]
        """The operands without which a step is skipped: arguments that do not accept None, and what a map is over."""
        self.sources = _sources(steps)
        """Of each map over a task that yields: the step of that task."""
        self.yielders = _yielders(self.sources, self.needs)
        self.open_steps = tuple(n for n, step in enumerate(steps) if step.open_seconds is not None)
        """The steps whose items are added from outside: the jobs of a batch."""
        self.decided_after = _decided_after(self.dependents, self.yielders)
        """The steps that are decided again when the status of a step changes."""
        self.result_steps = frozenset(_steps_of([] if plan.result is None else [plan.result]))
        self.needed_steps = frozenset(range(len(steps))) if plan.grows else self.result_steps.union(*self.value_steps)
        """The steps whose value is read by another step or a durable job, or is part of the flow's result."""
        self.signals = {step.name: n for n, step in enumerate(steps) if step.signal is not None}
        """The steps that are signals, by name."""
        self.condition_paths: Mapping[int, list[ValueOf]] = _by_step(condition_values)
        """What conditions read of each step's value."""
        self.is_kept = False
        """Whether further plans of this shape share these."""
        self.is_checked = False
        """Whether a plan of this shape was found to be sound: see planner.checked_plan()."""
        self.first_jobs: dict[int, NewJob] = {}
        """What the jobs of each step have in common, as far as it was needed: see job_template.first_job()."""


class Yielder(Struct, frozen=True):
    """A step whose task yields. It begins when its maps can, and they begin with it."""

    maps: tuple[int, ...]
    awaited: tuple[int, ...]
    """What its maps need, and itself does not."""


def _sources(steps: Sequence[PlannedStep]) -> Mapping[int, int]:
    yielding = {n for n, step in enumerate(steps) if step.yields}
    if not yielding:
        return _NONE
    return {
        n: step.over.step
        for n, step in enumerate(steps)
        if isinstance(step.over, ValueOf) and step.over.step in yielding
    }


def _yielders(sources: Mapping[int, int], needs: Sequence[Sequence[int]]) -> Mapping[int, Yielder]:
    found: dict[int, list[int]] = {}
    for n, source in sources.items():
        found.setdefault(source, []).append(n)
    return {
        source: Yielder(
            tuple(maps), tuple(sorted({need for n in maps for need in needs[n]} - {source, *needs[source]}))
        )
        for source, maps in found.items()
    }


def _decided_after(dependents: list[list[int]], yielders: Mapping[int, Yielder]) -> list[list[int]]:
    if not yielders:
        return dependents
    found = list(map(list, dependents))
    for source, yielder in yielders.items():
        for need in yielder.awaited:
            found[need].append(source)
    return found


# Flows of one function mostly have the same steps and differ in their inputs: dependencies are computed once.
MAX_KEPT_DEPENDENCIES = 500
# Of larger plans they are computed each time.
MAX_KEPT_SHAPE_BYTES = 20_000
# By the JSON of the steps and of the result.
_kept: dict[bytes, StepDependencies] = {}
_encode = msgspec.json.Encoder().encode
_decode_plan = msgspec.json.Decoder(Plan).decode


def known_dependencies(plan: Plan) -> StepDependencies | None:
    """Those of another plan with these steps and this result, if there was one lately."""
    return _kept.get(_shape_of(plan))


def _shape_of(plan: Plan) -> bytes:
    return _shape(_encode(plan.steps), b"" if plan.result is None else _encode(plan.result))


def _dependencies_of(plan: Plan) -> StepDependencies:
    if plan.grows:  # no other plan has its shape, and it has another one soon
        return StepDependencies(plan)
    shape = _shape_of(plan)
    found = _kept.get(shape)
    if found is None:
        found = StepDependencies(plan)
        if len(_kept) >= MAX_KEPT_DEPENDENCIES:
            _kept.clear()
        if len(shape) <= MAX_KEPT_SHAPE_BYTES:
            _kept[shape], found.is_kept = found, True
    return found


def _shape(steps: bytes, result: bytes) -> bytes:
    return b"%b %b" % (steps, result)


class _PlanText(Struct):
    """A plan in JSON whose steps and result stay as they are written."""

    steps: msgspec.Raw
    inputs: tuple[str, ...] = ()
    result: msgspec.Raw = msgspec.Raw()
    fail_fast: bool = False
    metadata: Mapping[str, str] = {}
    timeout: float | None = None
    kept: Mapping[int, KeptStep] = {}
    grows: bool = False


_decode_parts = msgspec.json.Decoder(_PlanText).decode


def read_graph(text: str | bytes) -> Graph:
    """The graph of a plan in JSON. Steps that are known are not decoded again."""
    parts = _decode_parts(text)
    known = None if parts.grows else _kept.get(_shape(bytes(parts.steps), bytes(parts.result)))
    if known is None:
        return Graph(_decode_plan(text))
    plan = Plan(known.steps, parts.inputs, known.result, parts.fail_fast, parts.metadata, parts.timeout, parts.kept)
    return Graph(plan, known)


class Graph:
    """A plan with the dependencies of its steps."""

    __slots__ = (
        "argument_steps",
        "condition_paths",
        "decided_after",
        "dependencies",
        "dependents",
        "first_jobs",
        "needed_steps",
        "needs",
        "open_steps",
        "plan",
        "required",
        "result_steps",
        "signals",
        "sources",
        "steps",
        "value_readers",
        "value_steps",
        "yielders",
    )

    def __init__(self, plan: Plan, dependencies: StepDependencies | None = None) -> None:
        """`dependencies` are those of the plan; None: they are looked up, or computed."""
        found = _dependencies_of(plan) if dependencies is None else dependencies
        # Flows of a shape share the steps.
        self.plan = plan if plan.steps is found.steps else replace(plan, steps=found.steps, result=found.result)
        self.dependencies, self.steps = found, found.steps
        self.argument_steps, self.value_steps = found.argument_steps, found.value_steps
        self.needs, self.dependents = found.needs, found.dependents
        self.result_steps, self.needed_steps = found.result_steps, found.needed_steps
        self.condition_paths = found.condition_paths
        self.value_readers, self.required, self.first_jobs = found.value_readers, found.required, found.first_jobs
        self.sources, self.yielders, self.decided_after = found.sources, found.yielders, found.decided_after
        self.signals = found.signals
        self.open_steps = found.open_steps


def behind(graph: Graph, steps: Collection[int], continued: Collection[int] = ()) -> set[int]:
    """The steps that depend on these, directly or not. Maps that are `continued` do not depend on their source."""
    found: set[int] = set()
    todo = list(steps)
    while todo:
        one = todo.pop()
        for n in graph.dependents[one]:
            if n not in found and not (n in continued and graph.sources[n] == one):
                found.add(n)
                todo.append(n)
    return found


def extract_key(value: ValueOf) -> str:
    """The name of an operand in Flow.extracts."""
    return msgspec.json.encode((value.step, *value.path)).decode()


def _by_step(values: list[list[ValueOf]]) -> dict[int, list[ValueOf]]:
    found: dict[int, dict[str, ValueOf]] = {}
    for value in (value for some in values for value in some):
        found.setdefault(value.step, {})[extract_key(value)] = value
    return {step: list(some.values()) for step, some in found.items()}


def _arguments(step: PlannedStep) -> list[Operand]:
    return [*step.args.values(), *([] if step.over is None else [step.over])]


def _required(step: PlannedStep) -> list[Operand]:
    required = [operand for name, operand in step.args.items() if name not in step.accepts_none]
    return required if step.over is None else [*required, step.over]


def _steps_of(operands: list[Operand]) -> list[int]:
    return sorted({value.step for operand in operands for value in values_of(operand)})


def values_of(operand: Operand) -> Iterator[ValueOf]:
    """The values of steps that an operand is made of."""
    match operand:
        case ValueOf():
            yield operand
        case FirstOf(operands=several) | ListOf(items=several):
            for one in several:
                yield from values_of(one)
        case ObjectOf(fields=fields):
            for one in fields.values():
                yield from values_of(one)


def values_in(condition: Condition) -> Iterator[ValueOf]:
    """The values of steps that a condition reads."""
    match condition:
        case Compare(left=left, right=right):
            yield from values_of(left)
            yield from values_of(right)
        case IsTrue(operand=operand) | Exists(operand=operand):
            yield from values_of(operand)
        case Not(condition=inner):
            yield from values_in(inner)
        case AllOf(conditions=several) | AnyOf(conditions=several):
            for one in several:
                yield from values_in(one)
