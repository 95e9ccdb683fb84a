"""mainspring demo: an example shop, its worker and its customers, watched by mainspring top."""

from __future__ import annotations

import os
import sys

import click

from ..event_loop import run


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Stop after N seconds. Default: run until q or Ctrl-C.",
)
@click.option("--plain", is_flag=True, help="One line a second; the default if the output is not a terminal.")
@click.option("--store", metavar="URL", help="Use this store, and keep it. Default: a temporary SQLite file.")
def demo(seconds: float | None, plain: bool, store: str | None) -> None:
    """Show real jobs running: an example shop on a temporary store.

    A worker and a feeder run in this process: mail, payments that fail and are retried, slow videos,
    reminders for later, schedules, and an integration that always fails. Nothing has to be installed or set up.
    The view is that of `mainspring top`.
    """
    from .session import play

    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    run(play(store, seconds=seconds, plain=plain or not is_terminal))
