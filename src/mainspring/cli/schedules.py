"""mainspring schedules: lists, shows, triggers and backfills schedules; schedule_changes has the other commands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, get_args

import click
import msgspec

from ..app import Mainspring
from ..control.schedule_ticks import MAX_TICKS
from ..control.schedules import Backfill
from ..schedule.record import Owner, Schedule, Status
from .app_loader import store_name, with_app
from .confirm import confirm
from .json_output import preview_records, print_json, schedule_record
from .messages import hint
from .options import as_json, json_object, moment, yes
from .schedule_bulk import bulk
from .schedule_changes import create, delete, pause, reschedule, resume, update
from .schedule_history import executions, stats
from .schedule_spread import spread

# Ticks on the page of one schedule.
NEXT_TICKS = 5
PAST_TICKS = 10


@click.group()
def schedules() -> None:
    """List, show and change schedules."""


@schedules.command("list")
@click.option("--task", metavar="NAME", help="Schedules of this task.")
@click.option("--status", type=click.Choice(get_args(Status)), help="ended: it has no more ticks.")
@click.option("--owner", type=click.Choice(get_args(Owner)), help="Declared in code, or created by a user.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=100, show_default=True)
@click.option("--after", metavar="NAME", help="Continue after this name.")
@as_json
@with_app
async def list_(app: Mainspring, limit: int, after: str | None, as_json: bool, **which: Any) -> None:
    """List schedules by name."""
    rows = await app.schedules.list(limit=limit, after=after, **which)
    if as_json:
        print_json([schedule_record(row) for row in rows])
    elif rows:
        from . import render, schedule_page

        render.show(schedule_page.schedule_table(rows, app.clock.now()))
    if len(rows) == limit:
        hint(f"there may be more: --after {rows[-1].name}")
    elif not rows and not as_json:
        hint(_none(app, which, after))


def _none(app: Mainspring, which: dict[str, Any], after: str | None) -> str:
    if after is not None:
        return "no more schedules"
    if any(which.values()):
        return f"no schedule of {store_name(app)} fits these options; without them all are listed"
    example = "mainspring schedules create NAME --task TASK --cron '0 9 * * *'"
    return f"{store_name(app)} holds no schedules; make one: {example}"


@schedules.command()
@click.argument("name")
@as_json
@with_app
async def show(app: Mainspring, name: str, as_json: bool) -> None:
    """Show one schedule: its rule, its next ticks, and how the last ones went."""
    row, figures = await app.schedules.get(name), await app.schedules.stats(name)
    upcoming, ticks = await app.schedules.preview(name, NEXT_TICKS), await app.schedules.ticks(name, limit=PAST_TICKS)
    if as_json:
        history = {"next": preview_records(upcoming), "newest": [msgspec.structs.asdict(tick) for tick in ticks]}
        return print_json(schedule_record(row) | {"stats": figures} | history)
    from . import render, schedule_page

    return render.show(*schedule_page.schedule_page(row, figures, ticks, upcoming, app.clock.now()))


@schedules.command()
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 1000), metavar="N", default=10, show_default=True)
@as_json
@with_app
async def preview(app: Mainspring, name: str, count: int, as_json: bool) -> None:
    """Show the next ticks of a schedule, and how clock changes affect them."""
    row, upcoming = await app.schedules.get(name), await app.schedules.preview(name, count)
    if as_json:
        return print_json(preview_records(upcoming))
    if not upcoming:
        return hint(f"schedule {name!r} has no tick to come")
    from . import render, schedule_page

    render.show(schedule_page.preview_table(upcoming, row.spec.trigger.tz, app.clock.now()))
    if row.paused_at is not None:
        hint(f"these are its ticks if it is resumed now: mainspring schedules resume {name}")
    return None


@schedules.command()
@click.argument("name")
@click.option("--kwargs", type=json_object, metavar="JSON", help="Arguments in place of its own, as a JSON object.")
@as_json
@with_app
async def trigger(app: Mainspring, name: str, kwargs: dict[str, Any] | None, as_json: bool) -> None:
    """Run a schedule now, once, and print the job's id; its next tick stays."""
    handle = await app.schedules.trigger(name, kwargs=kwargs)
    return print_json({"id": handle.id}) if as_json else click.echo(handle.id)


@schedules.command()
@click.argument("name")
@click.option(
    "--start", type=moment, required=True, metavar="INSTANT|SPAN", help="From this time on; 2d: two days ago."
)
@click.option("--end", type=moment, metavar="INSTANT|SPAN", help="Up to this time. Default: now.")
@click.option("--limit", type=click.IntRange(1, MAX_TICKS), metavar="N", default=1000, show_default=True)
@click.option("--dry-run", is_flag=True, help="Only list the ticks.")
@yes
@as_json
@with_app
async def backfill(
    app: Mainspring,
    name: str,
    start: datetime | timedelta,
    end: datetime | timedelta | None,
    limit: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create jobs for past ticks that have none.

    They may overlap other runs, and their failures do not pause the schedule.
    """
    row, now = await app.schedules.get(name), app.clock.now()
    first, last = (now - at if isinstance(at, timedelta) else at for at in (start, end or now))
    found = await app.schedules.backfill(name, first, last, dry_run=True, limit=limit)
    if not dry_run and found.made:
        if not yes:
            confirm(f"make {_jobs(found)} of schedule {name!r}, {_range(found)}, in {store_name(app)}?")
        found = await app.schedules.backfill(name, first, last, limit=limit)
    _print_backfill(row, found, as_json)


def _print_backfill(row: Schedule, found: Backfill, as_json: bool) -> None:
    if as_json:
        return print_json({"schedule": row.name, **msgspec.structs.asdict(found)})
    there = f"{len(found.there):,} of these ticks {'has its' if len(found.there) == 1 else 'have their'} job already"
    if not found.made:
        return hint(f"nothing to make: {there if found.there else f'schedule {row.name!r} has no tick there'}")
    if found.dry_run:
        from .schedule_page import local_time

        for at in found.made:
            click.echo(local_time(at, row.spec.trigger.tz))
    click.echo(f"{_jobs(found)} {'would be' if found.dry_run else 'made'}{' made' * found.dry_run}, {_range(found)}")
    return hint(there) if found.there else None


def _jobs(found: Backfill) -> str:
    return f"{len(found.made):,} job{'s' * (len(found.made) != 1)}"


def _range(found: Backfill) -> str:
    ticks: Sequence[datetime] = found.made
    first, last = (f"{at:%Y-%m-%d %H:%M:%S}Z" for at in (ticks[0], ticks[-1]))
    return f"for the tick {first}" if first == last else f"for the ticks from {first} to {last}"


for command in (create, update, pause, resume, reschedule, delete, bulk, spread, stats, executions):
    schedules.add_command(command)
