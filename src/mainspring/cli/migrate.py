"""mainspring migrate: the store's schema, step by step."""

from __future__ import annotations

import click
import msgspec

from ..app import Mainspring
from ..errors import BadInput
from . import records
from .confirm import confirm
from .loading import place, with_app
from .options import as_json, yes


@click.group()
def migrate() -> None:
    """Step the store's schema up or down.

    Opening a SQLite store brings it up to the newest version by itself.
    """


@migrate.command()
@as_json
@with_app
async def status(app: Mainspring, as_json: bool) -> None:
    """The version the store has, and the newest this release knows."""
    version, newest = await (await app.opened()).schema()
    if as_json:
        state = {"store": place(app), "version": version, "newest": newest, "current": version == newest}
        return records.emit(state)
    what = "up to date" if version == newest else "behind: mainspring migrate up"
    return click.echo(f"{place(app)} has schema {version} of {newest}: {what}")


@migrate.command()
@click.option("--to", "target", type=click.IntRange(0), metavar="N", help="Default: the newest version.")
@with_app
async def up(app: Mainspring, target: int | None) -> None:
    """Bring the schema up."""
    version, newest = await (await app.opened()).schema()
    wanted = newest if target is None else target
    if wanted < version:
        raise BadInput(f"the schema is {version} already; mainspring migrate down --to {wanted} goes back")
    _tell(app, version, await app.migrate(wanted))


@migrate.command()
@click.option("--to", "target", type=click.IntRange(0), metavar="N", help="Default: one step down.")
@yes
@with_app
async def down(app: Mainspring, target: int | None, yes: bool) -> None:
    """Take the schema back. Version 0 is an empty store: every job and its history is dropped."""
    version, _ = await (await app.opened()).schema()
    wanted = max(0, version - 1) if target is None else target
    if wanted > version:
        raise BadInput(f"the schema is {version}; mainspring migrate up --to {wanted} goes on")
    if wanted < version and not yes:
        confirm(await _question(app, wanted))
    _tell(app, version, await app.migrate(wanted))


async def _question(app: Mainspring, wanted: int) -> str:
    workers = len(await app.workers.list())
    running = f" {workers} running worker(s) will fail: stop them first." if workers else ""
    if wanted:
        return f"take the schema of {place(app)} back to version {wanted}?{running}"
    counts = msgspec.structs.asdict(await app.stats())
    jobs = sum(count for count in counts.values() if isinstance(count, int))
    return f"drop every table of {place(app)}? {jobs:,} job(s) and their history are lost.{running}"


def _tell(app: Mainspring, version: int, passed: list[int]) -> None:
    steps = " -> ".join(map(str, [version, *passed]))
    click.echo(f"{place(app)}: schema {steps}" + ("" if passed else ", nothing to do"))
