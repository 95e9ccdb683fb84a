"""mainspring dev: worker, scheduler and API in one process that starts anew when the code changes."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from pathlib import Path

import click

from ..app import Mainspring
from ..clock import SystemClock
from ..program import Program
from ..reloader import VARIABLE, Reloader
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
@click.option("--no-reload", is_flag=True, help="Go on with the code as it is.")
@click.option("--open", "opening", is_flag=True, help="Show the dashboard in a browser.")
@log_option
def dev(
    app: str | None,
    named: str | None,
    host: str | None,
    port: int | None,
    no_auth: bool,
    no_reload: bool,
    opening: bool,
    log_level: str | None,
) -> None:
    """Run worker, API and dashboard together, and reload changed code.

    APP is module:attribute, e.g. shop:app. For writing code; in production run `worker` and `server`.
    """
    name, source = named_app(app, named)
    check_parts()
    if not no_reload and not os.environ.get(VARIABLE):
        log_to_stderr(log_level or "info")
        reloader = Reloader(Program.this(), Path.cwd(), SystemClock(), patience=2 * GRACE)
        raise click.exceptions.Exit(asyncio.run(reloader.run()))
    found = load(name, source)
    log_to_stderr(log_level or found.settings.log_level, found.settings.log_format)
    run(_work_and_serve(found, Service(found, host, port, no_auth), opening))


async def _work_and_serve(app: Mainspring, service: Service, opening: bool) -> None:
    async with app:
        worker = app.worker()
        async with worker:
            page = await service.greet()
            about = f"{place(app)}, {len(app.tasks)} task{'' if len(app.tasks) == 1 else 's'}; {service.address}"
            if parent := os.environ.get(VARIABLE):
                asyncio.get_running_loop().add_reader(int(parent), _orphaned, service, int(parent))

            def ready() -> None:
                click.echo(f"at work on {about}")
                if opening:
                    webbrowser.open(page)

            await service.run(ready)
            await worker.stop(grace=GRACE)


def _orphaned(service: Service, parent: int) -> None:
    """The reloader is gone, and with it whoever would end this process."""
    asyncio.get_running_loop().remove_reader(parent)
    service.stop()
