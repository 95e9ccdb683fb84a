"""The panes of the lower part: running jobs, failures, dead jobs, next schedules; each fits into `room` rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...records.job import Job, Shown
from ...records.run import Progress
from ...schedule.record import Schedule
from .. import render, stats_page
from ..messages import clean
from ..schedule_page import STATUSES, local_time, rule
from .snapshot import TopSnapshot

T = TypeVar("T")
# From these widths on, ids and workers have columns.
ID_COLUMNS = 100
WORKER_COLUMNS = 130


def fit(items: Sequence[T], room: int) -> tuple[Sequence[T], int]:
    """The items that fit into the rows, and the number of the others; the last row is reserved for that number."""
    if len(items) <= room:
        return items, 0
    shown = max(0, room - 1)
    return items[:shown], len(items) - shown


def add_more_row(table: Table, left: int) -> Table:
    if left:
        table.add_row(*[""] * (len(table.columns) > 1 and table.columns[0].width == 1), Text(f"+{left:,} more", "dim"))
    return table


def running(snapshot: TopSnapshot, width: int, room: int) -> RenderableType:
    if not snapshot.running:
        return _nothing("nothing runs")
    wide, wider = width >= ID_COLUMNS, width >= WORKER_COLUMNS
    bar = 20 if wide else 10
    titles = ("task", "progress", "ran", "try", "queue", *(("id",) if wide else ()), *(("worker",) if wider else ()))
    table = _marked(*titles, cut=("task", "progress", "queue", "worker"))
    table.columns[3].justify = table.columns[4].justify = "right"
    jobs, _ = fit(snapshot.running, room - 1)
    for job in jobs:
        shown: Shown = "cancelled" if job.cancel_reason is not None else "running"
        row: list[RenderableType] = [
            Text(*render.STATES[shown]),
            render.line(job.task),
            progress(job.progress, bar),
            _ran(job, snapshot.now),
            str(job.attempt),
            render.line(job.queue),
        ]
        row += [clean(job.id)] * wide + [render.line(job.worker or "")] * wider
        table.add_row(*row)
    return add_more_row(table, snapshot.running_count - len(jobs))


def progress(made: Progress | None, width: int) -> Text:
    """A bar if the total is known, else the amount done so far."""
    if made is None:
        return Text("–", "dim")
    note = f" {made.note}" if made.note else ""
    if not made.total or made.total <= 0:
        return render.line(f"{made.done:,.15g}{note}")
    share = min(1.0, max(0.0, made.done / made.total))
    full = int(share * width)
    bar = Text(no_wrap=True, overflow="ellipsis").append("█" * full, "green").append("░" * (width - full), "dim")
    return bar.append(f" {int(share * 100):>3} % ").append_text(render.line(note))


def failures(snapshot: TopSnapshot, width: int, room: int) -> RenderableType:
    """Errors of the last hour, most frequent first, and the jobs that died last."""
    errors = snapshot.stats.errors
    if not errors and not snapshot.dead:
        return _nothing("nothing failed in the last hour, and nothing is dead")
    parts: list[RenderableType] = []
    if errors:
        shown, left = fit(errors, max(1, room // 3 if snapshot.dead else room - 1))
        parts.append(add_more_row(stats_page.error_table(shown), left))
        room -= 1 + len(shown) + bool(left)
    if snapshot.dead and room > 1:
        parts.append(_dead_table(snapshot, width, room))
    return Group(*parts)


def _dead_table(snapshot: TopSnapshot, width: int, room: int) -> Table:
    wide = width >= ID_COLUMNS
    table = _marked("died", "task", "try", "reason", *(("id",) if wide else ()), cut=("task", "reason"))
    jobs, _ = fit(snapshot.dead, room - 1)
    for job in jobs:
        died = render.when(job.finished_at or snapshot.now, snapshot.now)
        row: list[RenderableType] = [Text(*render.STATES["dead"]), died, render.line(job.task), str(job.attempt)]
        table.add_row(*row, render.line(render.reason(job)), *([clean(job.id)] if wide else []))
    return add_more_row(table, snapshot.stats.dead - len(jobs))


def groups(snapshot: TopSnapshot, width: int, room: int) -> RenderableType:
    if not snapshot.groups:
        return _nothing("no job is dead")
    wide = width >= ID_COLUMNS
    table = render.grid("count", "task", "error", "last", *(("newest",) if wide else ()), cut=("task", "error"))
    table.columns[0].justify = "right"
    shown, left = fit(snapshot.groups, room - 1)
    for group in shown:
        row: list[RenderableType] = [Text(f"{group.count:,}", "bold red"), render.line(group.task)]
        last = render.when(group.last_at, snapshot.now)
        table.add_row(*row, render.line(group.error), last, *([clean(group.newest)] if wide else []))
    return add_more_row(table, left)


def next_schedules(snapshot: TopSnapshot, width: int, room: int) -> RenderableType:
    """Active schedules, the next to run first, with the time until then."""
    if not snapshot.schedules:
        return _nothing("no schedule is active")
    wide = width >= ID_COLUMNS
    table = _marked("in", "schedule", "task", "at", *(("when",) if wide else ()), cut=("schedule", "task", "when"))
    table.columns[1].justify = "right"
    shown, left = fit(snapshot.schedules, room - 1)
    for row in shown:
        at = "" if row.next_run_at is None else local_time(row.next_run_at, row.spec.trigger.tz)
        mark = render.STATES["running"] if row.active else STATUSES[row.status]
        cells: list[RenderableType] = [_until(row, snapshot.now), render.line(row.name), render.line(row.spec.task), at]
        table.add_row(Text(*mark), *cells, *([render.line(rule(row))] if wide else []))
    return add_more_row(table, left)


def _until(row: Schedule, now: datetime) -> Text:
    """The time until it is due, or how late it is."""
    if row.due_at is None:
        return Text("waits", "dim")
    seconds = (row.due_at - now).total_seconds()
    if seconds < -row.spec.grace:
        return Text(f"{render.span(-seconds)} late", "bold red")
    return Text("now" if seconds < 1 else render.span(seconds))


PANES: tuple[Callable[[TopSnapshot, int, int], RenderableType], ...] = (running, failures, groups, next_schedules)


def _marked(*titles: str, cut: Sequence[str]) -> Table:
    """A grid whose first column is a symbol."""
    table = render.grid("", *titles, cut=cut)
    table.columns[0].width = 1
    return table


def _nothing(text: str) -> Text:
    return Text(f"  {text}", "dim")


def _ran(job: Job, now: datetime) -> str:
    return render.span(max(0.0, (now - (job.started_at or now)).total_seconds()))
