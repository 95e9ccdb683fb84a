"""Arguments of steps, checked against the parameters of their tasks while the flow is planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..codec import encode, type_decoder
from ..errors import BadFlow
from ..records.plan import FirstOf, Operand, ValueOf
from .json_types import accepts_none, element_of, members, shown
from .planner import Planner
from .values import Unknown, Value, When, YieldedItems
from .wiring import is_assignable, part_of

if TYPE_CHECKING:
    from ..task.task import Task


def check_arguments(planner: Planner, task: Task[Any, Any], arguments: Mapping[str, Any], item: str = "") -> None:
    """Raises BadFlow for an argument that is missing, or that its parameter certainly does not take."""
    types = task.arguments.types
    if missing := [name for name in task.arguments.required if name not in arguments and name != item]:
        raise BadFlow(f"argument {missing[0]!r} of task {task.name!r} is missing")
    for name, given in arguments.items():
        wanted = types.get(name, task.arguments.extra_type)
        if name in task.arguments.item_types and given is not None:
            _check_results(planner, given, task.arguments.item_types[name], f"argument {name!r}")
        else:
            check_value(given, wanted, f"argument {name!r}")


def accepting_none(task: Task[Any, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments with values of steps whose parameters accept None."""
    types, extra = task.arguments.types, task.arguments.extra_type
    return tuple(
        name for name, given in arguments.items() if has_unknown(given) and accepts_none(types.get(name, extra))
    )


def check_items(task: Task[Any, Any], items: Any, item: str) -> None:
    """Raises BadFlow for the items of a map that its first parameter certainly does not take."""
    if item in task.arguments.item_types:
        raise BadFlow(f"{item!r} reads the results of a map, and is no item of one: pass the map with .step()")
    if isinstance(items, YieldedItems):
        if not is_assignable(element_of(items._type), wanted := task.arguments.types[item]):
            raise BadFlow(f"{item!r} takes {shown(wanted)}, and {items!r} yields {shown(element_of(items._type))}")
        return
    check_value(items, list[task.arguments.types[item]], f"the items ({item!r})")  # type: ignore[name-defined]


def check_value(given: Any, wanted: Any, what: str) -> None:
    """Raises BadFlow if the value, which may contain values of steps, certainly does not fit the type."""
    match given:
        case Value():
            if not is_assignable(given._type, wanted):
                raise BadFlow(f"{what} takes {shown(wanted)}, and {given!r} is {shown(given._type)}")
        case YieldedItems():
            given._refuse(what)
        case When():
            raise BadFlow(f"{what} is a condition: a condition belongs into when=; compare the values in a task")
        case list() | tuple() if has_unknown(given):
            if not is_assignable(list, wanted):
                raise BadFlow(f"{what} takes {shown(wanted)}, got a list")
            for n, one in enumerate(given):
                check_value(one, _element(wanted), f"{what}[{n}]")
        case dict() if has_unknown(given):
            if not is_assignable(dict, wanted):
                raise BadFlow(f"{what} takes {shown(wanted)}, got a dict")
            for name, one in given.items():
                check_value(one, _entry(wanted, name), f"{what}[{name!r}]")
        case _:
            _check_literal(given, wanted, what)


def _check_literal(given: Any, wanted: Any, what: str) -> None:
    data = encode(given)
    if wanted is Any:
        return
    try:
        type_decoder(wanted)(data)
    except Exception as bad:
        raise BadFlow(f"{what} does not fit: {bad}") from None


def has_unknown(given: Any) -> bool:
    """Whether it is, or contains, a value of a step."""
    match given:
        case Unknown():
            return True
        case list() | tuple():
            return any(map(has_unknown, given))
        case dict():
            return any(map(has_unknown, given.values()))
    return False


def _element(wanted: Any) -> Any:
    """The type of an element of a list that goes there; Any if several types could be meant."""
    several = [one for one in members(wanted) if is_assignable(list, one) and one is not type(None)]
    return element_of(several[0]) if len(several) == 1 and several[0] is not Any else Any


def _entry(wanted: Any, name: str) -> Any:
    several = [one for one in members(wanted) if is_assignable(dict, one) and one is not type(None)]
    if len(several) != 1 or several[0] is Any:
        return Any
    try:
        return part_of(several[0], name, attribute=False).type
    except BadFlow:  # a field that its decoder may ignore
        return Any


def _check_results(planner: Planner, given: Any, item_type: Any, what: str) -> None:
    """Raises BadFlow if an argument for Results[…] is not the value of a map."""
    if not isinstance(given, Value) or not _is_map(planner, given._operand):
        raise BadFlow(f"{what} reads the results of a map: pass the value of .map(), got {given!r:.80}")
    if not is_assignable(element_of(given._type), item_type):
        raise BadFlow(f"{what} reads {shown(item_type)}, and {given!r} is {shown(given._type)}")


def _is_map(planner: Planner, operand: Operand) -> bool:
    match operand:
        case ValueOf(step=n, path=()):
            return planner.is_map(n)
        case FirstOf(operands=operands):
            return all(_is_map(planner, one) for one in operands)
    return False
