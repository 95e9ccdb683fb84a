"""mainspring stats: counts of jobs, and statistics of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, get_args

import click
import msgspec

from ..app import Mainspring
from ..insight.stats import MAX_WINDOW, Stats
from ..schedule.record import Schedule, Status
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, span

if TYPE_CHECKING:
    from rich.console import RenderableType

EVER = "ever"
# Schedules that are read.
MAX_SCHEDULES = 1000
By = Literal["task", "queue"]


def parse_window(text: str) -> timedelta | None:
    """The time before now that is covered; None for 'ever'."""
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

    A duration is that of one run; a wait is the time from when a job was due until it started. Percentiles are
    within 13 % of the exact value.
    """
    found = await app.stats(parse_window(window_), queue=queue, task=task)
    rows = await (await app.connect()).schedules(limit=MAX_SCHEDULES)
    if as_json:
        seconds = None if found.window is None else found.window.total_seconds()
        more = {"store": store_name(app), "window": seconds, "schedules": _counts(rows)}
        return print_json(msgspec.to_builtins(found) | more)
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

    from . import render, stats_page

    width = render.console().width
    page: list[RenderableType] = [*stats_page.state_lines(found, width)]
    if rows:
        from .schedule_page import summary

        page.append(summary(_counts(rows), rows, app.clock.now()))
    if found.total.runs:
        page += [Text(), stats_page.summary(found.total, _title(window), window, width)]
        if found.series:
            page += stats_page.throughput(found.series, width)
        groups = found.by_task if by == "task" else found.by_queue
        page += [Text(), stats_page.figure_table(by, groups, found.total, app.clock.now())]
    if found.errors:
        page += [Text(), stats_page.error_table(found.errors)]
    render.show(*page)


def _title(window: str) -> str:
    return EVER if window == EVER else f"last {window}"
