"""mainspring dev: worker, scheduler and API in one process that restarts when the code it imported changes."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import click

from ..app import Mainspring
from ..clock import SystemClock
from ..supervisor.command_line import CommandLine
from ..supervisor.reloader import VARIABLE, ImportReport, Reloader
from .job_lines import JobLines
from .loading import load, named_app, place
from .loop import run
from .serving import Service, check_parts, where
from .stderr import log_option, log_to_stderr

# Seconds that a process may take to end: for code that changes, not for work that counts.
GRACE = 5.0


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@where
@click.option("--no-reload", is_flag=True, help="Do not restart when code changes.")
@click.option("--open", "opening", is_flag=True, help="Open the dashboard in a browser.")
@click.option("--all-lines", is_flag=True, help="Show every log line of a chatty job.")
@click.option("--about", metavar="TEXT", help="What runs here, in words, in place of the store's name.")
@log_option
def dev(
    app: str | None,
    named: str | None,
    host: str | None,
    port: int | None,
    no_auth: bool,
    no_reload: bool,
    opening: bool,
    all_lines: bool,
    about: str | None,
    log_level: str | None,
) -> None:
    """Run worker, API and dashboard together, and reload changed code.

    APP is module:attribute, e.g. shop:app. It restarts when a file changes that APP has imported from this directory.
    For writing code; in production run `worker` and `server`.
    """
    name, source = named_app(app, named)
    check_parts()
    if not no_reload and not os.environ.get(VARIABLE):
        log_to_stderr(log_level or "info")
        reloader = Reloader(CommandLine.current(), Path.cwd(), SystemClock(), kill_after=2 * GRACE)
        raise click.exceptions.Exit(asyncio.run(reloader.run()))
    folder = Path.cwd()
    found = load(name, source)
    log_to_stderr(log_level or found.settings.log_level, found.settings.log_format)
    lines = None if all_lines else JobLines.install(found.clock, found.events)
    run(_work_and_serve(found, Service(found, host, port, no_auth), lines, folder, Words(about, opening)))


class Words(NamedTuple):
    """What is said when all is ready, and whether a browser is opened."""

    about: str | None
    opening: bool

    def say(self, app: Mainspring, address: str, page: str) -> None:
        if self.about is None:
            tasks = f"{len(app.tasks)} task{'' if len(app.tasks) == 1 else 's'}"
            click.echo(f"running on {place(app)}, {tasks}; {address}")
        else:
            click.echo(self.about)
        click.echo("Ctrl-C stops it")
        if self.opening:
            webbrowser.open(page)


async def _work_and_serve(
    app: Mainspring, service: Service, lines: JobLines | None, folder: Path, words: Words
) -> None:
    async with app, _beside(app, service, lines, folder):
        worker = app.worker()
        async with worker:
            page = await service.greet(opens=True)
            await service.run(lambda: words.say(app, service.address, page))
            await worker.stop(grace=GRACE)


@asynccontextmanager
async def _beside(app: Mainspring, service: Service, lines: JobLines | None, folder: Path) -> AsyncIterator[None]:
    """Watches over the console, and tells the reloader, if there is one, what is imported."""
    tasks = [] if lines is None else [asyncio.create_task(lines.keep())]
    if given := os.environ.get(VARIABLE):
        alive, reports = map(int, given.split(","))
        asyncio.get_running_loop().add_reader(alive, _orphaned, service, alive)
        report = ImportReport(reports, folder)
        report.send()
        tasks.append(asyncio.create_task(report.watch(app.clock)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks) if tasks else None


def _orphaned(service: Service, parent: int) -> None:
    """The reloader is gone, and nothing else would end this process."""
    asyncio.get_running_loop().remove_reader(parent)
    service.stop()
