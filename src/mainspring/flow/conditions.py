"""Conditions of steps: trees of comparisons over JSON values. Total: any value gives True or False."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..records.plan import AllOf, AnyOf, Compare, Condition, Exists, IsTrue, Not, Operand


class Absent:
    """The value of an operand that has none: a step that did not complete, or a missing field."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


def none_if_absent(value: Any) -> Any:
    return None if value is ABSENT else value


class LargeValue(Exception):
    """A condition reads a value that is too large to be kept in the flow's row. It is there, and true."""


_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Lookup = Callable[[Operand], Any]
"""The JSON value of an operand, or ABSENT."""


def is_true(condition: Condition, value_of: Lookup) -> bool:
    """Whether the condition holds. Absent values and values of different types compare as false."""
    match condition:
        case AllOf(conditions=conditions):
            return all(is_true(one, value_of) for one in conditions)
        case AnyOf(conditions=conditions):
            return any(is_true(one, value_of) for one in conditions)
        case Not(condition=inner):
            return not is_true(inner, value_of)
        case Exists(operand=operand):
            return _or_true(value_of, operand) not in (ABSENT, None)
        case IsTrue(operand=operand):
            value = _or_true(value_of, operand)
            return value is not ABSENT and bool(value)
        case Compare(op=op, left=left, right=right):
            return _compare(op, value_of(left), value_of(right))


def _or_true(value_of: Lookup, operand: Operand) -> Any:
    try:
        return value_of(operand)
    except LargeValue:
        return True


def _compare(op: str, left: Any, right: Any) -> bool:
    if left is ABSENT or right is ABSENT:
        return False
    match op:
        case "in":
            return _contains(right, left)
        case "==":
            return _equal(left, right)
        case "!=":
            return not _equal(left, right)
    if _kind(left) != _kind(right) or _kind(left) not in ("number", "text"):
        return False
    return _ORDERED[op](left, right)


def _kind(value: Any) -> str:
    """The JSON type. A boolean is not a number."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def _equal(left: Any, right: Any) -> bool:
    kind = _kind(left)
    if kind != _kind(right):
        return False
    if kind == "list":
        return len(left) == len(right) and all(map(_equal, left, right))
    if kind == "object":
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return bool(left == right)


def _contains(whole: Any, part: Any) -> bool:
    match whole:
        case list():
            return any(_equal(part, item) for item in whole)
        case str():
            return isinstance(part, str) and part in whole
        case dict():
            return isinstance(part, str) and part in whole
    return False


def at_path(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at the path of a JSON value, or ABSENT."""
    for part in path:
        if isinstance(part, str):
            value = value.get(part, ABSENT) if isinstance(value, dict) else ABSENT
        else:
            value = value[part] if isinstance(value, list) and -len(value) <= part < len(value) else ABSENT
        if value is ABSENT:
            return ABSENT
    return value
