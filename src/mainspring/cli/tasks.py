"""mainspring tasks: what an app can run, and where its code is."""

from __future__ import annotations

import inspect
import os
from typing import Any

import click
from msgspec import UNSET
from msgspec.structs import asdict

from ..app import Mainspring
from ..control.schedule_index import pages
from ..errors import MainspringError
from ..records.circuit import Breaker
from ..retry import Backoff
from ..task.options import TaskOptions
from ..task.task import Task
from . import records
from .failure import Failed, hint
from .loading import with_app
from .options import as_json

# Schedules of a task that are named.
_NAMED = 5


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@as_json
@with_app
async def tasks(app: Mainspring, names: tuple[str, ...], as_json: bool) -> None:
    """List tasks: queue, options, schedules, and where the code is."""
    if not app.tasks:
        raise Failed("tasks are an app's code, and here is only a store: give --app MODULE:ATTR")
    for name in names:
        if name not in app.tasks:
            from ..suggest import did_you_mean as nearest

            raise Failed(f"there is no task {name!r} in this app; {nearest(name, app.tasks)}")
    schedules = await _schedules(app)
    chosen = [app.tasks[name] for name in sorted(names or app.tasks)]
    found = [_record(task, schedules.get(task.name, [])) for task in chosen]
    return records.emit(found) if as_json else _show(found)


async def _schedules(app: Mainspring) -> dict[str, list[str]]:
    """By task, the names of those in the store; without it those that the code declares are not left out."""
    found: dict[str, list[str]] = {}
    try:
        await app.schedules.list(limit=1)  # brings what the code declares
        async for page in pages(await app.opened()):
            for row in page:
                found.setdefault(row.spec.task, []).append(row.name)
    except MainspringError as trouble:
        hint(f"schedules could not be read: {trouble}")
    return found


def _record(task: Task[Any, Any], schedules: list[str]) -> dict[str, Any]:
    return {
        "name": task.name, "queue": task.options.queue, "executor": task.executor, "stub": task.stub,
        "arguments": task.arguments.parameters, "options": _options(task.options), "schedules": schedules,
        "code": None if task.stub else _place(task), "doc": (inspect.getdoc(task.fn) or "").partition("\n")[0],
    }  # fmt: skip


_DEFAULTS = asdict(TaskOptions())


def _options(options: TaskOptions) -> dict[str, Any]:
    """Those that are not as usual; the queue has a column of its own."""
    given = {name: value for name, value in asdict(options).items() if value != _DEFAULTS[name] and name != "queue"}
    return {name: _plain(value) for name, value in given.items() if value is not UNSET}


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str() | None:
            return value
        case Backoff() | Breaker():
            return asdict(value)
        case tuple() | list():
            return [_plain(one) for one in value]
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
    return getattr(value, "name", None) or getattr(value, "__qualname__", None) or str(value)


def _place(task: Task[Any, Any]) -> str:
    """shop/mail.py:12, from the current directory where it is below."""
    fn = inspect.unwrap(task.fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return f"{fn.__module__}.{getattr(fn, '__qualname__', '')}"
    file = os.path.relpath(code.co_filename)
    return f"{code.co_filename if file.startswith('..') else file}:{code.co_firstlineno}"


def _show(found: list[dict[str, Any]]) -> None:
    from . import render

    cut = ("task", "options", "schedules", "code")
    table = render.grid("task", "queue", "runs in", "options", "schedules", "code", cut=cut)
    for one in found:
        options = ", ".join(f"{name}={value}" for name, value in one["options"].items())
        more = f", {len(one['schedules']) - _NAMED:,} more" if len(one["schedules"]) > _NAMED else ""
        schedules = ", ".join(one["schedules"][:_NAMED]) + more
        where = "elsewhere" if one["stub"] else one["executor"]
        table.add_row(
            render.line(one["name"]), render.line(one["queue"]), where, render.line(options), render.line(schedules),
            render.line(one["code"] or "elsewhere"),
        )  # fmt: skip
    render.show(table)
