"""mainspring schedules stats and executions: how one schedule has gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from ..app import Mainspring
from ..control import ScheduleRun, ScheduleStats
from ..insight.stats import MAX_WINDOW
from . import records
from .failure import hint
from .loading import with_app
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

    Of its newest 500 jobs at most, as far as they are kept. Lateness is from a tick's instant to the start of its job.
    """
    if not 0 < seconds <= MAX_WINDOW.total_seconds():
        raise click.BadParameter(f"figures reach back {MAX_WINDOW.days} days", param_hint="'--window'")
    found = await app.schedules.stats(name, timedelta(seconds=seconds))
    if as_json:
        return records.emit({"schedule": name, **msgspec.to_builtins(found), "window": seconds})
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

    from . import figures, render

    width, title = render.console().width, render.span(seconds)
    page: list[RenderableType] = [figures.summary(found.runs, f"{name}, last {title}", title, width)]
    late = found.late_p50, found.late_p95, found.late_p99
    if any(one is not None for one in late):
        words = "  ".join(f"p{n} {figures.took(one)}" for n, one in zip((50, 95, 99), late, strict=True))
        page.append(Text.assemble(("late to start  ", "dim"), words))
    if found.runs.runs:
        page += figures.throughput(found.series, width)
    if found.errors:
        page += [Text(), figures.error_table(found.errors)]
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
        runs = records.execution_records([one.execution for one in found])
        ticks = [msgspec.to_builtins(one.tick) for one in found]
        records.emit([run | {"tick": tick} for run, tick in zip(runs, ticks, strict=True)])
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
    from .job_page import OUTCOMES

    table = render.grid("tick", "ended", "try", "late", "took", "job", "reason", cut=("reason",))
    for one in found:
        run, tick = one.execution, one.tick
        symbol, style = OUTCOMES[run.outcome]
        late = "–" if tick.reason else render.span(max(0.0, (run.started_at - tick.at).total_seconds()))
        why = f"{run.failure.type}: {run.failure.message}" if run.failure else ""
        table.add_row(
            f"{tick.at:%Y-%m-%d %H:%M:%S}Z", Text(f"{symbol} {run.outcome}", style), str(run.attempt), late,
            render.span(run.duration.total_seconds()), run.job_id, render.line(why),
        )  # fmt: skip
    return table
