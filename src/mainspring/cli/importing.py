"""mainspring import: what other schedulers have been told, as schedules."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import IO, Any

import click
from msgspec.structs import replace

from ..app import Mainspring
from ..control import MAX_PAGE_ROWS
from ..errors import ScheduleExists
from ..schedule.options import payload_of
from ..schedule.record import CATCH_UPS, OVERLAPS, Schedule
from ..task.task import Task
from ..trigger.crontab import read
from . import records
from .crontab_lines import STATUSES, CrontabLine, Status, compared, differing, line_of
from .enqueue import task_of
from .failure import hint
from .loading import place, with_app
from .options import as_json
from .text import clean

LOOKS: dict[Status, tuple[str, str]] = {
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
    told = runner is not None and "user" in inspect.signature(runner.fn).parameters
    entries = read(file.read(), system=system, tz=tz, as_intervals=as_intervals)
    lines = [line_of(entry, prefix=prefix, passes_user=told) for entry in entries]
    if runner is not None:
        _check(app, runner, lines)
    lines = compared(lines, await _all(app), task)
    if write and runner is not None:
        wanted = ("new", "flagged") if flagged else ("new",)
        lines = [await _made(app, line, runner, policies) if line.status in wanted else line for line in lines]
    _report(app, getattr(file, "name", "<stdin>"), lines, write, as_json)


def _check(app: Mainspring, runner: Task[Any, Any], lines: Sequence[CrontabLine]) -> None:
    """Refuses a task that cannot be given a command line before anything is said or made."""
    for line in lines[:1]:
        payload_of(line.name, runner, line.kwargs, app.settings.payload_limit)


async def _all(app: Mainspring) -> list[Schedule]:
    found: list[Schedule] = []
    while page := await app.schedules.list(limit=MAX_PAGE_ROWS, after=found[-1].name if found else None):
        found += page
    return found


async def _made(app: Mainspring, line: CrontabLine, runner: Task[Any, Any], policies: dict[str, Any]) -> CrontabLine:
    try:
        said: dict[str, Any] = {**policies, "kwargs": line.kwargs}
        await app.schedules.create(line.name, line.trigger, runner, **said)
    except ScheduleExists as error:
        return differing(line, str(error))
    return replace(line, status="made")


def _report(app: Mainspring, file: str, lines: Sequence[CrontabLine], written: bool, as_json: bool) -> None:
    counts: dict[Status, int] = {status: sum(line.status == status for line in lines) for status in STATUSES}
    if as_json:
        return records.emit({"file": file, "written": written, **counts, "lines": [_record(line) for line in lines]})
    if not lines:
        return hint(f"{file} asks for nothing: it has no lines but empty ones and comments")
    _show(lines)
    click.echo(f"\n{', '.join(f'{count:,} {status}' for status, count in counts.items() if count)}")
    return hint(_way_on(app, counts, written))


def _record(line: CrontabLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in line.__struct_fields__} | {"meaning": line.rule}


def _show(lines: Sequence[CrontabLine]) -> None:
    from rich.text import Text

    from . import render

    table = render.grid("line", "became", "schedule", "when", "command", cut=("schedule", "when", "command"))
    table.columns[0].justify = "right"
    for line in lines:
        symbol, style = LOOKS[line.status]
        cells = [render.line(text) for text in (line.name, line.rule, line.kwargs["command"] or line.source)]
        table.add_row(str(line.number), Text(f"{symbol} {line.status}", style), *cells)
    reasons = [f"line {line.number}: {clean(reason)}" for line in lines for reason in line.reasons]
    render.show(table, *(render.section("reasons", "\n".join(reasons)) if reasons else []))


def _way_on(app: Mainspring, counts: dict[Status, int], written: bool) -> str:
    if not written:
        return (
            "nothing was written: --write --task NAME makes those that are new" if counts["new"] else "nothing to make"
        )
    said = f"schedules made in {place(app)}" if counts["made"] else f"nothing was changed in {place(app)}"
    return f"{said}; those flagged are left out: --flagged makes them, too" if counts["flagged"] else said
