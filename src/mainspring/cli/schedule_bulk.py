"""mainspring schedules bulk: one action on many schedules."""

from __future__ import annotations

from typing import Any, get_args

import click
import msgspec

from ..app import Mainspring
from ..control import ScheduleBulk, ScheduleFilter
from ..schedule.record import Owner, Status
from .app_loader import store_name, with_app
from .confirm import confirm
from .json_output import print_json
from .messages import Failed, hint
from .options import as_json, yes

_DONE = {"pause": "paused", "resume": "resumed", "trigger": "triggered", "delete": "deleted"}
_MAX_REFUSALS_SHOWN = 10


@click.command()
@click.argument("action", type=click.Choice(list(_DONE)))
@click.option("--name", "names", multiple=True, metavar="NAME", help="This schedule. May be repeated.")
@click.option("--match", "q", metavar="TEXT", help="Schedules with this text in their name.")
@click.option("--task", metavar="NAME", help="Schedules of this task.")
@click.option("--status", type=click.Choice(get_args(Status)), help="ended: it has no more ticks.")
@click.option("--owner", type=click.Choice(get_args(Owner)), help="Declared in code, or created by a user.")
@click.option("--all", "every", is_flag=True, help="All of them; the options above narrow it.")
@click.option("--note", default="", metavar="TEXT", help="With pause: the reason; kept with the schedules.")
@click.option(
    "--catch-up",
    is_flag=True,
    help="With resume: catch up on ticks missed during the pause, by each schedule's policy.",
)
@click.option("--dry-run", is_flag=True, help="Only list the schedules that would be changed.")
@yes
@as_json
@with_app
async def bulk(
    app: Mainspring,
    action: str,
    every: bool,
    note: str,
    catch_up: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Pause, resume, trigger or delete many schedules, by name or by filter."""
    parts = {name: value for name, value in given.items() if value not in (None, ())}
    if not parts and not every:
        raise click.UsageError("which schedules? Give --name, --match, --task, --status, --owner, or --all")
    for option, allowed in (("note", "pause"), ("catch_up", "resume")):
        if {"note": note, "catch_up": catch_up}[option] and action != allowed:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with {allowed}, and only with that")
    which = ScheduleFilter(**parts)
    by_action: dict[str, dict[str, Any]] = {"pause": {"reason": note}, "resume": {"catch_up": catch_up}}
    extra = by_action.get(action, {})
    if dry_run or not yes:
        planned = await _apply(app, action, which, extra, dry_run=True)
        if dry_run or not planned.done:
            return _print_report(app, action, planned, as_json)
        confirm(f"{action} {_schedules_text(len(planned.done))} in {store_name(app)}?")
    return _print_report(app, action, await _apply(app, action, which, extra, dry_run=False), as_json)


async def _apply(
    app: Mainspring, action: str, which: ScheduleFilter, extra: dict[str, Any], *, dry_run: bool
) -> ScheduleBulk:
    """Applies the action page by page, and returns the sum of the pages."""
    total, after = ScheduleBulk(done=[], refused={}, jobs={}, dry_run=dry_run), None
    while True:
        part = await getattr(app.schedules.many, action)(which, **extra, after=after, dry_run=dry_run)
        total.done.extend(part.done)
        total.refused.update(part.refused)
        total.jobs.update(part.jobs)
        after = part.next
        if after is None:
            return total


def _print_report(app: Mainspring, action: str, result: ScheduleBulk, as_json: bool) -> None:
    if as_json:
        print_json({"action": action, **msgspec.to_builtins(result)})
    elif not result.done and not result.refused:
        hint(f"nothing to {action}: no schedule of {store_name(app)} fits these options")
    else:
        _print_done(action, result)
    for name, why in [] if as_json else list(result.refused.items())[:_MAX_REFUSALS_SHOWN]:
        hint(f"{name}: {why}")
    if result.refused:
        raise Failed(f"{len(result.refused):,} of {len(result.refused) + len(result.done):,} schedules refused")


def _print_done(action: str, result: ScheduleBulk) -> None:
    if result.dry_run:
        for name in result.done:
            click.echo(name)
    be = "would be" if result.dry_run else "is" if len(result.done) == 1 else "are"
    click.echo(f"{_schedules_text(len(result.done))} {be} {_DONE[action]}")


def _schedules_text(count: int) -> str:
    return f"{count:,} schedule{'s' * (count != 1)}"
