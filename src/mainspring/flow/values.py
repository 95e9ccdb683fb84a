"""Values of steps while a flow is planned: they are not known yet, so they can be passed on, and compared in `when`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from ..errors import BadFlow
from ..records.plan import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Exists,
    FirstOf,
    IsTrue,
    ListOf,
    Not,
    ObjectOf,
    Operand,
    ValueOf,
)
from .json_types import union_of
from .wiring import part_of

if TYPE_CHECKING:
    from .planner import Planner

# Lists and objects with values of steps inside each other, and conditions inside conditions.
MAX_NESTING_DEPTH = 50

T = TypeVar("T")


class NeedsInput(BadFlow):
    """The steps of a flow depend on its input, and it is planned without one."""


class Unknown:
    """What is not known while the flow is planned. Python may not look at it."""

    __slots__ = ()

    def _refuse(self, what: str) -> NoReturn:
        raise BadFlow(f"{self!r} is not known while the flow is planned, so {what}")

    def __bool__(self) -> NoReturn:
        self._refuse("`if` cannot decide on it: use when=, or decide in a task")

    def __iter__(self) -> NoReturn:
        self._refuse("it cannot be looped over: use .map() of a task")

    def __len__(self) -> NoReturn:
        self._refuse("it has no length: ask in a task")

    def __contains__(self, item: object) -> NoReturn:
        self._refuse("`in` cannot decide on it: write in_(value, values) in when=")

    def __format__(self, spec: str) -> NoReturn:
        self._refuse("it cannot be part of a text: make the text in a task")

    def __str__(self) -> NoReturn:
        self._refuse("it cannot be part of a text: make the text in a task")

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse("it has no methods: call them in a task")

    def _compute(self, *others: object) -> NoReturn:
        self._refuse("nothing can be computed from it: compute in a task")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _compute
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _compute
    __int__ = __float__ = __index__ = __round__ = _compute

    def model_dump(self, **_: object) -> NoReturn:
        """Called by the codec if the value is inside an object that becomes JSON."""
        self._refuse("it cannot be a part of an object: pass it as an argument of its own, or in a list or a dict")


class When(Unknown):
    """A condition. `&` and `|` combine two, not_() turns one round."""

    __slots__ = ("_condition", "_planner")

    def __init__(self, planner: Planner, condition: Condition) -> None:
        self._planner, self._condition = planner, condition

    def __repr__(self) -> str:
        return "a condition"

    def __and__(self, other: object) -> When:
        return When(self._planner, all_of(self._condition, condition_of(self._planner, other)))

    def __rand__(self, other: object) -> When:
        return When(self._planner, all_of(condition_of(self._planner, other), self._condition))

    def __or__(self, other: object) -> When:
        return When(self._planner, any_of(self._condition, condition_of(self._planner, other)))

    def __ror__(self, other: object) -> When:
        return When(self._planner, any_of(condition_of(self._planner, other), self._condition))


class Value(Unknown):
    """The result of a step, or a part of it. It goes where its type goes: into other steps, `when` and `return`."""

    __slots__ = ("_name", "_operand", "_planner", "_type")

    def __init__(self, planner: Planner, operand: Operand, name: str, type: Any = Any) -> None:
        """`type` is the annotation of the value; Any if it is not known."""
        self._planner, self._operand, self._name, self._type = planner, operand, name, type

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._part(name, f"{self._name}.{name}", attribute=True)

    def __getitem__(self, key: str | int) -> Value:
        if type(key) not in (str, int):
            raise BadFlow(f"{self!r}[…] takes a text or a number that is known now, got {key!r:.80}")
        return self._part(key, f"{self._name}[{key!r}]", attribute=False)

    def _part(self, key: str | int, name: str, *, attribute: bool) -> Value:
        if not isinstance(self._operand, ValueOf):
            raise BadFlow(f"{name}: take the part of each value, then first() of these")
        if self._planner.is_map(self._operand.step):
            raise BadFlow(f"{name}: the items of a map are not known while the flow is planned; pass {self._name} on")
        try:
            part = part_of(self._type, key, attribute=attribute)
        except BadFlow as bad:
            raise BadFlow(f"{name}: {bad}") from None
        return Value(self._planner, ValueOf(self._operand.step, (*self._operand.path, part.key)), name, part.type)

    def _compare(self, op: Any, other: object) -> When:
        return When(self._planner, Compare(op, self._planner.operand(self), self._planner.operand(other)))

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: object) -> When:
        return self._compare("<", other)

    def __le__(self, other: object) -> When:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> When:
        return self._compare(">", other)

    def __ge__(self, other: object) -> When:
        return self._compare(">=", other)

    def __and__(self, other: object) -> When:
        return self._when() & other

    def __rand__(self, other: object) -> When:
        return self._when().__rand__(other)

    def __or__(self, other: object) -> When:
        return self._when() | other

    def __ror__(self, other: object) -> When:
        return self._when().__ror__(other)

    def _when(self) -> When:
        return When(self._planner, IsTrue(self._operand))

    def __hash__(self) -> int:
        return id(self)


class YieldedItems(Unknown):
    """The items that the task of a step yields. Only a map takes them."""

    __slots__ = ("_name", "_operand", "_planner", "_type")

    def __init__(self, planner: Planner, operand: Operand, name: str, type: Any = Any) -> None:
        self._planner, self._operand, self._name, self._type = planner, operand, name, type

    def __repr__(self) -> str:
        return self._name

    def _refuse(self, what: str) -> NoReturn:
        raise BadFlow(f"{self!r} yields its items one by one, and only a map takes them: pass it to .map() of a task")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse(name)

    __getitem__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = Unknown._compute
    __and__ = __rand__ = __or__ = __ror__ = Unknown._compute
    __hash__ = Unknown.__hash__


def condition_of(planner: Planner, given: object) -> Condition:
    """The condition that `when` takes: a comparison, or a value that has to be true."""
    if isinstance(given, When | Value) and given._planner is not planner:
        raise BadFlow(f"the condition has {given!r}, which is of another flow")
    if isinstance(given, When):
        return given._condition
    if isinstance(given, Value):
        return IsTrue(given._operand)
    raise BadFlow(f"a condition compares values of steps, such as check.score >= 80; got {given!r:.80}")


def all_of(left: Condition, right: Condition) -> AllOf:
    """Both conditions. A chain of them is one list, so that it may be long."""
    return AllOf((*(left.conditions if isinstance(left, AllOf) else (left,)), right))


def any_of(left: Condition, right: Condition) -> AnyOf:
    return AnyOf((*(left.conditions if isinstance(left, AnyOf) else (left,)), right))


def shallow(condition: Condition) -> Condition:
    """The condition. Raises BadFlow if it is nested too deeply to be stored."""
    level: list[Condition] = [condition]
    for _ in range(MAX_NESTING_DEPTH):
        level = [inner for one in level for inner in _inner(one)]
        if not level:
            return condition
    raise BadFlow(f"conditions are nested at most {MAX_NESTING_DEPTH} levels deep: compute this one in a task")


def _inner(condition: Condition) -> Sequence[Condition]:
    match condition:
        case AllOf(conditions=several) | AnyOf(conditions=several):
            return several
        case Not(condition=one):
            return (one,)
    return ()


def not_(condition: Any) -> Any:
    """The opposite of a condition, or of a value: `when=not_(check.ok)`."""
    if not isinstance(condition, When | Value):
        raise BadFlow(f"not_() takes a condition on values of steps, or such a value; got {condition!r:.80}")
    return When(condition._planner, Not(condition_of(condition._planner, condition)))


def in_(value: Any, values: Any) -> Any:
    """Whether a value is one of several: `when=in_(check.kind, ["gold", "silver"])`. One of the two is a step's."""
    planner = next((one._planner for one in (value, values) if isinstance(one, Value)), None)
    if planner is None:
        raise BadFlow("in_() compares values of steps: neither of the two is one")
    return When(planner, Compare("in", planner.operand(value), planner.operand(values)))


