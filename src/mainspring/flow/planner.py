"""The planner: collects the steps that a flow's function calls, and makes a plan of them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..codec import encode
from ..errors import BadFlow
from ..records.plan import MAX_STEPS, Input, On, Operand, Plan, PlannedStep, SignalStep, StepOptions, ValueOf
from .graph import Graph, known_dependencies, values_of
from .renumber import renumbered
from .values import Value, YieldedItems, condition_of, operand_of, shallow

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..task.task import Task

# All values of a plan that are known when it is made.
MAX_INPUT_BYTES = 1 << 20
# A plan as it is stored.
MAX_PLAN_BYTES = 16 << 20
# Values of steps that all steps together receive.
MAX_OPERANDS_COUNT = 200_000
# Steps of a circle that an error names.
MAX_SHOWN_NAMES = 20


class StepCall(Struct, frozen=True, kw_only=True):
    """A call of a task inside a flow, with the options that only steps have."""

    task: str
    arguments: Mapping[str, Any]
    """By parameter; values of steps among them."""
    accepts_none: Sequence[str] = ()
    step: str | None = None
    after: Sequence[Any] = ()
    when: Any = None
    on: On = "success"
    optional: bool = False
    over: Any = None
    """The list that is mapped over."""
    item: str = ""
    failed_ratio: float = 0.0
    yields: bool = False
    options: StepOptions = StepOptions()
    result: Any = Any
    """The annotation of its value."""


class Planner:
    """The steps of one flow while it is planned."""

    def __init__(self, app: Mainspring | None = None) -> None:
        """`app` is the app of all tasks; None: any."""
        self.app = app
        self._steps: list[PlannedStep] = []
        self._names: dict[str, int] = {}
        self._last_numbers: dict[str, int] = {}
        """Of the steps that are named after their task."""
        self._inputs: dict[str, int] = {}
        self._bytes = 0
        self._operands = 0
        self.signal_types: dict[str, Any] = {}
        """The types of its signals, by name."""

    def is_map(self, n: int) -> bool:
        return self._steps[n].over is not None

    # values

    def literal(self, given: Any) -> Operand:
        return self.literal_text(encode(given).decode())

    def literal_text(self, text: str) -> Operand:
        """A value that is known now, as JSON."""
        if text not in self._inputs:
            self._bytes += len(text)
            if self._bytes > MAX_INPUT_BYTES:
                raise BadFlow(
                    f"the values that are passed to the steps exceed {MAX_INPUT_BYTES:,} bytes: keep big data "
                    "elsewhere and pass its name, or read it in a step"
                )
        return Input(self._inputs.setdefault(text, len(self._inputs)))

    def operand(self, given: Any) -> Operand:
        found = operand_of(self, given) or self.literal(given)
        self._count(found)
        return found

    def _count(self, operand: Operand) -> None:
        self._operands += 1 if isinstance(operand, ValueOf) else sum(1 for _ in values_of(operand))
        if self._operands > MAX_OPERANDS_COUNT:
            raise BadFlow(
                f"the steps receive more than {MAX_OPERANDS_COUNT:,} values of other steps: make these steps a map, "
                "whose results are one value"
            )

    # steps

    def add(self, call: StepCall) -> Value | YieldedItems:
        """Adds the call as a step, and returns the value that it will have."""
        self._check_room()
        name = self._name(call)
        step = PlannedStep(
            name=name,
            task=call.task,
            args={key: self.operand(value) for key, value in call.arguments.items()},
            accepts_none=tuple(call.accepts_none),
            after=tuple(dict.fromkeys(self._step_of(one, name) for one in _several(call.after))),
            when=None if call.when is None else shallow(condition_of(self, call.when)),
            on=call.on,
            optional=call.optional,
            over=None if call.item == "" else self._over(call.over),
            item=call.item,
            failed_ratio=call.failed_ratio or 0.0,
            yields=call.yields,
            options=call.options,
        )
        self._steps.append(step)
        self._names[name] = n = len(self._steps) - 1
        if call.step is None:
            self._last_numbers[call.task] = self._numbered(call.task)[1] - 1
        return (YieldedItems if call.yields else Value)(self, ValueOf(n), name, call.result)

    def add_signal(self, name: str, signal: SignalStep, after: Any, result: Any) -> Value:
        """Adds a signal, and returns the value that it will have."""
        self._check_room()
        if name in self._names:
            raise BadFlow(f"two steps are named {name!r}: give one of them another name")
        needs = tuple(dict.fromkeys(self._step_of(one, name) for one in _several(after)))
        self._names[name] = n = len(self._steps)
        self._steps.append(PlannedStep(name, "", after=needs, signal=signal))
        return Value(self, ValueOf(n), name, result)

    def _check_room(self) -> None:
        if len(self._steps) >= MAX_STEPS:
            raise BadFlow(f"a flow has at most {MAX_STEPS:,} steps: make this one a map, or a flow in a step")

    def _over(self, given: Any) -> Operand:
        """What a map maps over."""
        if isinstance(given, YieldedItems) and given._planner is self:
            return given._operand
        return self.operand(given)

    def _name(self, call: StepCall) -> str:
        """The step's own name, or its task's with a number."""
        if call.step is not None:
            if call.step in self._names:
                raise BadFlow(f"two steps are named {call.step!r}: give one of them another name with using(step=…)")
            return call.step
        return self._numbered(call.task)[0]

    def next_name(self, task: Task[Any, Any]) -> str:
        """The name that the task's next step will have."""
        given = task.step_options
        return self._numbered(task.name)[0] if given is None or given.step is None else given.step

    def _numbered(self, task: str) -> tuple[str, int]:
        n = self._last_numbers.get(task, 0) + 1
        while (name := task if n == 1 else f"{task}-{n}") in self._names:
            n += 1
        return name, n

    def _step_of(self, given: Any, name: str) -> int:
        if isinstance(given, Value | YieldedItems) and isinstance(given._operand, ValueOf):
            if given._planner is not self:
                raise BadFlow(f"step {name!r}: after= has {given!r}, a value of another flow")
            return given._operand.step
        raise BadFlow(f"step {name!r}: after= takes values of other steps, got {given!r:.80}")

    def plan(self, result: Any = None, *, fail_fast: bool = False) -> Plan:
        """The plan, checked. `result` is what the flow returns."""
        operand = None if result is None else self.operand(result)
        graph = _checked_graph(Plan(tuple(self._steps), tuple(self._inputs), operand, fail_fast))
        plan = graph.plan
        if not graph.dependencies.is_kept and (size := len(msgspec.json.encode(plan))) > MAX_PLAN_BYTES:
            raise BadFlow(f"the plan has {size:,} bytes, at most {MAX_PLAN_BYTES:,} are stored: use fewer steps")
        return plan


