"""mainspring prune: retention, now."""

from __future__ import annotations

import click

from ..app import Mainspring
from ..events import JobsPruned
from .app_loader import place, with_app
from .confirm import confirm
from .json_output import print_json
from .options import as_json, yes
from .progress import counting


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
        confirm(f"{what} {place(app)} without the app, so without its tasks' own retention and its archive hook?")
    with counting(app, JobsPruned, "prune"):
        gone = await app.prune(tasks or None)
    if as_json:
        return print_json({"removed": gone})
    return click.echo(f"{gone:,} finished job{'s' * (gone != 1)} removed" if gone else _nothing(app, tasks))


def _nothing(app: Mainspring, tasks: tuple[str, ...]) -> str:
    whose = f" of {', '.join(tasks)}" if tasks else ""
    return f"nothing to remove: retention keeps every finished job{whose} of {place(app)}"
