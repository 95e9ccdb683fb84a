"""mainspring migrate: upgrades and downgrades the store's schema."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from ..app import Mainspring
from ..errors import BadInput, StoreError
from ..records.schema import Schema
from .app_loader import store_name, with_closed_app
from .confirm import confirm
from .json_output import print_json
from .options import as_json, yes

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def migrate() -> None:
    """Upgrade or downgrade the store's schema.

    An app upgrades its store when it first uses it, if its database user may change tables. These commands change
    the schema only when you ask for it.
    """


def sql(command: F) -> F:
    """Adds --sql and --from: print the statements instead of running them."""
    start = click.option(
        "--from",
        "start",
        type=click.IntRange(0),
        metavar="N",
        help="With --sql: start from this version, without a server.",
    )
    only = click.option("--sql", "only_sql", is_flag=True, help="Print the SQL statements for psql, and run nothing.")
    return only(start(command))


@migrate.command()
@as_json
@with_closed_app
async def status(app: Mainspring, as_json: bool) -> None:
    """Show the store's schema version, and the newest that this release knows."""
    found = await _schema(app)
    if as_json:
        state = {"store": store_name(app), "version": found.version, "newest": found.newest, "oldest": found.oldest}
        return print_json({**state, "current": found.version == found.newest, "usable": found.usable})
    return click.echo(f"{store_name(app)} has schema {found.version} of {found.newest}: {_verdict(found)}")


def _verdict(found: Schema) -> str:
    if found.version == found.newest:
        return "up to date"
    if found.version < found.newest:
        return "behind: mainspring migrate up"
    return "of a later release; this one can work with it" if found.usable else "too new: upgrade mainspring here"


@migrate.command()
@click.option("--to", "target", type=click.IntRange(0), metavar="N", help="Default: the newest version.")
@sql
@with_closed_app
async def up(app: Mainspring, target: int | None, only_sql: bool, start: int | None) -> None:
    """Upgrade the schema."""
    at = await _start(app, only_sql, start)
    if target is not None and target < at:
        raise BadInput(f"the schema is {at} already; mainspring migrate down --to {target} goes back")
    if only_sql:
        return click.echo(app.migration(at, target), nl=False)
    return _print_steps(app, at, await app.migrate(target))


@migrate.command()
@click.option("--to", "target", type=click.IntRange(0), metavar="N", help="Default: one version down.")
@yes
@sql
@with_closed_app
async def down(app: Mainspring, target: int | None, yes: bool, only_sql: bool, start: int | None) -> None:
    """Downgrade the schema. Version 0 is an empty store: all jobs and their history are dropped."""
    at = await _start(app, only_sql, start)
    wanted = max(0, at - 1) if target is None else target
    if wanted > at:
        raise BadInput(f"the schema is {at}; mainspring migrate up --to {wanted} goes on")
    if only_sql:
        return click.echo(app.migration(at, wanted), nl=False)
    if wanted < at and not yes:
        confirm(await _question(app, wanted))
    return _print_steps(app, at, await app.migrate(wanted))


async def _start(app: Mainspring, only_sql: bool, start: int | None) -> int:
    """The version to migrate from."""
    if start is None:
        return (await _schema(app)).version
    if not only_sql:
        raise click.UsageError("--from says where to begin without asking the store: it goes with --sql")
    return start


async def _schema(app: Mainspring) -> Schema:
    async with app.connect_unmigrated() as store:
        return await store.schema()


async def _question(app: Mainspring, wanted: int) -> str:
    if wanted:
        return f"take the schema of {store_name(app)} back to version {wanted}?"
    jobs = "all jobs"
    with suppress(StoreError):  # tables of another version cannot be counted
        async with app.connect_unmigrated() as store:
            jobs = f"{sum((await store.overview(now=app.clock.now())).states.values()):,} job(s)"
    return f"drop every table of {store_name(app)}? {jobs} and their history are lost."


def _print_steps(app: Mainspring, version: int, passed: list[int]) -> None:
    steps = " -> ".join(map(str, [version, *passed]))
    click.echo(f"{store_name(app)}: schema {steps}" + ("" if passed else ", nothing to do"))
