"""mainspring worker: runs jobs until it is told to stop."""

from __future__ import annotations

import logging
import os
from collections import Counter

import click

from ..app import Mainspring
from ..events import JobEnded, WorkerStarted
from ..job import State
from ..worker import Worker
from .loading import load, place
from .loop import run
from .text import safe

LEVELS = ("debug", "info", "warning", "error")


class Safe(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@click.option("--queues", metavar="LIST", help="Only these: mail,low. With slots for each: mail=5,low.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Slots: how many jobs run at once.")
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="Default: the app's.")
def worker(
    app: str | None, named: str | None, queues: str | None, concurrency: int | None, log_level: str | None
) -> None:
    """Run jobs until SIGTERM or Ctrl-C, then let them finish.

    APP is module:attribute, e.g. shop:app; without it $MAINSPRING_APP counts. A second signal does not
    wait for running jobs: they are released, and run again elsewhere.
    """
    if app and named and app != named:
        raise click.UsageError(f"two apps are named, {app} and {named}: give one")
    chosen = app or named
    variable = os.environ.get("MAINSPRING_APP", "").strip()
    if not chosen and not variable:
        raise click.UsageError("which app? Give module:attribute, e.g. shop:app, or set $MAINSPRING_APP")
    wanted = _queues(queues)
    # The app looks at this level while it is built: too late to set it afterwards.
    logging.getLogger("mainspring").setLevel((log_level or "info").upper())
    found = load(chosen) if chosen else load(variable, " (from $MAINSPRING_APP)")
    _log_to_stderr((log_level or found.settings.log_level).upper())
    run(_work(found, found.worker(queues=wanted, concurrency=concurrency), queues or "all", concurrency))


async def _work(app: Mainspring, worker: Worker, queues: str, concurrency: int | None) -> None:
    ended: Counter[State] = Counter()
    app.events.subscribe(JobEnded, lambda event: ended.update([event.outcome.state]))
    tasks = sum(not task.stub for task in app.tasks.values())
    about = (
        f"worker {worker.id} on {place(app)}: queues {queues}, {tasks} task{'s' * (tasks != 1)}, "
        f"{concurrency or app.settings.concurrency} slots"
    )
    app.events.subscribe(WorkerStarted, lambda event: click.echo(about))
    async with app:
        await worker.run()
    click.echo(
        f"worker {worker.id} stopped: {ended[State.COMPLETED]} completed, {ended[State.PENDING]} to run again, "
        f"{ended[State.DEAD]} dead, {ended[State.CANCELLED]} cancelled"
    )


def _queues(text: str | None) -> dict[str, int | None] | None:
    if text is None:
        return None
    wanted: dict[str, int | None] = {}
    for part in text.split(","):
        name, equals, slots = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not (slots.isascii() and slots.isdigit() and int(slots))):
            raise click.UsageError(f"--queues takes mail,low or mail=5,low; cannot read {part!r} in {text!r}")
        wanted[name] = int(slots) if equals else None
    return wanted


def _log_to_stderr(level: str) -> None:
    """Logs go where the app's module has sent them, or else to stderr."""
    logging.getLogger("mainspring").setLevel(level)
    handler = logging.StreamHandler()
    handler.setFormatter(Safe("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
