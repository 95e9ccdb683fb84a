"""Statistics for people: counts by state, durations, throughput and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from ..insight.stats import Figures, Point, Stats, TopError
from ..records.job import SHOWN, Shown
from . import render
from .sparkline import bars_of, squeezed

# States that are shown even if no job has them.
_ALWAYS: frozenset[Shown] = frozenset({"pending", "running", "completed", "dead"})
# Columns of the symbol before a row of bars and of the number after it.
LABEL_COLUMNS = 19
# For narrow terminals.
SHORT_NAMES: Mapping[Shown, str] = {
    "pending": "pend", "scheduled": "sched", "retrying": "retry", "running": "run", "waiting": "wait",
    "paused": "paused", "completed": "done", "dead": "dead", "cancelled": "cancel", "expired": "expired",
}  # fmt: skip


def state_line(stats: Stats, width: int) -> Text:
    """Jobs by state on one line: with full names if they fit, else with short ones, else with symbols only."""
    some = _counts(stats)
    forms = (_items(_counts(stats, every=True)), _items(some), _items(some, short=True), _items(some, names=False))
    lines = [Text(gap).join(items) for items in forms for gap in ("  ", " ")]
    return next((line for line in lines if line.cell_len <= width), lines[-1])


def state_lines(stats: Stats, width: int) -> list[Text]:
    """Jobs by state with full names, on one or more lines."""
    lines = [Text()]
    for item in _items(_counts(stats)):
        if lines[-1] and lines[-1].cell_len + 2 + item.cell_len > width:
            lines.append(Text())
        lines[-1] = Text("  ").join([lines[-1], item]) if lines[-1] else item
    return lines


def _counts(stats: Stats, *, every: bool = False) -> dict[Shown, int]:
    counts: dict[Shown, int] = {state: getattr(stats, state) for state in SHOWN}
    return {state: count for state, count in counts.items() if every or count or state in _ALWAYS}


def _items(counts: Mapping[Shown, int], *, names: bool = True, short: bool = False) -> list[Text]:
    items = []
    for state, count in counts.items():
        symbol, style = render.STATES[state]
        name = SHORT_NAMES[state] if short else state
        items.append(Text(f"{symbol} {count:,}" + f" {name}" * names, style if count else "dim", no_wrap=True))
    return items


def percent(share: float | None) -> str:
    """A ratio in percent; 100 % only if it is exactly 1."""
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def duration(seconds: float | None) -> str:
    return "–" if seconds is None else render.span(seconds)


def success(share: float | None) -> Text:
    style = "dim" if share is None else "green" if share >= 0.99 else "yellow" if share >= 0.9 else "bold red"
    return Text(percent(share), style)


def summary(figures: Figures, title: str, short: str, width: int) -> Text:
    """Runs, success rate, durations and waits on one line.

    Without the waits if that is too wide; then also with the short title and narrow gaps.
    """
    forms = [_summary(figures, title, "  ", waits=True), _summary(figures, title, "  ")]
    return next((line for line in forms if line.cell_len <= width), _summary(figures, short, " "))


def _summary(figures: Figures, title: str, gap: str, *, waits: bool = False) -> Text:
    line = Text.assemble((title, "bold"), f"{gap}{figures.runs:,} run{'s' * (figures.runs != 1)}{gap}")
    line.append_text(success(figures.success_rate)).append(" ok")
    for name, seconds in (("p50", figures.p50), ("p95", figures.p95), ("p99", figures.p99)):
        line.append(f"{gap}{name} ", "dim").append(duration(seconds))
    if waits:
        line.append(f"{gap}wait p50 ", "dim").append(duration(figures.wait_p50))
        line.append(f"{gap}p95 ", "dim").append(duration(figures.wait_p95))
    return line


def figure_table(title: str, groups: Mapping[str, Figures], total: Figures, now: datetime) -> Table:
    """One row per group, most runs first; a total below if there are several."""
    some = any(figures.partial for figures in groups.values())
    counts = ("runs", "ok", "failed", *(("partial",) if some else ()))
    titles = (*counts, "avg", "p50", "p95", "p99", "wait50", "wait95", "last")
    table = render.grid(title, *titles, cut=(title,))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, figures in sorted(groups.items(), key=lambda item: (-item[1].runs, item[0])):
        table.add_row(render.line(name), *_cells(figures, now, some))
    if len(groups) > 1:
        table.add_row(Text("all", "bold"), *_cells(total, now, some))
    return table


def _cells(figures: Figures, now: datetime, some_partial: bool) -> list[str | Text]:
    failed = Text(f"{figures.failed:,}", "red" if figures.failed else "dim")
    partial = [Text(f"{figures.partial:,}", "yellow" if figures.partial else "dim")] if some_partial else []
    times = (figures.average, figures.p50, figures.p95, figures.p99, figures.wait_p50, figures.wait_p95)
    last = "–" if figures.last_at is None else render.when(figures.last_at, now)
    return [f"{figures.runs:,}", success(figures.success_rate), failed, *partial, *map(duration, times), last]


def error_table(errors: Sequence[TopError]) -> Table:
    table = render.grid("count", "error", "tasks", cut=("error", "tasks"))
    table.columns[0].justify = "right"
    for error in errors:
        tasks = render.line(", ".join(error.tasks))
        table.add_row(Text(f"{error.count:,}", "red"), render.line(error.error), tasks)
    return table


def throughput(series: Sequence[Point], width: int, *, newest: bool = False, height: int = 1) -> list[Text]:
    """Bars of completed and failed runs, with the value of the highest bar of each.

    The whole series is squeezed into the width; with `newest`, only as many points as fit are shown.
    """
    room = max(1, width - LABEL_COLUMNS)
    if newest:
        series = series[-room:]
    unit = _unit(series, room)
    completed = _bars("✓", "green", [point.completed + point.partial for point in series], room, height, unit)
    return completed + _bars("✗", "red", [point.failed for point in series], room, 1, unit)


def _bars(mark: str, style: str, values: Sequence[int], room: int, height: int, unit: str) -> list[Text]:
    sums = squeezed(values, room)
    top = max(sums, default=0)
    lines = [Text("  ", no_wrap=True, overflow="ellipsis").append(row, style) for row in bars_of(sums, height)]
    lines[-1] = Text(f"{mark} ", style, no_wrap=True, overflow="ellipsis").append(lines[-1].plain[2:])
    lines[0].append(f" max {top:,}{unit}" if top else " none", "default" if top else "dim")
    return lines


def _unit(series: Sequence[Point], room: int) -> str:
    """The time that one bar covers."""
    if len(series) < 2:
        return ""
    step: timedelta = (series[1].at - series[0].at) * max(1, -(-len(series) // room))
    return f" in {render.span(step.total_seconds())}"
