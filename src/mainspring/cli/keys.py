"""mainspring keys: creates, lists and revokes API keys."""

from __future__ import annotations

import click
import msgspec

from ..app import Mainspring
from ..records.api_key import ROLES, Role, key_id_of
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, span


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="What it may do.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Only this, e.g. jobs:write; may be repeated.")
@click.option("--expires", type=span, metavar="SPAN", help="How long it is valid, e.g. 30d.")
@as_json
@with_app
async def create(
    app: Mainspring, name: str, role: Role, scopes: tuple[str, ...], expires: float | None, as_json: bool
) -> None:
    """Create a key called NAME and print its secret, which is not shown again."""
    secret = await app.keys.create(name, role, scopes or None, expires)
    if as_json:
        key = await app.keys.by_id(key_id_of(secret) or "")
        return print_json({"key": msgspec.to_builtins(key), "secret": secret})
    click.echo(secret)
    return hint("it cannot be shown again; send it in the header Authorization, after the word Bearer")


@keys.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List valid keys, without their secrets."""
    found = await app.keys.list()
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint(f"{store_name(app)} has no API keys; make one: mainspring keys create NAME --role operator")
    from . import render

    return render.show(render.key_table(found, app.clock.now()))


@keys.command()
@click.argument("key", metavar="NAME|ID")
@as_json
@with_app
async def revoke(app: Mainspring, key: str, as_json: bool) -> None:
    """Revoke a key, and end the sessions that it opened."""
    revoked = await app.keys.revoke(key)
    if as_json:
        return print_json(msgspec.to_builtins(revoked))
    click.echo(f"API key {revoked.name!r} ({revoked.id}) is revoked")
    return hint("servers that have used it refuse it within 5 seconds")
