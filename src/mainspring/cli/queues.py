"""mainspring queues: lists, pauses and resumes queues."""

from __future__ import annotations

from datetime import timedelta

import click
import msgspec

from ..app import Mainspring
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, span


@click.group()
def queues() -> None:
    """List, pause and resume queues."""


@queues.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List queues that hold unfinished jobs, or are paused."""
    found = await app.queues.list()
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint(f"no queue of {store_name(app)} holds unfinished jobs; store one: mainspring enqueue TASK …")
    from . import render

    return render.show(render.queue_table(found, app.clock.now()))


@queues.command()
@click.argument("name", required=False)
@click.option("--window", metavar="SPAN", default="1h", show_default=True, help="1h, 24h, … up to 4d.")
@as_json
@with_app
async def history(app: Mainspring, name: str | None, window: str, as_json: bool) -> None:
    """Show how many jobs were pending over time, in all queues or in NAME.

    A dot marks a time in which no worker was running.
    """
    back = timedelta(seconds=span(window))
    found = await app.queues.history(back, queue=name)
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint(
            f"no worker of {store_name(app)} has sampled queues in the last {window}; workers do so once a minute"
        )
    from . import render
    from .queue_page import depth_table

    return render.show(depth_table(found, back, app.clock.now()))


@queues.command()
@click.argument("name")
@click.option("--note", default="", metavar="TEXT", help="The reason; kept until the queue is resumed.")
@with_app
async def pause(app: Mainspring, name: str, note: str) -> None:
    """Pause NAME: its jobs do not start. Running jobs finish, and new jobs are accepted."""
    known = [queue.name for queue in await app.queues.list()]
    await app.queues.pause(name, note)
    click.echo(f"queue {name!r} is paused; resume it with: mainspring queues resume {name}")
    if name not in known:
        hint(f"it holds no unfinished jobs so far (those that do: {', '.join(known) or 'none'})")


@queues.command()
@click.argument("name")
@with_app
async def resume(app: Mainspring, name: str) -> None:
    """Resume NAME: its jobs start again."""
    paused = [queue.name for queue in await app.queues.list() if queue.paused]
    await app.queues.resume(name)
    if name in paused:
        return click.echo(f"queue {name!r} is open again")
    return click.echo(f"queue {name!r} was not paused (paused: {', '.join(paused) or 'none'})")
