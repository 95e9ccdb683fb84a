"""mainspring schedules stats and executions: the runs of one schedule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from ..app import Mainspring
from ..control import ScheduleRun, ScheduleStats
from ..insight.stats import MAX_WINDOW
from .app_loader import with_app
from .json_output import execution_records, print_json
from .messages import hint
from .options import as_json, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@click.command()
@click.argument("name")
@click.option("--window", "seconds", type=span, metavar="SPAN", default="7d", show_default=True, help="1h, 24h, 30d.")
@as_json
@with_app
async def stats(app: Mainspring, name: str, seconds: float, as_json: bool) -> None:
    """Show how a schedule's runs went: times, success, lateness, errors.

    Covers the newest 500 jobs that are kept. Lateness is the time from a tick to the start of its job.
    """
    if not 0 < seconds <= MAX_WINDOW.total_seconds():
        raise click.BadParameter(f"figures reach back {MAX_WINDOW.days} days", param_hint="'--window'")
    found = await app.schedules.stats(name, timedelta(seconds=seconds))
    if as_json:
        return print_json({"schedule": name, **msgspec.to_builtins(found), "window": seconds})
    from . import render

    render.show(*_page(name, found, seconds))
    if found.sample is not None and not found.sample.complete:
        since = f"{found.sample.since:%Y-%m-%d %H:%M}Z"
        hint(f"of the newest {found.sample.ticks:,} fired ticks: there are more since {since}")
    elif not found.runs.runs:
        hint(f"no run of its kept jobs has ended in the last {render.span(seconds)}")
    return None


def _page(name: str, found: ScheduleStats, seconds: float) -> list[RenderableType]:
    from rich.text import Text

    from . import render, stats_page

    width, title = render.console().width, render.span(seconds)
    page: list[RenderableType] = [stats_page.summary(found.runs, f"{name}, last {title}", title, width)]
    late = found.late_p50, found.late_p95, found.late_p99
    if any(one is not None for one in late):
        text = "  ".join(f"p{n} {stats_page.duration(one)}" for n, one in zip((50, 95, 99), late, strict=True))
        page.append(Text.assemble(("late to start  ", "dim"), text))
    if found.runs.runs:
        page += stats_page.throughput(found.series, width)
    if found.errors:
        page += [Text(), stats_page.error_table(found.errors)]
    return page


@click.command()
@click.argument("name")
@click.option(
    "--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True, help="Number of ticks."
)
@click.option("--before", type=int, metavar="N", help="Continue below this tick, which the previous page names.")
@as_json
@with_app
async def executions(app: Mainspring, name: str, limit: int, before: int | None, as_json: bool) -> None:
    """List finished runs of a schedule's jobs, with their ticks, newest first."""
    found = await app.schedules.executions(name, limit=limit, before=before)
    if as_json:
        runs = execution_records([one.execution for one in found])
        ticks = [msgspec.to_builtins(one.tick) for one in found]
        print_json([run | {"tick": tick} for run, tick in zip(runs, ticks, strict=True)])
    elif found:
        from . import render

        render.show(_table(found))
    if len({one.tick.n for one in found}) == limit:
        hint(f"there may be more: --before {found[-1].tick.n}")
    elif not found and not as_json:
        hint("no older runs are kept" if before is not None else f"no kept job of schedule {name!r} has run yet")


def _table(found: Sequence[ScheduleRun]) -> Table:
    from rich.text import Text

    from . import render
    from .job_page import OUTCOME_MARKS

    table = render.grid("tick", "ended", "try", "late", "took", "job", "reason", cut=("reason",))
    for one in found:
        run, tick = one.execution, one.tick
        symbol, style = OUTCOME_MARKS[run.outcome]
        late = "–" if tick.reason else render.span(max(0.0, (run.started_at - tick.at).total_seconds()))
        why = f"{run.failure.type}: {run.failure.message}" if run.failure else ""
        outcome, took = Text(f"{symbol} {run.outcome}", style), render.span(run.duration.total_seconds())
        tick_at = f"{tick.at:%Y-%m-%d %H:%M:%S}Z"
        table.add_row(tick_at, outcome, str(run.attempt), late, took, run.job_id, render.line(why))
    return table
