"""/tasks: what can be enqueued, and with which arguments."""

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
from ..access.authenticate import Spring, may

# Tasks after which other requests have their turn: the first time, each takes some hundred microseconds.
TURN_TASKS = 50


class TaskView(Struct, frozen=True, kw_only=True):
    name: str
    queue: str
    priority: int
    stub: bool
    """Its code is elsewhere."""
    doc: str
    arguments: dict[str, Any]
    """What POST /jobs takes as `arguments`, as JSON Schema."""
    max_retries: int | None
    """Of jobs that ask for nothing else, as are the next two; null: its code is elsewhere, which decides."""
    timeout: float | None
    """Seconds; null: no limit, or decided elsewhere."""
    backoff: Backoff | None
    """null: a function of its own, or decided elsewhere."""


class TaskPage(Struct, frozen=True):
    items: list[TaskView]


@get("/tasks", **may("viewer"))
async def list_tasks(spring: Spring) -> TaskPage:
    """The tasks that this server's app knows, by name. If it knows none, jobs are taken by any name, unchecked."""
    views: list[TaskView] = []
    for name in sorted(spring.tasks):
        views.append(_view(spring.tasks[name], spring.settings))
        if len(views) % TURN_TASKS == 0:
            await asyncio.sleep(0)
    return TaskPage(views)


def _view(task: Task[Any, Any], settings: Settings) -> TaskView:
    own = task.options
    rules = task.policy(Policy(settings.retry_max, settings.backoff))
    return TaskView(
        name=task.name, queue=own.queue, priority=own.priority, stub=task.stub, arguments=task.arguments.json_schema,
        doc=inspect.cleandoc(task.__doc__ or ""), max_retries=None if task.stub else rules.max_retries,
        timeout=None if task.stub else task.timeout(settings.default_timeout),
        backoff=rules.backoff if isinstance(rules.backoff, Backoff) and not task.stub else None,
    )  # fmt: skip


ROUTES = [list_tasks]
