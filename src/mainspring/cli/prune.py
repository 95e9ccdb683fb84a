"""mainspring prune: applies retention now."""

from __future__ import annotations

import click

from ..app import Mainspring
from ..events import JobsPruned
from .app_loader import store_name, with_app
from .confirm import confirm
from .json_output import print_json
from .options import as_json, yes
from .progress import count_on_stderr


@click.command()
@click.option(
    "--task", "tasks", multiple=True, help="Only jobs of this task, known to the app or not. May be repeated."
)
@yes
@as_json
@with_app
async def prune(app: Mainspring, tasks: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete finished jobs that are past their retention.

    Workers do this for the tasks whose code they have; so does this command with an app. With only a store, and for
    a task that the app does not know, neither the task's own retention nor the archive hook applies: it asks first.
    """
    unknown = [name for name in tasks if name not in app.tasks]
    if (unknown or not app.tasks) and not yes:
        what = f"prune {', '.join(unknown)} in" if unknown else "prune"
        confirm(f"{what} {store_name(app)} without the app, so without its tasks' own retention and its archive hook?")
    with count_on_stderr(app, JobsPruned, "prune"):
        removed = await app.prune(tasks or None)
    if as_json:
        return print_json({"removed": removed})
    return click.echo(f"{removed:,} finished job{'s' * (removed != 1)} removed" if removed else _nothing(app, tasks))


def _nothing(app: Mainspring, tasks: tuple[str, ...]) -> str:
    whose = f" of {', '.join(tasks)}" if tasks else ""
    return f"nothing to remove: retention keeps every finished job{whose} of {store_name(app)}"
