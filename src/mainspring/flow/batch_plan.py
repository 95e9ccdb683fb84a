"""The plan of a batch: its jobs, and a step for each callback."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from ..codec import encode
from ..errors import BadInput
from ..records.batch import BatchSummary
from ..records.flow import JOBS_STEP
from ..records.plan import ListOf, On, Plan, PlannedStep

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..task.task import Task

# The name of the step that has the jobs.
JOBS = "jobs"
_ON: Mapping[str, On] = {"on_failure": "failure", "on_success": "success", "on_complete": "end"}


def batch_plan(
    app: Mainspring,
    name: str,
    callbacks: Mapping[str, Task[Any, Any] | None],
    metadata: Mapping[str, Any],
    open_seconds: float,
) -> Plan:
    """`callbacks` by the names of the options of app.batch()."""
    steps = [PlannedStep(JOBS, "", over=ListOf(()), open_seconds=open_seconds)]
    for option, on in _ON.items():
        if (task := callbacks.get(option)) is not None:
            steps.append(_callback(app, option, on, task))
    return Plan(tuple(steps), (encode(name).decode(), encode(dict(metadata)).decode()))


def _callback(app: Mainspring, option: str, on: On, task: Task[Any, Any]) -> PlannedStep:
    if not hasattr(task, "planned_options"):
        raise BadInput(f"{option} takes a task, got {task!r:.80}")
    if task.app is not app:
        raise BadInput(f"{option}: task {task.name!r} is of another app: declare it here, or an @app.stub of it")
    if task.yields:
        raise BadInput(f"{option}: task {task.name!r} yields items, and no map would take them")
    task.refuse_step_options(f"{option} is a callback")
    summary = _summary_parameter(task)
    if missing := [one for one in task.arguments.required if one != summary]:
        raise BadInput(
            f"{option}: nothing gives task {task.name!r} its argument {missing[0]!r}: a callback has one parameter, "
            f"def {task.name}(batch: BatchSummary), or none; metadata= of the batch is in that"
        )
    return PlannedStep(option, task.name, after=(JOBS_STEP,), on=on, summary=summary, options=task.planned_options())


def _summary_parameter(task: Task[Any, Any]) -> str:
    """The parameter that takes a BatchSummary; "" if there is none."""
    return next((name for name, type in task.arguments.types.items() if _takes_summary(type)), "")


def _takes_summary(type: Any) -> bool:
    if get_origin(type) in (Union, UnionType):
        return BatchSummary in set(get_args(type)) - {NoneType}
    return type is BatchSummary
