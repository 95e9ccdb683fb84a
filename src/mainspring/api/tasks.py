"""/tasks: what can be enqueued, and with which arguments."""

from __future__ import annotations

import inspect
from typing import Any

from litestar import get
from msgspec import Struct

from ..task import Task
from .door import Spring, may


class TaskView(Struct, frozen=True, kw_only=True):
    name: str
    queue: str
    priority: int
    stub: bool
    """Its code is elsewhere."""
    doc: str
    arguments: dict[str, Any]
    """What POST /jobs takes as `arguments`, as JSON Schema."""


class TaskPage(Struct, frozen=True):
    items: list[TaskView]


@get("/tasks", **may("viewer"))
async def list_tasks(spring: Spring) -> TaskPage:
    """The tasks that this server's app knows, by name. If it knows none, jobs are taken by any name, unchecked."""
    return TaskPage([_view(spring.tasks[name]) for name in sorted(spring.tasks)])


def _view(task: Task[Any, Any]) -> TaskView:
    own = task.options
    return TaskView(
        name=task.name, queue=own.queue, priority=own.priority, stub=task.stub, arguments=task.arguments.schema(),
        doc=inspect.cleandoc(task.__doc__ or ""),
    )  # fmt: skip


ROUTES = [list_tasks]
