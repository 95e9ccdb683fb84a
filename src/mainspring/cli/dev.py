"""mainspring dev: worker, scheduler and API in one process, which restarts when code that it imported changes."""

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
from .app_loader import app_name, load_app, store_name
from .console_filter import JobLineFilter
from .event_loop import run
from .messages import log_option, log_to_stderr
from .service import Service, address_options, check_installed

# How long a process may take to end.
GRACE_SECONDS = 5.0


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@address_options
@click.option("--no-reload", is_flag=True, help="Do not restart when code changes.")
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
@click.option("--all-lines", is_flag=True, help="Show every log line of a chatty job.")
@click.option("--about", metavar="TEXT", help="A description to print instead of the store's name.")
@log_option
def dev(
    app: str | None,
    named: str | None,
    host: str | None,
    port: int | None,
    no_auth: bool,
    no_reload: bool,
    opens: bool,
    all_lines: bool,
    about: str | None,
    log_level: str | None,
) -> None:
    """Run worker, API and dashboard together, and reload changed code.

    APP is module:attribute, e.g. shop:app. It restarts when a file changes that APP has imported from this directory.
    For writing code; in production run `worker` and `server`.
    """
    name, source = app_name(app, named)
    check_installed()
    if not no_reload and not os.environ.get(VARIABLE):
        log_to_stderr(log_level or "info")
        reloader = Reloader(CommandLine.current(), Path.cwd(), SystemClock(), kill_after=2 * GRACE_SECONDS)
        raise click.exceptions.Exit(asyncio.run(reloader.run()))
    folder = Path.cwd()
    found = load_app(name, source)
    log_to_stderr(log_level or found.settings.log_level, found.settings.log_format)
    lines = None if all_lines else JobLineFilter.install(found.clock, found.events)
    work = _work_and_serve(found, Service(found, host, port, no_auth), lines, folder, ReadyMessage(about, opens))
    run(work, tune_gc=found.settings.tune_gc)


class ReadyMessage(NamedTuple):
    """Printed when the service is ready; `opens`: also opens the dashboard in a browser."""

    about: str | None
    opens: bool

    def show(self, app: Mainspring, address: str, page: str) -> None:
        if self.about is None:
            tasks = f"{len(app.tasks)} task{'' if len(app.tasks) == 1 else 's'}"
            click.echo(f"running on {store_name(app)}, {tasks}; {address}")
        else:
            click.echo(self.about)
        click.echo("Ctrl-C stops it")
        if self.opens:
            webbrowser.open(page)


async def _work_and_serve(
    app: Mainspring, service: Service, lines: JobLineFilter | None, folder: Path, message: ReadyMessage
) -> None:
    async with app, _background(app, service, lines, folder):
        worker = app.worker()
        async with worker:
            page = await service.greet(opens=True)
            await service.run(lambda: message.show(app, service.address, page))
            await worker.stop(grace=GRACE_SECONDS)


@asynccontextmanager
async def _background(
    app: Mainspring, service: Service, lines: JobLineFilter | None, folder: Path
) -> AsyncIterator[None]:
    """Runs the console filter, and reports imported files to the reloader if there is one."""
    tasks = [] if lines is None else [asyncio.create_task(lines.run())]
    if descriptors := os.environ.get(VARIABLE):
        alive, reports = map(int, descriptors.split(","))
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
    """Stops the service, because the reloader has died and nothing else would end this process."""
    asyncio.get_running_loop().remove_reader(parent)
    service.stop()
