"""mainspring jobs logs: prints the log lines of a job, and follows them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..ids import JobId
from ..records.run import LogLine
from .app_loader import with_app
from .json_output import print_json
from .messages import Failed, hint
from .options import as_json

LEVELS = ("debug", "info", "warning", "error", "critical")
_LEVEL = f"This and above: {', '.join(LEVELS)}."


@click.command()
@click.argument("id")
@click.option("--follow", "-f", is_flag=True, help="Print new lines as they come, until the job has ended.")
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), metavar="LEVEL", help=_LEVEL)
@click.option("--run", type=click.IntRange(1), metavar="N", help="Only this run, as `jobs show` numbers them.")
@as_json
@with_app
async def logs(app: Mainspring, id: JobId, follow: bool, level: str | None, run: int | None, as_json: bool) -> None:
    """Print the log lines of a job's runs, oldest first.

    --follow prints new lines as they are logged, until Ctrl-C; --json then prints one JSON document per line.
    """
    job = await app.jobs.get(id)
    if run is not None and run > job.runs and not follow:
        raise Failed(f"job {id} has begun {job.runs} run{'s' * (job.runs != 1)}, so there is no run {run}")
    min_level = logging.getLevelNamesMapping()[(level or "notset").upper()]
    lines = _selected(
        app.jobs.tail(id, after=(run or 0, 0)) if follow else _stored_lines(app, id, run or 0), run, min_level
    )
    if as_json and not follow:
        return print_json([_record(line) async for line in lines])
    printed = await _print(lines, as_json)
    if follow:
        hint(f"job {id} is {(await app.jobs.get(id)).shown(app.clock.now())}")
    elif not printed:
        about = f" in run {run}" * (run is not None) + f" at level {level} or above" * (level is not None)
        hint(f"job {id} has logged nothing{about or ' so far'}")
    return None


async def _stored_lines(app: Mainspring, id: JobId, run: int) -> AsyncIterator[LogLine]:
    after = (run, 0)
    while lines := await app.jobs.logs(id, after=after):
        for line in lines:
            yield line
        after = (lines[-1].run, lines[-1].n)


async def _selected(lines: AsyncIterator[LogLine], run: int | None, min_level: int) -> AsyncIterator[LogLine]:
    async for line in lines:
        if run is not None and line.run > run:
            return
        if line.level >= min_level:
            yield line


async def _print(lines: AsyncIterator[LogLine], as_json: bool) -> bool:
    """Prints each line as it comes. Returns whether there was one."""
    from . import render

    out, run = render.console(), 0
    async for line in lines:
        if as_json:
            click.echo(msgspec.json.encode(_record(line)))
        else:
            out.print(
                *([render.run_title(line.run)] if line.run != run else []),
                render.log_line(line),
                sep="\n",
                soft_wrap=True,
            )
        run = line.run
    return bool(run)


def _record(line: LogLine) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(line)
    return record | {"level": line.level, "level_name": logging.getLevelName(line.level).lower()}
