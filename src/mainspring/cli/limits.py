"""mainspring limits: lists and changes limits, and shows which keys wait for them."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from ..app import Mainspring
from ..control.limits import MAX_LISTED_GROUPS
from ..errors import BadInput
from ..records.limit import LimitGroup, StoredLimit, group_key
from ..task.limit import Limit
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, span

_ANY = "none"


def _number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == _ANY:
        return value
    if not value.isascii() or not value.isdecimal():
        raise click.BadParameter(f"{value!r} is no whole number, and not {_ANY!r}")
    return int(value)


@click.group()
def limits() -> None:
    """List and change limits of tasks, and show who waits."""


@limits.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List limits, each with its running jobs and its keys."""
    found = await app.limits.list()
    if as_json:
        shown = ({**_numbers(use.limit), "jobs_running": use.running, "keys": use.groups} for use in found)
        return print_json(list(shown))
    if not found:
        return hint(f"{store_name(app)} has no limits; a worker stores those that tasks have: @app.task(limit=…)")
    from . import render

    table = render.grid("limit", "running", "total", "rate", "by", "jobs running", "keys", cut=("limit", "by"))
    for use in found:
        one = use.limit
        by = ", ".join(one.by)
        numbers = (_shown(one.running), _shown(one.total), _rate(one))
        table.add_row(render.line(one.name), *numbers, render.line(by), f"{use.running:,}", f"{use.groups:,}")
    return render.show(table)


@limits.command()
@click.argument("name")
@click.option("--key", metavar="TEXT", help="Only this key.")
@click.option("--limit", type=click.IntRange(1, MAX_LISTED_GROUPS), default=20, show_default=True, metavar="N")
@as_json
@with_app
async def show(app: Mainspring, name: str, key: str | None, limit: int, as_json: bool) -> None:
    """Show the keys of limit NAME (task:charge) that have running or waiting jobs, the fullest first."""
    found = await app.limits.groups(name, key=key, limit=limit)
    if as_json:
        return print_json([_group(group) for group in found])
    if not found:
        return hint(f"no job of {name!r} runs or waits" + (f" with key {key!r}" if key is not None else ""))
    from . import render

    now = app.clock.now()
    table = render.grid("key", "running", "waiting", "next", "held by", cut=("key", "held by"))
    for group in found:
        opens = "" if group.next_at is None else render.when(group.next_at, now)
        held = render.line(" ".join(group.holders))
        table.add_row(render.line(group_key(group.limit_key)), f"{group.running:,}", f"{group.waiting:,}", opens, held)
    return render.show(table)


@limits.command("set")
@click.argument("name")
@click.option("--running", callback=_number, metavar="N", help="Jobs of one key that run at once; 0: none starts.")
@click.option("--total", callback=_number, metavar="N", help="Jobs of all keys that run at once.")
@click.option("--rate", callback=_number, metavar="N", help="Jobs of one key that start within --per.")
@click.option("--per", metavar="SPAN", help="The time of --rate: 1s, 1m, …")
@click.option("--burst", type=int, metavar="N", help="Jobs of one key that may start at once after a rest.")
@with_app
async def set_(
    app: Mainspring,
    name: str,
    running: int | str | None,
    total: int | str | None,
    rate: int | str | None,
    per: str | None,
    burst: int | None,
) -> None:
    """Change the numbers that are given of limit NAME (task:charge), while its jobs wait and run."""
    given: dict[str, Any] = {"running": running, "total": total, "rate": rate, "burst": burst}
    given["per"] = None if per is None else span(per)
    given = {option: None if value == _ANY else value for option, value in given.items() if value is not None}
    if not given:
        raise click.UsageError("say what to change: --running, --total, --rate, --per or --burst")
    known = next((use.limit for use in await app.limits.list() if use.limit.name == name), None)
    if known is None:
        names = ", ".join(use.limit.name for use in await app.limits.list()) or "none"
        raise BadInput(f"there is no limit {name!r}; known: {names}")
    numbers = {field: getattr(known, field) for field in ("running", "total", "rate", "per", "burst")} | given
    if numbers["rate"] is None:
        numbers = {**numbers, "per": given.get("per", 1.0), "burst": given.get("burst", 1)}
    await app.limits.set(name, Limit(**numbers))
    changed = next(use.limit for use in await app.limits.list() if use.limit.name == name)
    click.echo(
        f"limit {name!r}: running {_shown(changed.running)}, total {_shown(changed.total)}, rate {_rate(changed)}"
    )


@limits.command()
@click.argument("name")
@with_app
async def remove(app: Mainspring, name: str) -> None:
    """Remove limit NAME: its jobs only take turns. A worker whose code says it sets it again."""
    known = [use.limit.name for use in await app.limits.list()]
    await app.limits.remove(name)
    if name in known:
        return click.echo(f"limit {name!r} is removed")
    return click.echo(f"there was no limit {name!r} (known: {', '.join(known) or 'none'})")


def _numbers(limit: StoredLimit) -> dict[str, Any]:
    numbers = asdict(limit)
    del numbers["declared"]
    return {**numbers, "by": list(limit.by)}


def _group(group: LimitGroup) -> Any:
    shown = msgspec.to_builtins(group)
    del shown["limit_key"]
    return {"key": group_key(group.limit_key), **shown}


def _shown(number: int | None) -> str:
    return "any" if number is None else f"{number:,}"


def _rate(limit: StoredLimit) -> str:
    from . import render

    if limit.rate is None:
        return "any"
    burst = f", burst {limit.burst:,}" if limit.burst > 1 else ""
    return f"{limit.rate:,} in {render.span(limit.per)}{burst}"
