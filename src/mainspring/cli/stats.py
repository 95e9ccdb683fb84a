"""mainspring stats: how many jobs there are, and how runs have gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, get_args

import click
import msgspec

from ..app import Mainspring
from ..insight.stats import MAX_WINDOW, Stats
from ..schedule.record import Schedule, Status
from . import records
from .failure import hint
from .loading import place, with_app
from .options import as_json, span

if TYPE_CHECKING:
    from rich.console import RenderableType

EVER = "ever"
# As many are looked at.
SCHEDULES = 1000
By = Literal["task", "queue"]


def window(text: str) -> timedelta | None:
    """A span back from now; None for ever."""
    if text == EVER:
        return None
    seconds = span(text)
    if seconds > MAX_WINDOW.total_seconds():
        raise click.BadParameter(f"figures reach back {MAX_WINDOW.days} days, or use {EVER!r}; got {text!r}")
    return timedelta(seconds=seconds)


@click.command()
@click.option("--window", "window_", metavar="SPAN", default="1h", show_default=True, help="1h, 24h, 7d, … or ever.")
@click.option("--by", type=click.Choice(("task", "queue")), default="task", show_default=True, help="One row for each.")
@click.option("--queue", metavar="NAME", help="Only runs of this queue.")
@click.option("--task", metavar="NAME", help="Only runs of this task.")
@as_json
@with_app
async def stats(app: Mainspring, window_: str, by: By, queue: str | None, task: str | None, as_json: bool) -> None:
    """Count jobs by state, and show how runs went.

    Durations are those of single runs; a wait is from when a job was due until it started. Percentiles are within 13 %
    of the exact value.
    """
    found = await app.stats(window(window_), queue=queue, task=task)
    rows = await (await app.opened()).schedules(limit=SCHEDULES)
    if as_json:
        seconds = None if found.window is None else found.window.total_seconds()
        more = {"store": place(app), "window": seconds, "schedules": _counts(rows)}
        return records.emit(msgspec.to_builtins(found) | more)
    _show(app, found, rows, by, window_)
    if not found.total.runs:
        further = "" if found.window is None else f"; --window {EVER if window_ == '7d' else '7d'} looks further back"
        hint(f"no run has ended {_when(window_)}{further}")
    return None


def _when(window: str) -> str:
    return "yet" if window == EVER else f"in the last {window}"


def _counts(rows: Sequence[Schedule]) -> dict[Status, int]:
    statuses = [row.status for row in rows]
    return {status: statuses.count(status) for status in get_args(Status)}


def _show(app: Mainspring, found: Stats, rows: Sequence[Schedule], by: By, window: str) -> None:
    from rich.text import Text

    from . import figures, render

    width = render.console().width
    page: list[RenderableType] = [*figures.state_lines(found, width)]
    if rows:
        from .schedule_page import summary

        page.append(summary(_counts(rows), rows, app.clock.now()))
    if found.total.runs:
        page += [Text(), figures.summary(found.total, _title(window), window, width)]
        if found.series:
            page += figures.throughput(found.series, width)
        groups = found.by_task if by == "task" else found.by_queue
        page += [Text(), figures.figure_table(by, groups, found.total, app.clock.now())]
    if found.errors:
        page += [Text(), figures.error_table(found.errors)]
    render.show(*page)


def _title(window: str) -> str:
    return EVER if window == EVER else f"last {window}"
