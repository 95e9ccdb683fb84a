"""mainspring server: dashboard, REST API, live events and metrics, until it is told to stop."""

from __future__ import annotations

import click

from ..app import Mainspring
from .app_loader import find, named_app, place
from .event_loop import run
from .messages import log_option, log_to_stderr
from .service import Service, described, where


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@click.option("--store", metavar="URL", help="Only a store, without an app's code [$MAINSPRING_STORE].")
@where
@click.option("--openapi", is_flag=True, help="Print the API's OpenAPI document instead.")
@log_option
def server(
    app: str | None,
    named: str | None,
    store: str | None,
    host: str | None,
    port: int | None,
    no_auth: bool,
    openapi: bool,
    log_level: str | None,
) -> None:
    """Serve dashboard, REST API and metrics until SIGTERM or Ctrl-C.

    APP is module:attribute, e.g. shop:app; its tasks check the arguments of jobs before they are stored. Requests
    that are under way when the signal comes are answered; a second signal does not wait for them.
    """
    found = find(named_app(app, named)[0] if app or named else None, store)
    if openapi:
        click.echo(described())
        return
    log_to_stderr(log_level or found.settings.log_level, found.settings.log_format)
    run(_serve(found, Service(found, host, port, no_auth)))


async def _serve(app: Mainspring, service: Service) -> None:
    async with app:
        await service.greet()
        await service.run(lambda: click.echo(f"serving {place(app)} on {service.address}"))
    click.echo("server stopped")
