"""mainspring top: queues, workers and jobs, live."""

from __future__ import annotations

import sys

import click

from ...app import Mainspring
from ..app_loader import with_any_app
from ..messages import Failed
from ..options import span


@click.command()
@click.option("--interval", type=span, metavar="SPAN", default="1s", show_default=True, help="Between two looks.")
@click.option("--once", is_flag=True, help="One look, printed; so too when the output is not a terminal.")
@with_any_app
async def top(app: Mainspring, interval: float, once: bool) -> None:
    """Watch queues, workers and jobs live.

    q quits, p pauses refreshing, 1 to 4 or tab choose what the lower part shows.
    """
    from .. import render
    from .frame import whole
    from .live import live
    from .snapshot import look
    from .view import TopView

    console = render.console()
    if not once and sys.stdout.isatty() and not console.is_dumb_terminal:
        return await live(app, interval, console)
    view = TopView()
    view.see(await look(app))
    if view.scene is None:
        raise Failed(view.trouble)
    return console.print(whole(view, console.width))
