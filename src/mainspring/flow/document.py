"""Plans as readable JSON: steps by name, values of steps as {"$step": "charge", "path": ["ok"]}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET, Struct

from ..codec import encode, too_deep
from ..errors import BadFlow, BadInput, BadPayload
from ..records.limit import AT_ONCE, group_key, limit_name
from ..records.plan import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Exists,
    FirstOf,
    Input,
    IsTrue,
    ListOf,
    Not,
    ObjectOf,
    On,
    Operand,
    Plan,
    PlannedStep,
    SignalStep,
    StepOptions,
    ValueOf,
)
from ..retry import Backoff
from ..suggest import did_you_mean
from .builder import PlanBuilder, task_of
from .planner import checked_plan
from .signal_call import MAX_SCHEMA_BYTES, add_signal
from .steps import add_call, item_parameter, naming
from .values import Value, When, YieldedItems, first

if TYPE_CHECKING:
    from ..app import Mainspring

MAX_DOCUMENT_BYTES = 8 << 20
MAX_DOCUMENT_DEPTH = 60
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_OPERATORS = (*_COMPARISONS, "and", "or", "not", "exists")
_VALUES = ("$step", "$first", "$literal")
_OF_TASKS = ("task", "args", "map", "when", "on", "optional", "failed_ratio", "options")
_OPTIONS = (*(name for name in StepOptions.__struct_fields__ if name != "fingerprint"), "at_once")


class MapDocument(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The list that a step maps over."""

    over: Any
    item: str = ""
    """The parameter that receives the item; the first one if it is empty."""