def exists(value: Any) -> Any:
    """Whether a step has completed with a value that is not None."""
    if not isinstance(value, Value):
        raise BadFlow(f"exists() takes the value of a step, got {value!r:.80}")
    return When(value._planner, Exists(value._operand))


def first(*values: T) -> T:
    """The first of these values whose step completed: `return first(main, fallback)`."""
    found = [value for value in values if isinstance(value, Value)]
    if len(found) < 2 or len(found) < len(values):
        raise BadFlow("first() takes two or more values of steps")
    planner = found[0]._planner
    if any(value._planner is not planner for value in found):
        raise BadFlow("first() takes values of one flow: one of these is of another")
    name, operand = f"first({', '.join(map(repr, found))})", FirstOf(tuple(value._operand for value in found))
    return cast("T", Value(planner, operand, name, union_of(value._type for value in found)))


def operand_of(planner: Planner, given: Any, depth: int = 0) -> Operand | None:
    """The operand of an argument that is, or contains, values of steps; None if it contains none."""
    found = _operand_of(planner, given, depth)
    if found is not None and depth > MAX_NESTING_DEPTH:
        raise BadFlow(f"a value of a step is passed at most {MAX_NESTING_DEPTH} levels deep in lists and dicts")
    return found


def _operand_of(planner: Planner, given: Any, depth: int) -> Operand | None:
    match given:
        case Value():
            if given._planner is not planner:
                raise BadFlow(f"{given!r} is a value of another flow")
            return given._operand
        case YieldedItems() if planner is not given._planner:
            raise BadFlow(f"{given!r} yields the items of another flow")
        case YieldedItems():
            given._refuse("as an argument")
        case When():
            raise BadFlow("a condition belongs into when=: pass the values, and compare them in the task")
        case list() | tuple():
            found = [operand_of(planner, item, depth + 1) for item in given]
            if not any(found):
                return None
            return ListOf(tuple(one or planner.literal(item) for one, item in zip(found, given, strict=True)))
        case dict():
            fields = {name: operand_of(planner, item, depth + 1) for name, item in given.items()}
            if not any(fields.values()):
                return None
            if not all(isinstance(name, str) for name in fields):
                raise BadFlow("a dict with values of steps has text as keys")
            return ObjectOf({name: one or planner.literal(given[name]) for name, one in fields.items()})
    return None
