"""mainspring server: serves dashboard, REST API, live feed and metrics until a signal."""

from __future__ import annotations

import click

from ..app import Mainspring
from .app_loader import app_name, find_app, store_name
from .event_loop import run
from .messages import log_option, log_to_stderr
from .service import Service, address_options, openapi_json


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@click.option("--store", metavar="URL", help="Only a store, without an app's code [$MAINSPRING_STORE].")
@address_options
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
    found = find_app(app_name(app, named)[0] if app or named else None, store)
    if openapi:
        click.echo(openapi_json())
        return
    log_to_stderr(log_level or found.settings.log_level, found.settings.log_format)
    run(_serve(found, Service(found, host, port, no_auth)), tune_gc=found.settings.tune_gc)


async def _serve(app: Mainspring, service: Service) -> None:
    async with app:
        await service.greet()
        await service.run(lambda: click.echo(f"serving {store_name(app)} on {service.address}"))
    click.echo("server stopped")
