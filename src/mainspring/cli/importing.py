"""mainspring import: creates schedules from a crontab."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import IO, Any

import click
from msgspec.structs import replace

from ..app import Mainspring
from ..control import MAX_PAGE_ROWS
from ..errors import ScheduleExists
from ..schedule.options import encode_arguments
from ..schedule.record import CATCH_UPS, OVERLAPS, Schedule
from ..task.task import Task
from ..trigger.crontab import parse as parse_crontab
from .app_loader import store_name, with_app
from .crontab_lines import STATUSES, CrontabLine, Status, compare_lines, to_line, with_conflict
from .enqueue import task_of
from .json_output import print_json
from .messages import clean, hint
from .options import as_json

MARKS: dict[Status, tuple[str, str]] = {
    "made": ("✓", "green"),
    "new": ("+", "cyan"),
    "there": ("=", "dim"),
    "differs": ("≠", "bold red"),
    "flagged": ("!", "bold yellow"),
    "refused": ("✗", "red"),
    "ignored": ("–", "dim"),
}


@click.group("import")
def importing() -> None:
    """Import schedules from a crontab."""


@importing.command()
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"))
@click.option("--task", metavar="NAME", help="The task that runs a command line, its parameter `command`.")
@click.option("--system", is_flag=True, help="Lines name a user, as in /etc/crontab.")
@click.option(
    "--tz",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="The machine's time zone; CRON_TZ lines are honoured.",
)
@click.option("--as-intervals", is_flag=True, help="Create intervals where they mean exactly the same.")
@click.option("--prefix", metavar="TEXT", default="", help="A prefix for every name.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="allow",
    show_default=True,
    help="If the previous run is still running; cron allows it.",
)
@click.option(
    "--catch-up",
    type=click.Choice(CATCH_UPS),
    default="skip",
    show_default=True,
    help="Ticks missed while no worker was running; cron skips them.",
)
@click.option("--write", is_flag=True, help="Create the new schedules. Without it nothing is changed.")
@click.option("--flagged", is_flag=True, help="With --write: create flagged ones, too. Read the report first.")
@as_json
@with_app
async def crontab(
    app: Mainspring,
    file: IO[str],
    task: str | None,
    system: bool,
    tz: str,
    as_intervals: bool,
    prefix: str,
    write: bool,
    flagged: bool,
    as_json: bool,
    **policies: Any,
) -> None:
    """Import the lines of a crontab FILE, or of stdin with -, as schedules.

    Prints a report; --write creates the schedules. Lines that would behave differently here than under cron are
    flagged with the reason, and left out. Importing the same file again changes nothing.
    """
    if write and task is None:
        raise click.UsageError("which task runs the command lines? Give --task NAME; it gets each as `command`")
    if flagged and not write:
        raise click.UsageError("--flagged goes with --write; the report names them anyway")
    runner = None if task is None else task_of(app, task)[0]
    passes_user = runner is not None and "user" in inspect.signature(runner.fn).parameters
    entries = parse_crontab(file.read(), system=system, tz=tz, as_intervals=as_intervals)
    lines = [to_line(entry, prefix=prefix, passes_user=passes_user) for entry in entries]
    if runner is not None:
        _check(app, runner, lines)
    lines = compare_lines(lines, await _all_schedules(app), task)
    if write and runner is not None:
        created = ("new", "flagged") if flagged else ("new",)
        lines = [await _create(app, line, runner, policies) if line.status in created else line for line in lines]
    _report(app, getattr(file, "name", "<stdin>"), lines, write, as_json)


def _check(app: Mainspring, runner: Task[Any, Any], lines: Sequence[CrontabLine]) -> None:
    """Raises BadInput if the task does not accept a command line."""
    for line in lines[:1]:
        encode_arguments(line.name, runner, line.kwargs, app.settings.payload_limit)


async def _all_schedules(app: Mainspring) -> list[Schedule]:
    found: list[Schedule] = []
    while page := await app.schedules.list(limit=MAX_PAGE_ROWS, after=found[-1].name if found else None):
        found += page
    return found


async def _create(app: Mainspring, line: CrontabLine, runner: Task[Any, Any], policies: dict[str, Any]) -> CrontabLine:
    try:
        options: dict[str, Any] = {**policies, "kwargs": line.kwargs}
        await app.schedules.create(line.name, line.trigger, runner, **options)
    except ScheduleExists as error:
        return with_conflict(line, str(error))
    return replace(line, status="made")


def _report(app: Mainspring, file: str, lines: Sequence[CrontabLine], written: bool, as_json: bool) -> None:
    counts: dict[Status, int] = {status: sum(line.status == status for line in lines) for status in STATUSES}
    if as_json:
        return print_json({"file": file, "written": written, **counts, "lines": [_record(line) for line in lines]})
    if not lines:
        return hint(f"{file} has no schedules: only empty lines and comments")
    _show(lines)
    click.echo(f"\n{', '.join(f'{count:,} {status}' for status, count in counts.items() if count)}")
    return hint(_next_step(app, counts, written))


def _record(line: CrontabLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in line.__struct_fields__} | {"meaning": line.rule}


def _show(lines: Sequence[CrontabLine]) -> None:
    from rich.text import Text

    from . import render

    table = render.grid("line", "became", "schedule", "when", "command", cut=("schedule", "when", "command"))
    table.columns[0].justify = "right"
    for line in lines:
        symbol, style = MARKS[line.status]
        cells = [render.line(text) for text in (line.name, line.rule, line.kwargs["command"] or line.source)]
        table.add_row(str(line.number), Text(f"{symbol} {line.status}", style), *cells)
    reasons = [f"line {line.number}: {clean(reason)}" for line in lines for reason in line.reasons]
    render.show(table, *(render.section("reasons", "\n".join(reasons)) if reasons else []))


def _next_step(app: Mainspring, counts: dict[Status, int], written: bool) -> str:
    if not written:
        return (
            "nothing was written: --write --task NAME makes those that are new" if counts["new"] else "nothing to make"
        )
    done = f"schedules made in {store_name(app)}" if counts["made"] else f"nothing was changed in {store_name(app)}"
    return f"{done}; those flagged are left out: --flagged makes them, too" if counts["flagged"] else done
