"""mainspring dead: lists dead jobs by error, and redrives them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..records.query import Filter
from ..records.queue import DeadGroup
from .app_loader import store_name, with_app
from .filters import by_error, by_task, filter_of
from .job_changes import ChangeCommand, JobChoice, apply_change
from .job_edits import arg_option, parse_arg_options
from .json_output import job_record, print_json
from .messages import hint
from .options import as_json, yes

# Groups of dead jobs that are read.
MAX_GROUPS = 1000


@click.group()
def dead() -> None:
    """List dead jobs by error, and redrive them."""


@dead.command("list")
@by_task
@by_error
@click.option("--ids", is_flag=True, help="List the jobs themselves, newest death first.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="With --ids: continue after the previous page.")
@as_json
@with_app
async def list_(app: Mainspring, ids: bool, limit: int, after: str | None, as_json: bool, **parts: Any) -> None:
    """List dead jobs, grouped by task and error."""
    if after is not None and not ids:
        raise click.UsageError("--after goes on in the list of jobs: add --ids")
    which = await filter_of(app, parts)
    await (_jobs(app, which, limit, after, as_json) if ids else _groups(app, which, limit, as_json))


async def _jobs(app: Mainspring, which: Filter, limit: int, after: str | None, as_json: bool) -> None:
    page, now = await app.dead.list(which, limit=limit, after=after), app.clock.now()
    if as_json:
        print_json([job_record(job, now) for job in page])
    elif page:
        from . import render

        render.show(render.dead_table(page, now))
    if not page and not as_json:
        hint("no more dead jobs" if after is not None else _none(app, which))
    elif page.next is not None:
        hint(f"there may be more: --after {page.next}")


async def _groups(app: Mainspring, which: Filter, limit: int, as_json: bool) -> None:
    groups = await app.dead.groups(limit=MAX_GROUPS)
    found = [group for group in groups if _matches(group, which)]
    if as_json:
        print_json(msgspec.to_builtins(found[:limit]))
    elif not found:
        return hint(_none(app, which))
    else:
        from . import render

        render.show(render.group_table(found[:limit], app.clock.now()))
        hint("the jobs themselves: --ids; run them again: mainspring dead redrive --task NAME --error TEXT")
    if len(found) > limit:
        more = " or more" if len(groups) == MAX_GROUPS else ""
        hint(f"{limit:,} of {len(found):,}{more} kinds of failure: --limit shows more")
    return None


def _matches(group: DeadGroup, which: Filter) -> bool:
    return (which.tasks is None or group.task in which.tasks) and (which.errors is None or group.error in which.errors)


def _none(app: Mainspring, which: Filter) -> str:
    if which == Filter():
        return f"no job of {store_name(app)} is dead"
    return f"no dead job of {store_name(app)} fits these options; without them all are listed"


@dead.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All dead jobs; --task and --error narrow it.")
@by_task
@by_error
@arg_option
@yes
@as_json
@with_app
async def redrive(
    app: Mainspring,
    ids: tuple[str, ...],
    every: bool,
    args: Sequence[str],
    yes: bool,
    as_json: bool,
    **parts: Any,
) -> None:
    """Run dead jobs again, with all their retries.

    By id, by --task and --error, or --all. --arg changes some of their arguments; with an app, their tasks
    check them.
    """
    narrowed = any(parts.values())
    if ids and (every or narrowed):
        raise click.UsageError("ids say which jobs are meant: --all, --task and --error do not go with them")
    if not ids and not every and not narrowed:
        raise click.UsageError("which dead jobs? Give ids, --task NAME, --error TEXT, or --all")
    ids = tuple(dict.fromkeys(ids))
    which = Filter(ids=ids) if ids else await filter_of(app, parts | {"states": ("dead",)})
    act = app.dead.redrive
    if args:
        act = partial(act, arguments=await parse_arg_options(app, args, which))
    change = ChangeCommand(verb="redrive", done="pending again", needs=("dead",), act=act)
    await apply_change(app, change, JobChoice(ids=ids, which=which, yes=yes or bool(ids), as_json=as_json))