_current: ContextVar[Planner | None] = ContextVar("mainspring_planner", default=None)


@contextmanager
def planning(app: Mainspring | None = None) -> Iterator[Planner]:
    """Calls of steps inside the block belong to the planner. All tasks are those of the app."""
    planner = Planner(app)
    token = _current.set(planner)
    try:
        yield planner
    finally:
        _current.reset(token)


def current_planner(call: str) -> Planner:
    planner = _current.get()
    if planner is None:
        raise BadFlow(f"{call} is called outside of a flow: call it in a function with @app.flow, or enqueue the task")
    return planner


def _several(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else (given,)


# checks


def checked_plan(plan: Plan) -> Plan:
    """The plan with each step after those that it needs. Raises BadFlow with the reason if it is none."""
    return _checked_graph(plan).plan


def _checked_graph(plan: Plan) -> Graph:
    if (known := known_dependencies(plan)) is not None and known.is_checked:
        return Graph(plan, known)
    if len(plan.steps) > MAX_STEPS:
        raise BadFlow(f"a flow has at most {MAX_STEPS:,} steps, this one has {len(plan.steps):,}")
    names = Counter(step.name for step in plan.steps)
    if twice := [name for name, count in names.items() if count > 1]:
        raise BadFlow(f"two steps are named {twice[0]!r}")
    _check_references(plan)
    graph = _sorted(Graph(plan))
    plan = graph.plan
    for n, step in enumerate(plan.steps):
        _check_step(plan, graph, n, step)
    graph.dependencies.is_checked = True
    return graph


def _check_references(plan: Plan) -> None:
    for step in plan.steps:
        found = [*step.after, *(value.step for operand in _operands(step) for value in values_of(operand))]
        if bad := [n for n in found if not 0 <= n < len(plan.steps)]:
            raise BadFlow(f"step {step.name!r} needs step {bad[0]}, and there is none of that number")


def _operands(step: PlannedStep) -> list[Operand]:
    return [*step.args.values(), *([] if step.over is None else [step.over])]


def _check_step(plan: Plan, graph: Graph, n: int, step: PlannedStep) -> None:
    if step.on != "success" and not graph.needs[n]:
        raise BadFlow(f"step {step.name!r} has on={step.on!r} and needs nothing that could end: name it in after=")
    if step.on != "success":
        for name, operand in step.args.items():
            if name not in step.accepts_none and any(True for _ in values_of(operand)):
                raise BadFlow(
                    f"step {step.name!r} runs with on={step.on!r}, when argument {name!r} may have no value: "
                    f"declare the parameter as `{name}: … | None`"
                )
    if step.yields and n not in graph.yielders:
        raise BadFlow(f"step {step.name!r}: its task yields items, and no map takes them: pass it to .map() of a task")
    if step.over is not None and graph.condition_paths.get(n):
        raise BadFlow(f"a condition reads the map {step.name!r}: its items are counted and read in a task")


def _sorted(graph: Graph) -> Graph:
    """The graph of the plan with each step after those that it needs; in the given order where that allows it."""
    plan = graph.plan
    missing = [len(needs) for needs in graph.needs]
    for n, yielder in graph.yielders.items():
        missing[n] += len(yielder.awaited)
    ready = [n for n, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        order.append(n := heapq.heappop(ready))
        for other in graph.decided_after[n]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, other)
    if len(order) < len(plan.steps):
        circle = _circle(plan, graph, set(order))
        names, yields = {step.name for step in plan.steps if step.yields}, ""
        if not names.isdisjoint(circle):
            yields = " (a task that yields begins when all of its maps can: let a step of its own yield items for one)"
        raise BadFlow(f"the steps need each other in a circle: {' -> '.join(circle)}{yields}")
    return graph if order == sorted(order) else Graph(renumbered(plan, order))


def _circle(plan: Plan, graph: Graph, sound: set[int]) -> list[str]:
    """The names of the steps of a circle, the first one again at its end."""
    path: dict[int, None] = {}
    n = next(n for n in range(len(plan.steps)) if n not in sound)
    while n not in path:
        path[n] = None
        awaited = graph.yielders[n].awaited if n in graph.yielders else ()
        n = next(need for need in (*graph.needs[n], *awaited) if need not in sound)
    walked = list(path)
    names = [plan.steps[one].name for one in reversed([*walked[walked.index(n) :], n])]
    shown = MAX_SHOWN_NAMES // 2
    return names if len(names) <= MAX_SHOWN_NAMES else [*names[:shown], "…", *names[-shown:]]
