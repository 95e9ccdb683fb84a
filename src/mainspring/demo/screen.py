"""The live screen: what goes where, from 80 columns by 24 rows up."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..cli import render
from ..cli.sparkline import bars_of
from ..records.job import Job, Shown
from ..schedule.record import Schedule
from .scene import Scene

SIDE = 38


def screen(scene: Scene) -> Layout:
    page, top, middle, bottom = Layout(), Layout(ratio=2, minimum_size=7), Layout(size=6), Layout(ratio=3)
    page.split_column(Layout(_header(scene), size=3), top, middle, bottom)
    top.split_row(
        Layout(_panel("queues", _queues(scene)), size=SIDE),
        Layout(_panel(f"running: {scene.stats.running}", _running(scene))),
    )
    middle.split_row(Layout(_Throughput(scene)), Layout(_panel("schedules", _schedules(scene))))
    bottom.split_row(
        Layout(_panel("last completed", _completed(scene)), minimum_size=SIDE),
        Layout(_panel("failures", _failures(scene))),
    )
    return page


def _panel(title: str, content: Any) -> Panel:
    return Panel(content, title=Text(title), title_align="left", border_style="dim", padding=(0, 1))


def _header(scene: Scene) -> Group:
    first = Table.grid(expand=True)
    first.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    first.add_column(no_wrap=True)
    minutes, seconds = divmod(int(scene.elapsed), 60)
    if scene.draining:
        phase = Text(f"draining: {scene.stats.running} may finish (Ctrl-C again: no waiting)", style="bold yellow")
    else:
        phase = Text("Ctrl-C ends it", style="dim")
    first.add_row(Text(" Mainspring demo", style="bold"), phase.append(f"  {minutes}:{seconds:02d} ", style="bold"))
    trouble = scene.tally.trouble
    about = Text(f" {trouble}", "red") if trouble else Text(f" worker  {scene.worker}, {scene.slots} slots", "dim")
    return Group(first, Text(f" store   {scene.store}", "dim", no_wrap=True, overflow="ellipsis"), about)


def _queues(scene: Scene) -> Table:
    table = render.grid("queue", "pend", "sched", "retry", "run", cut=("queue",))
    table.expand = True
    for column in table.columns[1:]:
        column.justify = "right"
    for queue in scene.queues:
        counts: dict[Shown, int] = {
            "pending": queue.pending,
            "scheduled": queue.scheduled,
            "retrying": queue.retrying,
            "running": queue.running,
        }
        cells = [Text(str(n), render.STATES[shown][1] if n else "dim") for shown, n in counts.items()]
        table.add_row(render.line(queue.name), *cells)
    return table


def _running(scene: Scene) -> Table:
    rows = _rows()
    for job in scene.running:
        ran = (scene.now - (job.started_at or scene.now)).total_seconds()
        _add(rows, "running", job, f"try {job.attempt}" if job.attempt > 1 else "", ran)
    return rows


def _completed(scene: Scene) -> Table:
    rows = _rows()
    for job, took in scene.tally.completed:
        _add(rows, "completed", job, "", took)
    return rows


def _schedules(scene: Scene) -> Table:
    """How the last run of each went, and when the next one is."""
    rows = _rows()
    for row in scene.schedules:
        symbol, style = render.STATES[str(row.last_outcome)] if row.last_outcome else ("·", "dim")  # type: ignore[index]
        if row.active:
            symbol, style = render.STATES["running"]
        passed = row.skipped + row.missed
        counts = f"{row.fired} fired{f', {passed} not' if passed else ''}"
        details = render.line(f"{counts}, {row.spec.trigger.explain()}")
        rows.add_row(Text(symbol, style), render.line(row.name), details, countdown(row, scene.now))
    return rows


def countdown(row: Schedule, now: datetime) -> str:
    """Until its next tick is looked at, or what that waits for."""
    if row.due_at is None:
        return row.status if row.status != "active" else "when its run ends"
    left = (row.due_at - now).total_seconds()
    if left <= 0:
        return "now"
    return f"in {math.ceil(left)}s" if left < 60 else f"in {render.span(left)}"


def _rows() -> Table:
    rows = Table.grid(padding=(0, 1, 0, 0), expand=True)
    rows.add_column(width=1)
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1, style="dim")
    rows.add_column(no_wrap=True, justify="right")
    return rows


def _add(rows: Table, shown: Shown, job: Job, more: str, seconds: float) -> None:
    symbol, style = render.STATES[shown]
    values = " ".join(f"{name}={value}" for name, value in msgspec.json.decode(job.payload).items())
    details = render.line(f"{more} {values}")
    rows.add_row(Text(symbol, style), render.line(job.task), details, render.span(seconds))


def _failures(scene: Scene) -> Group:
    """By task, the dead on top: how often, and why the last time."""
    failed = [(-task.dead, name, task) for name, task in scene.tally.tasks.items() if task.failure]
    parts: list[Any] = []
    for _, name, task in sorted(failed, key=lambda item: item[:2]):
        symbol, style = render.STATES["dead" if task.dead else "retrying"]
        head = Table.grid(expand=True)
        head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        head.add_column(no_wrap=True)
        dead = f", {task.dead} dead" if task.dead else ""
        head.add_row(Text.assemble((symbol, style), f" {name}"), Text(f"{task.retried} retried{dead}", style))
        reason = Text("  ", style="dim", no_wrap=True, overflow="ellipsis").append(render.line(task.failure))
        parts += [head, reason]
    return Group(*parts)


class _Throughput:
    """Bars two rows high, one for each second, as many as fit; and the sums."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tally = self._scene.tally
        total = tally.total
        history = tally.history(options.max_width - 4)
        sums = (
            f"completed {total.completed:,}  retried {total.retried:,}  dead {total.dead:,}",
            f"of {total.enqueued:,} enqueued  duplicates {total.duplicates:,}",
        )
        title = f"throughput: {tally.rate():.1f} jobs/s"
        bars = [Text(row, "green", no_wrap=True) for row in bars_of(history)]
        yield _panel(title, Group(*bars, *(Text(line, no_wrap=True, overflow="ellipsis") for line in sums)))
