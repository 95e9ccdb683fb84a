"""A flow's function: it is called with its arguments, and its steps become a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadFlow, BadInput
from .planner import planning

if TYPE_CHECKING:
    from ..records.plan import Plan
    from ..task.task import Task


def plan_of(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
    """The plan of a flow for these arguments. Raises BadFlow if it is none, and what the function raises."""
    if not task.is_flow:
        raise BadFlow(f"task {task.name!r} is no flow: declare it with @app.flow")
    with planning() as planner:
        result = task.fn(*args, **kwargs)
        try:
            return planner.plan(result, fail_fast=task.options.fail_fast)
        except BadInput as bad:
            raise BadFlow(f"flow {task.name!r}: {bad}") from None
