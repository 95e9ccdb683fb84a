"""mainspring schedules create, update, pause, resume, reschedule, delete: by name."""

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
from .schedule_options import job_options, policies, policies_of, take_job, take_trigger, when

which_schedules = click.argument("names", nargs=-1, required=True, metavar="NAME...")
WHEN = "when? Give --cron '0 9 * * mon-fri', --every 5m or --at 2030-01-31T09:00:00Z"


@click.command()
@click.argument("name")
@click.option("--task", required=True, metavar="NAME", help="The task that it runs.")
@when
@policies
@click.option("--run-on-start", is_flag=True, help="Run once at creation.")
@job_options
@as_json
@with_app
async def create(app: Mainspring, name: str, task: str, run_on_start: bool, as_json: bool, **given: Any) -> None:
    """Create a schedule, which no deploy changes.

    With an app the task checks --kwargs before anything is stored.
    """
    trigger, own = take_trigger(given), take_job(given)
    if trigger is None:
        raise click.UsageError(WHEN)
    chosen, _ = task_of(app, task)
    said: dict[str, Any] = policies_of(given) | own
    if run_on_start:
        said["run_on_start"] = True
    row = await app.schedules.create(name, trigger, chosen, **said)
    _tell(app, row, "is made", as_json, ruled=True)
    _warn(row)


@click.command()
@click.argument("name")
@when
@policies
@job_options
@as_json
@with_app
async def update(app: Mainspring, name: str, as_json: bool, **given: Any) -> None:
    """Change a schedule; what is not given stays as it is.

    A schedule declared in code keeps the change until its declaration in the code changes.
    """
    spec = (await app.schedules.get(name)).spec
    trigger, own = take_trigger(given, spec), take_job(given)
    said = policies_of(given, spec) | own
    if trigger is None and not said:
        raise click.UsageError("what is to be changed? Give --cron, --every, --at, --kwargs, --overlap, …")
    row = await app.schedules.update(name, trigger=trigger, **said)
    _tell(app, row, "is changed", as_json, ruled=True)
    if trigger is not None:
        _warn(row)


@click.command()
@which_schedules
@click.option("--note", default="", metavar="TEXT", help="The reason; kept with the schedule.")
@as_json
@with_app
async def pause(app: Mainspring, names: tuple[str, ...], note: str, as_json: bool) -> None:
    """Pause schedules: they create no jobs. Running jobs finish."""
    names = await _known(app, names)
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
    names = await _known(app, names)
    before = [await app.schedules.get(name) for name in names]
    rows = [await app.schedules.resume(name, catch_up=catch_up) for name in names]
    if as_json:
        return print_json([schedule_record(row) for row in rows])
    for old, row in zip(before, rows, strict=True):
        _tell(app, row, "goes on" if old.paused_at is not None else "was not paused", as_json)
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
    moved = at if later is None else app.clock.now() + timedelta(seconds=later)
    assert moved is not None
    _tell(app, await app.schedules.reschedule(name, moved), "is moved", as_json)


@click.command()
@which_schedules
@as_json
@with_app
async def delete(app: Mainspring, names: tuple[str, ...], as_json: bool) -> None:
    """Delete schedules and their history; jobs that they have created stay."""
    names = await _known(app, names)
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


async def _known(app: Mainspring, names: Sequence[str]) -> tuple[str, ...]:
    """Each once; one that is unknown is told before anything is done."""
    return tuple(dict.fromkeys([(await app.schedules.get(name)).name for name in names]))


def _tell(app: Mainspring, row: Schedule, what: str, as_json: bool, *, ruled: bool = False) -> None:
    if as_json:
        return print_json(schedule_record(row))
    from .schedule_page import coming, rule

    said = f"{what}: {rule(row)}" if ruled else what
    return click.echo(f"schedule {row.name!r} {said}; {coming(row, app.clock.now())}")


def _warn(row: Schedule) -> None:
    for text in row.spec.trigger.named(row.name).warnings():
        note("warning", text, "yellow")