class SignalDocument(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What makes a step a signal, whose value is given from outside."""

    timeout: float | None = None
    """Seconds from the end of what it needs."""
    default: Any = UNSET
    """Its value after the timeout; without one it is dead then."""
    schema: dict[str, Any] | None = None
    """The JSON schema of its values."""


class StepDocument(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step of a plan as readable JSON."""

    name: str
    task: str = ""
    """Empty if it is a signal."""
    signal: SignalDocument | None = None
    args: dict[str, Any] = {}
    map: MapDocument | None = None
    after: list[str] = []
    when: Any = None
    on: On = "success"
    optional: bool = False
    failed_ratio: float = 0
    options: dict[str, Any] = {}


_PLAIN_STEP = StepDocument(name="")


class PlanDocument(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plan as readable JSON."""

    name: str = "flow"
    steps: list[StepDocument]
    result: Any = None
    fail_fast: bool = False


# reading


def plan_from_document(data: bytes | str | Mapping[str, Any], app: Mainspring) -> Plan:
    """The plan of a document, as JSON or decoded. Raises BadFlow that names what is wrong."""
    return builder_from_document(data, app).plan()


def builder_from_document(
    data: bytes | str | Mapping[str, Any], app: Mainspring, options: Mapping[str, Any] = {}
) -> PlanBuilder:
    """The plan of a document, to be enqueued. `options` are those of the flow's job."""
    document = _decoded(data)
    builder = PlanBuilder(app, document.name, document.fail_fast, options)
    reader = _Reader(builder)
    for step in _in_order(document.steps):
        with naming(f"step {step.name!r}"):
            reader.add(step, app)
    if document.result is not None:
        with naming("the result"):
            builder.returns(reader.value(document.result))
    return builder


def _decoded(data: bytes | str | Mapping[str, Any]) -> PlanDocument:
    try:
        text = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else encode(data)
        if len(text) > MAX_DOCUMENT_BYTES:
            raise BadFlow(f"a plan has at most {MAX_DOCUMENT_BYTES:,} bytes as JSON, got {len(text):,}")
        if too_deep(text, MAX_DOCUMENT_DEPTH):
            raise BadFlow(f"a plan is nested at most {MAX_DOCUMENT_DEPTH} levels deep")
        return msgspec.json.decode(text, type=PlanDocument)
    except (msgspec.DecodeError, UnicodeEncodeError, BadPayload) as bad:
        raise BadFlow(f"the plan cannot be read: {bad}") from None


def _in_order(steps: list[StepDocument]) -> list[StepDocument]:
    """The steps, each after those that it needs. Raises BadFlow for unknown and duplicate names, for circles, and if
    there are no steps: a function may plan none, but a written plan of nothing is a mistake."""
    if not steps:
        raise BadFlow("a plan has at least one step")
    number = {step.name: n for n, step in enumerate(steps)}
    plain = [PlannedStep(step.name, step.name, after=tuple(_needs(step, number))) for step in steps]
    by_name = {step.name: step for step in steps}
    return [by_name[step.name] for step in checked_plan(Plan(tuple(plain))).steps]


def _needs(step: StepDocument, number: Mapping[str, int]) -> Iterator[int]:
    parts = [step.args, step.when, None if step.map is None else step.map.over]
    for name in dict.fromkeys([*step.after, *(name for part in parts for name in _named_in(part))]):
        if name not in number:
            raise BadFlow(f"step {step.name!r} needs step {name!r}, and there is none; {did_you_mean(name, number)}")
        yield number[name]


def _named_in(part: Any) -> Iterator[str]:
    """The names of the steps whose values a part of a document has."""
    match part:
        case {"$literal": _}:
            return
        case {"$step": str(name)}:
            yield name
        case dict():
            for one in part.values():
                yield from _named_in(one)
        case list():
            for one in part:
                yield from _named_in(one)


class _Reader:
    """Makes values of steps from the document's, and adds its steps to the builder."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._planner = builder.planner
        self._values: dict[str, Value | YieldedItems] = {}

    def add(self, step: StepDocument, app: Mainspring) -> None:
        if step.signal is not None:
            self._values[step.name] = self._signal(step, step.signal)
            return
        if not step.task:
            raise BadFlow("it has neither a task nor a signal")
        given = {"step": step.name, "on": step.on, "optional": step.optional, "failed_ratio": step.failed_ratio}
        given["after"] = [self._step(name) for name in step.after]
        if step.when is not None:
            given["when"] = When(self._planner, self._condition(step.when))
        task = task_of(app, step.task).using(**_options(step.options), **given)  # type: ignore[arg-type]
        over, item = None, ""
        if step.map is not None:
            over, item = self.value(step.map.over), step.map.item or item_parameter(task)
        args = {name: self.value(value) for name, value in step.args.items()}
        rest = {name: args.pop(name) for name in [task.arguments.rest] if name in args}
        arguments = task.arguments.bind((), args) | rest
        if item and (item not in task.arguments.types or item in arguments):
            raise BadFlow(f"map.item names a parameter that has no argument: task {task.name!r} takes none as {item!r}")
        self._values[step.name] = add_call(self._planner, task, arguments, over, item)

    def _signal(self, step: StepDocument, signal: SignalDocument) -> Value:
        if others := [name for name in _OF_TASKS if getattr(step, name) != getattr(_PLAIN_STEP, name)]:
            raise BadFlow(f"a signal has no {others[0]!r}: only a name, a timeout, a default, a schema and after")
        schema = "" if signal.schema is None else encode(signal.schema).decode()
        if len(schema) > MAX_SCHEMA_BYTES:
            raise BadFlow(f"the schema of a signal has at most {MAX_SCHEMA_BYTES:,} bytes")
        after = [self._step(name) for name in step.after]
        default, planner = signal.default, self._planner
        found: Value = add_signal(
            planner, step.name, timeout=signal.timeout, default=default, after=after, schema=schema
        )
        return found

    def _step(self, name: str) -> Value | YieldedItems:
        if name not in self._values:
            raise BadFlow(f"there is no step {name!r}; {did_you_mean(name, self._values)}")
        return self._values[name]

    def value(self, given: Any) -> Any:
        """The value of a part of a document: with values of steps where the document names them."""
        match given:
            case {"$literal": literal, **others} if not others:
                return literal
            case {"$step": str(name), **others} if not others.keys() - {"path"}:
                found: Any = self._step(name)
                for part in _path(others.get("path", [])):
                    found = found[part]
                return found
            case {"$first": list(values), **others} if not others:
                return first(*map(self.value, values))
            case dict():
                if bad := [name for name in given if name.startswith("$")]:
                    _refuse_value(bad[0], given)
                return {name: self.value(one) for name, one in given.items()}
            case list():
                return [self.value(one) for one in given]
        return given

    def _condition(self, given: Any) -> Condition:
        match given:
            case {"$step": _} | {"$first": _}:
                return IsTrue(self._planner.operand(self.value(given)))
            case dict() if len(given) == 1:
                ((operator, operands),) = given.items()
                return self._operation(operator, operands)
        raise BadFlow(f"a condition is an object with one operator ({', '.join(_OPERATORS)}), got {given!r:.80}")

    def _operation(self, operator: str, operands: Any) -> Condition:
        match operator, operands:
            case (("and" | "or"), [_, *_]):
                several = tuple(map(self._condition, operands))
                return AllOf(several) if operator == "and" else AnyOf(several)
            case "not", _:
                return Not(self._condition(operands))
            case "exists", _:
                return Exists(self._planner.operand(self.value(operands)))
            case _, [left, right] if operator in _COMPARISONS:
                return Compare(operator, *(self._planner.operand(self.value(one)) for one in (left, right)))  # type: ignore[arg-type]
        if operator in _OPERATORS:
            takes = "a list of conditions" if operator in ("and", "or") else "a list of two values"
            raise BadFlow(f"operator {operator!r} takes {takes}, got {operands!r:.80}")
        raise BadFlow(f"there is no operator {operator!r}; {did_you_mean(operator, _OPERATORS)}")


def _path(given: Any) -> list[str | int]:
    if not isinstance(given, list) or not all(type(part) in (str, int) for part in given):
        raise BadFlow(f"a path is a list of names and numbers, got {given!r:.80}")
    return given


def _refuse_value(name: str, given: Any) -> NoReturn:
    if name in _VALUES:
        raise BadFlow(
            f'a value is {{"$step": name, "path": […]}}, {{"$first": [two or more]}} or {{"$literal": any}}, '
            f"got {given!r:.80}"
        )
    raise BadFlow(
        f"there is no value {name!r}; {did_you_mean(name, _VALUES)} An object with such a name is written as $literal"
    )


def limit_options(limit_key: str) -> dict[str, Any]:
    """The options of using() that give a step's jobs this limit_key."""
    name, key = limit_name(limit_key), group_key(limit_key)
    if name.startswith(AT_ONCE):
        return {"at_once": int(name[len(AT_ONCE) :])}
    return {"limit_key": key} if key else {}


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in given if name not in _OPTIONS]:
        raise BadFlow(f"a step has no option {unknown[0]!r}; {did_you_mean(unknown[0], _OPTIONS)}")
    return {**given, **({"backoff": _backoff(given["backoff"])} if "backoff" in given else {})}


def _backoff(given: Any) -> Backoff:
    known = Backoff.__struct_fields__
    if isinstance(given, dict) and (unknown := [name for name in given if name not in known]):
        raise BadFlow(f"option backoff has no field {unknown[0]!r}; {did_you_mean(unknown[0], known)}")
    try:
        return msgspec.convert(given, Backoff)
    except (msgspec.ValidationError, BadInput) as bad:
        raise BadFlow(f"option backoff: {bad}") from None


# writing


def document_of(plan: Plan, name: str = "flow") -> dict[str, Any]:
    """The plan as readable JSON, decoded."""
    writer = _Writer(plan)
    steps = [writer.step(step) for step in plan.steps]
    result = None if plan.result is None else writer.value(plan.result)
    document = PlanDocument(name=name, steps=steps, result=result, fail_fast=plan.fail_fast)
    found: dict[str, Any] = msgspec.to_builtins(document)
    return found


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self._names = [step.name for step in plan.steps]
        self._inputs = plan.inputs

    def step(self, step: PlannedStep) -> StepDocument:
        if step.signal is not None:
            return StepDocument(
                name=step.name, signal=self._signal(step.signal), after=[self._names[n] for n in step.after]
            )
        mapped = None if step.over is None else MapDocument(over=self.value(step.over), item=step.item)
        options = msgspec.to_builtins(step.options)
        if step.options.limit_key is not None:
            options |= limit_options(options.pop("limit_key"))
        return StepDocument(
            name=step.name,
            task=step.task,
            args={name: self.value(operand) for name, operand in step.args.items()},
            map=mapped,
            after=[self._names[n] for n in step.after],
            when=None if step.when is None else self._condition(step.when),
            on=step.on,
            optional=step.optional,
            failed_ratio=step.failed_ratio or 0,
            options={name: value for name, value in options.items() if name in _OPTIONS},
        )

    def _signal(self, signal: SignalStep) -> SignalDocument:
        default: Any = UNSET
        if isinstance(signal.default, Input):
            default = msgspec.json.decode(self._inputs[signal.default.n])
        schema = msgspec.json.decode(signal.schema) if signal.schema else None
        return SignalDocument(timeout=signal.timeout, default=default, schema=schema)

    def value(self, operand: Operand) -> Any:
        match operand:
            case Input(n=n):
                literal = msgspec.json.decode(self._inputs[n])
                return {"$literal": literal} if _has_dollar(literal) else literal
            case ValueOf(step=n, path=path):
                return {"$step": self._names[n], **({"path": list(path)} if path else {})}
            case FirstOf(operands=several):
                return {"$first": [self.value(one) for one in several]}
            case ListOf(items=items):
                return [self.value(one) for one in items]
            case ObjectOf(fields=fields):
                if bad := [name for name in fields if name.startswith("$")]:
                    raise BadFlow(f"an object with the name {bad[0]!r} and values of steps has no readable form")
                return {name: self.value(one) for name, one in fields.items()}

    def _condition(self, condition: Condition) -> Any:
        match condition:
            case Compare(op=op, left=left, right=right):
                return {op: [self.value(left), self.value(right)]}
            case IsTrue(operand=operand):
                return self.value(operand)
            case Exists(operand=operand):
                return {"exists": self.value(operand)}
            case Not(condition=inner):
                return {"not": self._condition(inner)}
            case AllOf(conditions=several):
                return {"and": [self._condition(one) for one in several]}
            case AnyOf(conditions=several):
                return {"or": [self._condition(one) for one in several]}


def _has_dollar(literal: Any) -> bool:
    """Whether a literal has a name that a document would read as a value of a step."""
    match literal:
        case dict():
            return any(name.startswith("$") or _has_dollar(one) for name, one in literal.items())
        case list():
            return any(map(_has_dollar, literal))
    return False
