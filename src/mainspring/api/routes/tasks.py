"""/tasks: the tasks that can be enqueued, and their parameters."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from litestar import get
from msgspec import Struct

from ...config import Settings
from ...records.outcome import Policy
from ...retry import Backoff
from ...task.task import Task
from ..access.authenticate import App, allow

# After this number of tasks other requests run: the first time, each task takes some hundred microseconds.
YIELD_EVERY_TASKS = 50


class TaskView(Struct, frozen=True, kw_only=True):
    name: str
    queue: str
    priority: int
    stub: bool
    """true if this server has no code for it, only its signature."""
    flow: bool
    """true if it is a flow: its work is done by its steps."""
    doc: str
    arguments: dict[str, Any]
    """JSON Schema of `arguments` in POST /jobs."""
    max_retries: int | None
    """Default for jobs of this task (as the next two fields); null for stubs."""
    timeout: float | None
    """Seconds; null for no limit, and for stubs."""
    backoff: Backoff | None
    """null for a custom function, and for stubs."""


class TaskPage(Struct, frozen=True):
    items: list[TaskView]


@get("/tasks", **allow("viewer"))
async def list_tasks(app: App) -> TaskPage:
    """The tasks that are registered in this server, by name. If there are none, jobs of any task are accepted,
    unchecked."""
    views: list[TaskView] = []
    for name in sorted(app.tasks):
        views.append(_view(app.tasks[name], app.settings))
        if len(views) % YIELD_EVERY_TASKS == 0:
            await asyncio.sleep(0)
    return TaskPage(views)


def _view(task: Task[Any, Any], settings: Settings) -> TaskView:
    options = task.options
    policy = task.policy(Policy(settings.retry_max, settings.backoff))
    return TaskView(
        name=task.name,
        queue=options.queue,
        priority=options.priority,
        stub=task.stub,
        flow=task.is_flow,
        doc=inspect.cleandoc(task.__doc__ or ""),
        arguments=task.arguments.json_schema,
        max_retries=None if task.stub else policy.max_retries,
        timeout=None if task.stub else task.timeout(settings.default_timeout),
        backoff=policy.backoff if isinstance(policy.backoff, Backoff) and not task.stub else None,
    )


ROUTES = [list_tasks]
