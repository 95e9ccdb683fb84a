"""The lower part of the view: what runs, fails, is dead, comes next, each in the rows it is given."""

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
from ..schedule_page import STATUSES, local, rule
from .snapshot import Scene

T = TypeVar("T")
# From these widths on ids, and workers too, are shown whole.
IDS, WORKERS = 100, 130


def cut(items: Sequence[T], room: int) -> tuple[Sequence[T], int]:
    """As many as fit into the rows, and how many do not; the last row is kept for saying so."""
    if len(items) <= room:
        return items, 0
    shown = max(0, room - 1)
    return items[:shown], len(items) - shown


def more(table: Table, left: int) -> Table:
    if left:
        table.add_row(*[""] * (len(table.columns) > 1 and table.columns[0].width == 1), Text(f"+{left:,} more", "dim"))
    return table


def running(scene: Scene, width: int, room: int) -> RenderableType:
    if not scene.running:
        return _nothing("nothing runs")
    wide, wider = width >= IDS, width >= WORKERS
    bar = 20 if wide else 10
    titles = ("task", "progress", "ran", "try", "queue", *(("id",) if wide else ()), *(("worker",) if wider else ()))
    table = _marked(*titles, cut=("task", "progress", "queue", "worker"))
    table.columns[3].justify = table.columns[4].justify = "right"
    jobs, _ = cut(scene.running, room - 1)
    for job in jobs:
        shown: Shown = "cancelled" if job.cancel_reason is not None else "running"
        row: list[RenderableType] = [
            Text(*render.STATES[shown]), render.line(job.task), progress(job.progress, bar),
            _ran(job, scene.now), str(job.attempt), render.line(job.queue),
        ]  # fmt: skip
        row += [clean(job.id)] * wide + [render.line(job.worker or "")] * wider
        table.add_row(*row)
    return more(table, scene.stats.running - len(jobs))


def progress(made: Progress | None, width: int) -> Text:
    """A bar where the total is known, else what has been done so far."""
    if made is None:
        return Text("–", "dim")
    note = f" {made.note}" if made.note else ""
    if not made.total or made.total <= 0:
        return render.line(f"{made.done:,.15g}{note}")
    share = min(1.0, max(0.0, made.done / made.total))
    full = int(share * width)
    bar = Text(no_wrap=True, overflow="ellipsis").append("█" * full, "green").append("░" * (width - full), "dim")
    return bar.append(f" {int(share * 100):>3} % ").append_text(render.line(note))


def failures(scene: Scene, width: int, room: int) -> RenderableType:
    """The last hour's errors, most first, above the jobs that died last."""
    errors = scene.stats.errors
    if not errors and not scene.dead:
        return _nothing("nothing failed in the last hour, and nothing is dead")
    parts: list[RenderableType] = []
    if errors:
        shown, left = cut(errors, max(1, room // 3 if scene.dead else room - 1))
        parts.append(more(stats_page.error_table(shown), left))
        room -= 1 + len(shown) + bool(left)
    if scene.dead and room > 1:
        parts.append(_died(scene, width, room))
    return Group(*parts)


def _died(scene: Scene, width: int, room: int) -> Table:
    wide = width >= IDS
    table = _marked("died", "task", "try", "reason", *(("id",) if wide else ()), cut=("task", "reason"))
    jobs, _ = cut(scene.dead, room - 1)
    for job in jobs:
        died = render.when(job.finished_at or scene.now, scene.now)
        row: list[RenderableType] = [Text(*render.STATES["dead"]), died, render.line(job.task), str(job.attempt)]
        table.add_row(*row, render.line(render.reason(job)), *([clean(job.id)] if wide else []))
    return more(table, scene.stats.dead - len(jobs))


def groups(scene: Scene, width: int, room: int) -> RenderableType:
    if not scene.groups:
        return _nothing("no job is dead")
    wide = width >= IDS
    table = render.grid("count", "task", "error", "last", *(("newest",) if wide else ()), cut=("task", "error"))
    table.columns[0].justify = "right"
    shown, left = cut(scene.groups, room - 1)
    for group in shown:
        row: list[RenderableType] = [Text(f"{group.count:,}", "bold red"), render.line(group.task)]
        last = render.when(group.last_at, scene.now)
        table.add_row(*row, render.line(group.error), last, *([clean(group.newest)] if wide else []))
    return more(table, left)


def ticking(scene: Scene, width: int, room: int) -> RenderableType:
    """Schedules, the next to run first, with the time until then."""
    if not scene.ticking:
        return _nothing("no schedule is active")
    wide = width >= IDS
    table = _marked("in", "schedule", "task", "at", *(("when",) if wide else ()), cut=("schedule", "task", "when"))
    table.columns[1].justify = "right"
    shown, left = cut(scene.ticking, room - 1)
    for row in shown:
        at = "" if row.next_run_at is None else local(row.next_run_at, row.spec.trigger.tz)
        mark = render.STATES["running"] if row.active else STATUSES[row.status]
        cells: list[RenderableType] = [_until(row, scene.now), render.line(row.name), render.line(row.spec.task), at]
        table.add_row(Text(*mark), *cells, *([render.line(rule(row))] if wide else []))
    return more(table, left)


def _until(row: Schedule, now: datetime) -> Text:
    """How long until it is due; how late it is, if nobody has met it."""
    if row.due_at is None:
        return Text("waits", "dim")
    seconds = (row.due_at - now).total_seconds()
    if seconds < -row.spec.grace:
        return Text(f"{render.span(-seconds)} late", "bold red")
    return Text("now" if seconds < 1 else render.span(seconds))


PANES: tuple[Callable[[Scene, int, int], RenderableType], ...] = (running, failures, groups, ticking)


def _marked(*titles: str, cut: Sequence[str]) -> Table:
    """A grid whose rows begin with a symbol."""
    table = render.grid("", *titles, cut=cut)
    table.columns[0].width = 1
    return table


def _nothing(text: str) -> Text:
    return Text(f"  {text}", "dim")


def _ran(job: Job, now: datetime) -> str:
    return render.span(max(0.0, (now - (job.started_at or now)).total_seconds()))
