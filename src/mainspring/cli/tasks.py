"""mainspring tasks: lists the tasks of an app, and where their code is."""

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
from ..task.options import CheckedOptions
from ..task.task import Task
from .app_loader import with_app
from .json_output import print_json
from .messages import Failed, hint
from .options import as_json

# Schedules of a task that are named in the table.
_MAX_NAMED = 5


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
            from ..suggest import did_you_mean

            raise Failed(f"there is no task {name!r} in this app; {did_you_mean(name, app.tasks)}")
    schedules = await _schedules(app)
    chosen = [app.tasks[name] for name in sorted(names or app.tasks)]
    found = [_record(task, schedules.get(task.name, [])) for task in chosen]
    return print_json(found) if as_json else _show(found)


async def _schedules(app: Mainspring) -> dict[str, list[str]]:
    """The names of schedules by task; empty, with a hint, if the store cannot be read."""
    found: dict[str, list[str]] = {}
    try:
        await app.schedules.list(limit=1)  # writes declared schedules to the store
        async for page in pages(await app.connect()):
            for row in page:
                found.setdefault(row.spec.task, []).append(row.name)
    except MainspringError as trouble:
        hint(f"schedules could not be read: {trouble}")
    return found


def _record(task: Task[Any, Any], schedules: list[str]) -> dict[str, Any]:
    return {
        "name": task.name,
        "queue": task.options.queue,
        "executor": task.executor,
        "stub": task.stub,
        "arguments": task.arguments.parameters,
        "options": _options(task.options),
        "schedules": schedules,
        "code": None if task.stub else _source(task),
        "doc": (inspect.getdoc(task.fn) or "").partition("\n")[0],
    }


_DEFAULTS = asdict(CheckedOptions())


def _options(options: CheckedOptions) -> dict[str, Any]:
    """The options that differ from their default, without the queue, which has its own column."""
    given = {name: value for name, value in asdict(options).items() if value != _DEFAULTS[name] and name != "queue"}
    return {name: _to_builtins(value) for name, value in given.items() if value is not UNSET}


def _to_builtins(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str() | None:
            return value
        case Backoff() | Breaker():
            return asdict(value)
        case tuple() | list():
            return [_to_builtins(one) for one in value]
        case dict():
            return {str(name): _to_builtins(one) for name, one in value.items()}
    return getattr(value, "name", None) or getattr(value, "__qualname__", None) or str(value)


def _source(task: Task[Any, Any]) -> str:
    """shop/mail.py:12; relative to the current directory if the file is below it."""
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
    for task in found:
        options = ", ".join(f"{name}={value}" for name, value in task["options"].items())
        more = f", {len(task['schedules']) - _MAX_NAMED:,} more" if len(task["schedules"]) > _MAX_NAMED else ""
        schedules = ", ".join(task["schedules"][:_MAX_NAMED]) + more
        where = "elsewhere" if task["stub"] else task["executor"]
        code = task["code"] or "elsewhere"
        name, queue = render.line(task["name"]), render.line(task["queue"])
        table.add_row(name, queue, where, render.line(options), render.line(schedules), render.line(code))
    render.show(table)
