"""mainspring top: a live view of queues, workers and jobs."""

from __future__ import annotations

import sys

import click

from ...app import Mainspring
from ..app_loader import with_any_app
from ..messages import Failed
from ..options import span


@click.command()
@click.option(
    "--interval", type=span, metavar="SPAN", default="1s", show_default=True, help="Time between two refreshes."
)
@click.option("--once", is_flag=True, help="Print once and exit; the default if the output is not a terminal.")
@with_any_app
async def top(app: Mainspring, interval: float, once: bool) -> None:
    """Watch queues, workers and jobs live.

    q quits, p pauses refreshing, 1 to 4 or tab choose what the lower part shows.
    """
    from .. import render
    from .frame import full_page
    from .live import live
    from .snapshot import take_snapshot
    from .view import TopView

    console = render.console()
    if not once and sys.stdout.isatty() and not console.is_dumb_terminal:
        return await live(app, interval, console)
    view = TopView()
    view.update(await take_snapshot(app))
    if view.snapshot is None:
        raise Failed(view.trouble)
    return console.print(full_page(view, console.width))
