"""mainspring schedules create, update, pause, resume, reschedule, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from ..app import Mainspring
from ..schedule.record import Schedule
from .app_loader import with_app
from .enqueue import task_of
from .json_output import print_json, schedule_record
from .messages import hint, note
from .options import as_json, instant, span
from .schedule_options import (
    job_options,
    parse_policies,
    policy_options,
    take_job_options,
    take_trigger,
    trigger_options,
)

which_schedules = click.argument("names", nargs=-1, required=True, metavar="NAME...")
WHEN_HINT = "when? Give --cron '0 9 * * mon-fri', --every 5m or --at 2030-01-31T09:00:00Z"


@click.command()
@click.argument("name")
@click.option("--task", required=True, metavar="NAME", help="The task that it runs.")
@trigger_options
@policy_options
@click.option("--run-on-start", is_flag=True, help="Run once at creation.")
@job_options
@as_json
@with_app
async def create(app: Mainspring, name: str, task: str, run_on_start: bool, as_json: bool, **given: Any) -> None:
    """Create a schedule, which no deploy changes.

    With an app the task checks --kwargs before anything is stored.
    """
    trigger, own = take_trigger(given), take_job_options(given)
    if trigger is None:
        raise click.UsageError(WHEN_HINT)
    chosen, _ = task_of(app, task)
    options: dict[str, Any] = parse_policies(given) | own
    if run_on_start:
        options["run_on_start"] = True
    row = await app.schedules.create(name, trigger, chosen, **options)
    _print_schedule(app, row, "is made", as_json, ruled=True)
    _warn(row)


@click.command()
@click.argument("name")
@trigger_options
@policy_options
@job_options
@as_json
@with_app
async def update(app: Mainspring, name: str, as_json: bool, **given: Any) -> None:
    """Change a schedule; what is not given stays as it is.

    A schedule declared in code keeps the change until its declaration in the code changes.
    """
    spec = (await app.schedules.get(name)).spec
    trigger, own = take_trigger(given, spec), take_job_options(given)
    options = parse_policies(given, spec) | own
    if trigger is None and not options:
        raise click.UsageError("what is to be changed? Give --cron, --every, --at, --kwargs, --overlap, …")
    row = await app.schedules.update(name, trigger=trigger, **options)
    _print_schedule(app, row, "is changed", as_json, ruled=True)
    if trigger is not None:
        _warn(row)


@click.command()
@which_schedules
@click.option("--note", default="", metavar="TEXT", help="The reason; kept with the schedule.")
@as_json
@with_app
async def pause(app: Mainspring, names: tuple[str, ...], note: str, as_json: bool) -> None:
    """Pause schedules: they create no jobs. Running jobs finish."""
    names = await _checked_names(app, names)
    rows = [await app.schedules.pause(name, note) for name in names]
    if as_json:
        return print_json([schedule_record(row) for row in rows])
    for name in names:
        click.echo(f"schedule {name!r} is paused")
    return hint(f"to go on: mainspring schedules resume {' '.join(names)}")


@click.command()
@which_schedules
@click.option(
    "--catch-up", is_flag=True, help="Catch up on ticks missed during the pause, by its policy; else they are skipped."
)
@as_json
@with_app
async def resume(app: Mainspring, names: tuple[str, ...], catch_up: bool, as_json: bool) -> None:
    """Resume paused schedules."""
    names = await _checked_names(app, names)
    before = [await app.schedules.get(name) for name in names]
    rows = [await app.schedules.resume(name, catch_up=catch_up) for name in names]
    if as_json:
        return print_json([schedule_record(row) for row in rows])
    for old, row in zip(before, rows, strict=True):
        _print_schedule(app, row, "goes on" if old.paused_at is not None else "was not paused", as_json)
    return None


@click.command()
@click.argument("name")
@click.option("--at", type=instant, metavar="INSTANT", help="At this time: 2030-01-31T09:00:00Z.")
@click.option("--in", "later", type=span, metavar="SPAN", help="This long from now: 90, 5m, 2h.")
@as_json
@with_app
async def reschedule(app: Mainspring, name: str, at: datetime | None, later: float | None, as_json: bool) -> None:
    """Move a schedule's next tick; later ticks follow its rule."""
    if (at is None) == (later is None):
        raise click.UsageError("when? Give --at INSTANT or --in SPAN")
    next_at = at if later is None else app.clock.now() + timedelta(seconds=later)
    assert next_at is not None
    _print_schedule(app, await app.schedules.reschedule(name, next_at), "is moved", as_json)


@click.command()
@which_schedules
@as_json
@with_app
async def delete(app: Mainspring, names: tuple[str, ...], as_json: bool) -> None:
    """Delete schedules and their history; jobs that they have created stay."""
    names = await _checked_names(app, names)
    rows = [await app.schedules.get(name) for name in names]
    for name in names:
        await app.schedules.delete(name)
    if as_json:
        return print_json({"deleted": names})
    for row in rows:
        click.echo(f"schedule {row.name!r} is deleted")
        if row.owner == "code":
            hint(
                f"{row.name!r} is declared in code, and comes back when that runs next: pause it, or take it out there"
            )
    return None


async def _checked_names(app: Mainspring, names: Sequence[str]) -> tuple[str, ...]:
    """The names without repetitions. Raises ScheduleNotFound before anything is changed."""
    return tuple(dict.fromkeys([(await app.schedules.get(name)).name for name in names]))


def _print_schedule(app: Mainspring, row: Schedule, done: str, as_json: bool, *, ruled: bool = False) -> None:
    if as_json:
        return print_json(schedule_record(row))
    from .schedule_page import next_run_text, rule

    text = f"{done}: {rule(row)}" if ruled else done
    return click.echo(f"schedule {row.name!r} {text}; {next_run_text(row, app.clock.now())}")


def _warn(row: Schedule) -> None:
    for text in row.spec.trigger.named(row.name).warnings():
        note("warning", text, "yellow")
