"""A plan with its steps in another order."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..records.plan import Plan, ValueOf


def renumbered(plan: Plan, order: list[int]) -> Plan:
    """The plan with its steps in this order, given by their present numbers."""
    number = {old: new for new, old in enumerate(order)}
    steps = (plan.steps[n] for n in order)
    moved = tuple(replace(_moved(step, number), after=tuple(number[n] for n in step.after)) for step in steps)
    return replace(plan, steps=moved, result=_moved(plan.result, number))


def _moved(part: Any, number: dict[int, int]) -> Any:
    """The same part of a plan with the new numbers of steps."""
    match part:
        case ValueOf(step=n, path=path):
            return ValueOf(number[n], path)
        case Struct():
            return replace(part, **{name: _moved(value, number) for name, value in asdict(part).items()})
        case tuple():
            return tuple(_moved(one, number) for one in part)
        case dict():
            return {name: _moved(one, number) for name, one in part.items()}
    return part
