"""The summary that the demo prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...demo.tally import DemoTally, TaskTally
from ...insight.stats import Stats
from ...schedule.record import Schedule
from .. import render
from ..messages import redacted

SUGGESTED_STORE = "sqlite:///demo.db"


def summary(tally: DemoTally, left: Stats, schedules: Sequence[Schedule], *, kept: str | None) -> list[RenderableType]:
    """Tables of tasks and schedules, totals, and commands to try next. `kept` is the store that stays, if any."""
    total, elapsed = tally.total, tally.elapsed
    table = render.grid("task", "enqueued", "completed", "retried", "dead", "avg wait", "avg run", cut=("task",))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, task in sorted(tally.tasks.items()):
        _row(table, name, task)
    _row(table, "all", total, "bold")
    waiting = left.pending + left.scheduled + left.retrying
    sums = (
        f"{total.completed:,} jobs completed in {elapsed:.1f} s: {total.completed / elapsed:.1f} jobs/s, "
        f"{total.duplicates:,} duplicates not enqueued"
    )
    unfinished = (
        f"{waiting:,} left in the store: {left.pending:,} pending, {left.scheduled:,} scheduled, "
        f"{left.retrying:,} retrying"
    )
    return [table, "", _schedules(schedules), "", Text(sums), Text(unfinished), "", *_suggestions(kept)]


def _schedules(schedules: Sequence[Schedule]) -> Table:
    table = render.grid("schedule", "when", "fired", "skipped", "missed", "last run", cut=("when",))
    for row in sorted(schedules, key=lambda row: row.name):
        counts = (f"{count:,}" for count in (row.fired, row.skipped, row.missed))
        last = str(row.last_outcome) if row.last_outcome else "none yet"
        table.add_row(render.line(row.name), render.line(row.spec.trigger.explain()), *counts, last)
    for column in table.columns[2:5]:
        column.justify = "right"
    return table


def _row(table: Table, name: str, task: TaskTally, style: str = "") -> None:
    wait, run = (render.span(sum / task.runs) if task.runs else "" for sum in (task.waited, task.ran))
    counts = (task.enqueued, task.completed, task.retried)
    dead = Text(f"{task.dead:,}", "bold red" if task.dead else "")
    table.add_row(render.line(name), *(f"{count:,}" for count in counts), dead, wait, run, style=style)


def _suggestions(kept: str | None) -> list[Text]:
    store = redacted(kept or SUGGESTED_STORE)
    steps = {
        "see what died": f"mainspring jobs list --store {store} --state dead",
        "see schedules": f"mainspring schedules list --store {store}",
        "run your own": "mainspring worker shop:app  (shop.py with app = Mainspring())",
    }
    if kept is None:
        steps = {"keep the jobs": f"mainspring demo --store {store}"} | steps
    return [Text.assemble((f"{what:<15}", "dim"), command) for what, command in steps.items()]
