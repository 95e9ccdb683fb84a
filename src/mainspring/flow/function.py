"""A flow's function: it is called with its arguments, and its steps become a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from ..errors import BadFlow, BadInput
from .arguments import check_value
from .json_types import shown
from .planner import Planner, planning
from .steps import naming
from .wiring import is_assignable

if TYPE_CHECKING:
    from ..records.plan import Plan
    from ..task.task import Task


def plan_of(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
    """The plan of a flow for these arguments. Raises BadFlow if it is none, and what the function raises."""
    if not task.is_flow:
        raise BadFlow(f"task {task.name!r} is no flow: declare it with @app.flow")
    with planning(task.app) as planner:
        return plan_with(planner, task, args, kwargs)


def plan_with(planner: Planner, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
    """The plan that the function of a flow makes with the current planner."""
    try:
        result = task.fn(*args, **kwargs)
    except BadFlow:
        raise
    except BadInput as bad:  # of using(), for example: the next attempt would raise it, too
        raise BadFlow(f"flow {task.name!r}: {bad}") from bad
    with naming(f"flow {task.name!r}"):
        _check_result(task, result)
        plan = planner.plan(result, fail_fast=task.options.fail_fast)
    timeout = task.options.timeout
    return plan if timeout is UNSET else replace(plan, timeout=timeout)


def _check_result(task: Task[Any, Any], result: Any) -> None:
    """Raises BadFlow if what the function returns certainly does not fit its annotation."""
    wanted = task.results.type
    if result is None and not is_assignable(type(None), wanted):
        raise BadFlow(f"its function returns nothing, and its annotation says {shown(wanted)}")
    check_value(result, wanted, "what its function returns")
