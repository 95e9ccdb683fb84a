"""mainspring prune: retention, now."""

from __future__ import annotations

import click

from ..app import Mainspring
from ..events import JobsPruned
from . import records
from .confirm import confirm
from .loading import place, with_app
from .options import as_json, yes
from .progress import counting


@click.command()
@yes
@as_json
@with_app
async def prune(app: Mainspring, yes: bool, as_json: bool) -> None:
    """Remove finished jobs that retention does not keep.

    Workers do so by themselves, once a minute. With only a store nobody knows what tasks keep longer, nor
    the archive hook: it asks first.
    """
    if not app.tasks and not yes:
        confirm(f"prune {place(app)} without the app, so without its tasks' own retention and its archive hook?")
    with counting(app, JobsPruned, "prune"):
        gone = await app.prune()
    if as_json:
        return records.emit({"removed": gone})
    return click.echo(f"{gone:,} finished job{'s' * (gone != 1)} removed" if gone else _nothing(app))


def _nothing(app: Mainspring) -> str:
    return f"nothing to remove: retention keeps every finished job of {place(app)}"
