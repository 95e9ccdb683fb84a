"""The shape of a flow: the plan that it has whatever its input is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import BadFlow
from ..records.plan import Plan
from .function import plan_with
from .json_types import class_of, members
from .planner import Planner, planning
from .values import NeedsInput, Value, When
from .wiring import part_of

if TYPE_CHECKING:
    from ..task.task import Task


class InputValue(Value):
    """An argument of a flow, or a part of one, while no input is known: it can be passed on, and not looked at."""

    __slots__ = ()

    def _refuse(self, what: str) -> NoReturn:
        raise NeedsInput(f"its steps depend on {self!r}")

    def __getitem__(self, key: str | int) -> Value:
        if type(key) not in (str, int):
            self._refuse("")
        return super().__getitem__(key)

    def _part(self, key: str | int, name: str, *, attribute: bool) -> Value:
        try:
            part = part_of(self._type, key, attribute=attribute)
        except BadFlow as bad:
            if attribute and any(hasattr(class_of(one), str(key)) for one in members(self._type)):
                raise NeedsInput(f"its steps depend on {name}") from None  # a method, or a property
            raise BadFlow(f"{name}: {bad}") from None
        return _input_value(self._planner, name, part.type)

    def _compare(self, op: Any, other: object) -> When:
        return InputCondition(self._planner, super()._compare(op, other)._condition)


class InputCondition(When):
    """A comparison of an argument: with an input it is simply true or false."""

    __slots__ = ()

    def _refuse(self, what: str) -> NoReturn:
        raise NeedsInput("its steps depend on a comparison of its input")


def shape_of(task: Task[Any, Any]) -> Plan:
    """The plan of a flow without an input; parameters that have a default have that.

    Raises NeedsInput if its steps depend on the input, and BadFlow if it is no plan with any.
    """
    if not task.is_flow:
        raise BadFlow(f"task {task.name!r} is no flow: declare it with @app.flow")
    with planning(task.app) as planner:
        return shape_with(planner, task)


def shape_with(planner: Planner, task: Task[Any, Any]) -> Plan:
    """The same with the current planner."""
    args, kwargs = _inputs(task, planner)
    try:
        return plan_with(planner, task, args, kwargs)
    except BadFlow:
        raise
    except Exception as error:
        what = NeedsInput if args or kwargs else BadFlow
        raise what(f"its function raises {type(error).__name__} without an input: {error}") from error


def _inputs(task: Task[Any, Any], planner: Planner) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in inspect.signature(task.fn).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.default is not (
            parameter.empty
        ):
            continue
        value = _input_value(planner, name, task.arguments.types.get(name, Any))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(value)
        else:
            kwargs[name] = value
    return args, kwargs


def _input_value(planner: Planner, name: str, hint: Any) -> InputValue:
    """The value with its name in place of what it will be."""
    return InputValue(planner, planner.literal(f"<{name}>"), name, hint)
