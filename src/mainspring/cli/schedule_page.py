"""Schedules for people: a table of all, and a page about one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import fields
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..control import ScheduleStats
from ..schedule.record import Schedule, Spec, Status, Tick
from ..trigger import Preview, Window
from . import render
from .messages import clean
from .render import exact, facts, grid, line, when
from .stats_page import duration, percent

STATUSES: dict[Status, tuple[str, str]] = {
    "active": ("►", "green"),
    "paused": ("‖", "magenta"),
    "ended": ("◌", "dim"),
}
TICK_MARKS = {"fired": ("✓", "green"), "skipped": ("⊘", "yellow"), "missed": ("✗", "red")}
# Explanations of the recorded reasons.
REASONS = {
    "overlap": "the run before had not ended",
    "catch_up": "it came too late to be run by its catch-up rule",
    "too_old": "older than its catch-up window",
    "dependency": "what it depends on had not succeeded",
    "window": "outside its window",
    "excluded": "on an excluded date",
    "paused": "it was paused",
    "changed": "its rule was changed",
    "made_already": "its job was there already",
}
_POLICIES = (
    "priority", "timeout", "max_retries", "expires", "tags", "overlap", "catch_up", "catch_up_window", "grace",
    "jitter", "window", "exclude", "start_at", "end_at", "max_runs", "run_on_start", "after", "pause_after_failures",
    "depends_on", "adapt", "spread",
)  # fmt: skip
_DEFAULTS = {field.name: field.default for field in fields(Spec)}
_SPANS = ("timeout", "expires", "catch_up_window", "grace", "jitter", "adapt")
# Ticks nearer than this are shown by their weekday.
_NEAR = timedelta(days=6)


# texts


def rule(row: Schedule) -> str:
    return row.spec.trigger.named(row.name).explain()


def local_time(at: datetime, tz: str) -> str:
    """Mon 2026-11-16 09:00 +0000, in the time zone; seconds only if they are not 0."""
    there = at.astimezone(ZoneInfo(tz))
    return f"{there:%a %Y-%m-%d} {_time(there)} {there:%z}"


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second or at.microsecond else f"{at:%H:%M}"


def _short(at: datetime, tz: str, now: datetime) -> str:
    there = at.astimezone(ZoneInfo(tz))
    return f"{there:%a} {_time(there)}" if abs(at - now) < _NEAR else f"{there:%Y-%m-%d}"


def next_run_text(row: Schedule, now: datetime) -> str:
    """The end of a sentence: next run Mon 2026-11-16 09:00 +0000 (in 3h)."""
    if row.next_run_at is None or row.status == "ended":
        return wait_reason(row) or "it has no run to come"
    resumed = ", once it is resumed" if row.paused_at is not None else ""
    return f"next run {local_time(row.next_run_at, row.spec.trigger.tz)} ({when(row.next_run_at, now)}){resumed}"


def wait_reason(row: Schedule) -> str:
    """What its next run waits for, other than time; empty if nothing."""
    if row.held_at is not None:
        return f"waits for schedule {row.waits_on!r}" if row.waits_on else "waits for its run to end"
    if row.status == "active" and row.next_run_at is None:
        return "waits for its run to end"
    return ""


def status(row: Schedule) -> Text:
    symbol, style = STATUSES[row.status]
    return Text(f"{symbol} {row.status}", style, no_wrap=True)


# table


def schedule_table(rows: Sequence[Schedule], now: datetime) -> Table:
    """One row per schedule; tasks and full dates only on wide terminals."""
    wide = render.console().width >= render.WIDE_COLUMNS
    titles = ("name", "state", *(("task",) if wide else ()), "when", "next run", "last run", "owner")
    table = grid(*titles, cut=("name", "task", "when"))
    for row in rows:
        task = [line(row.spec.task)] if wide else []
        runs = next_run(row, now, wide=wide), _last(row, now, wide=wide)
        table.add_row(line(row.name), status(row), *task, line(rule(row)), *runs, row.owner)
    return table


def next_run(row: Schedule, now: datetime, *, wide: bool) -> Text:
    at, tz = row.next_run_at, row.spec.trigger.tz
    if row.status != "active":
        return Text("–", "dim")
    if at is None or row.held_at is not None:
        return line(wait_reason(row) if wide else "waits")
    late = row.due_at is not None and now - row.due_at > timedelta(seconds=row.spec.grace)
    return Text(f"{local_time(at, tz) if wide else _short(at, tz, now)}, {when(at, now)}", "bold red" if late else "")


def _last(row: Schedule, now: datetime, *, wide: bool) -> Text:
    """The outcome of the last run, or that a run is under way."""
    if row.active:
        at, (symbol, style), word = row.last_fired_at or row.updated_at, render.STATES["running"], "under way"
    elif row.last_outcome is not None and row.last_finished_at is not None:
        at, (symbol, style), word = row.last_finished_at, render.STATES[row.last_outcome.value], row.last_outcome.value
    else:
        return Text("–", "dim")
    return Text(f"{symbol} {f'{word} ' * wide}{when(at, now)}", style, no_wrap=True)


def summary(counts: Mapping[Status, int], rows: Sequence[Schedule], now: datetime) -> Text:
    """schedules  ► 3 active  ‖ 1 paused  next daily in 3h."""
    parts = [Text("schedules", "bold")]
    for status, count in counts.items():
        symbol, style = STATUSES[status]
        parts += [Text(f"{symbol} {count:,} {status}", style)] * bool(count)
    coming = [(row.due_at, row.name) for row in rows if row.due_at is not None]
    if coming:
        at, name = min(coming)
        parts.append(Text.assemble(("next ", "dim"), f"{clean(name)} {when(at, now)}"))
    return Text("  ").join(parts)


# page


def schedule_page(
    row: Schedule, stats: ScheduleStats, ticks: Sequence[Tick], previews: Sequence[Preview], now: datetime
) -> list[RenderableType]:
    head = Text.assemble(status(row), "  ", (clean(row.name), "bold"), f"  {clean(rule(row))}")
    page: list[RenderableType] = [head, facts(_pairs(row, stats, now))]
    if policies := _policies(row.spec):
        page += [Text(), Text("POLICIES", style="dim"), facts(policies)]
    if previews:
        page += [Text(), preview_table(previews, row.spec.trigger.tz, now)]
    if ticks:
        page += [Text(), _ticks(ticks, row.spec.trigger.tz, now)]
    return page


def _pairs(row: Schedule, stats: ScheduleStats, now: datetime) -> dict[str, str]:
    spec, tz = row.spec, row.spec.trigger.tz

    def at(instant: datetime | None) -> str:
        return "" if instant is None else f"{local_time(instant, tz)}  ({when(instant, now)})"

    outcome = "" if row.last_outcome is None else row.last_outcome.value
    ended = f"{outcome} {when(row.last_finished_at, now)}" if row.last_finished_at else ""
    return {
        "zone": tz,
        "task": spec.task,
        "queue": spec.queue,
        "input": "made by a function in code when a tick fires"
        if spec.computed
        else spec.payload[: render.MAX_SECTION_CHARACTERS],
        "owner": "code, which declares it when it runs" if row.owner == "code" else "user: no deploy touches it",
        "paused": f"{exact(row.paused_at, now)}{f': {row.note}' * bool(row.note)}" if row.paused_at else "",
        "next run": at(row.next_run_at) if row.status != "ended" else "",
        "waits": wait_reason(row),
        "due": at(row.due_at) if row.due_at != row.next_run_at else "",
        "under way": ", ".join(row.active[:10]),
        "last run": at(row.last_run_at),
        "last outcome": ended,
        "last job": row.last_job_id or "",
        "runs": _runs(stats),
        "took": _took(stats),
        "not run": _not_run(stats),
        "interval": f"{row.stretch} times as long while runs return the same" if row.stretch > 1 else "",
        "created": exact(row.created_at, now),
        "changed": exact(row.updated_at, now) if row.updated_at != row.created_at else "",
    }


def _runs(stats: ScheduleStats) -> str:
    ended = f"{stats.completed:,} completed, {stats.failed:,} failed ({percent(stats.success)} ok)"
    row = f"; {stats.failures:,} failed in a row" if stats.failures > 1 else ""
    return f"{stats.fired:,} fired, {ended}{row}" if stats.fired or stats.success is not None else "none so far"


def _took(stats: ScheduleStats) -> str:
    """Durations of the runs of the last week."""
    if not stats.runs.runs:
        return ""
    times = (("p50", stats.runs.p50), ("p95", stats.runs.p95), ("p99", stats.runs.p99))
    late = f"; late to start p95 {duration(stats.late_p95)}" if stats.late_p95 is not None else ""
    return f"{', '.join(f'{name} {duration(one)}' for name, one in times)} in {stats.runs.runs:,} runs of 7 days{late}"


def _not_run(stats: ScheduleStats) -> str:
    if not stats.skipped and not stats.missed:
        return ""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(stats.reasons.items()))
    return f"{stats.skipped:,} skipped, {stats.missed:,} missed{f' ({reasons})' * bool(reasons)}"


def _policies(spec: Spec) -> dict[str, str]:
    """The policies that differ from their default."""
    policies = {name: getattr(spec, name) for name in _POLICIES}
    return {name: _value_text(name, value) for name, value in policies.items() if value != _DEFAULTS[name]}


def _value_text(name: str, value: Any) -> str:
    match value:
        case None | False:
            return "none"
        case True:
            return "yes"
        case Window():
            return f"{value.explain()}{', others are moved to its opening' * (value.outside == 'move')}"
        case datetime() | date():
            return value.isoformat()
        case tuple():
            return ", ".join(_value_text(name, one) for one in value)
        case float() if name in _SPANS:
            return render.span(value) if value else "none"
    return str(value)


def preview_table(previews: Sequence[Preview], tz: str, now: datetime) -> Table:
    noted = any(tick.note for tick in previews)
    table = grid(f"next, {tz}", "utc", "when", *(["note"] if noted else []), cut=("note",))
    for tick in previews:
        instants = local_time(tick.at, tz), f"{tick.at:%Y-%m-%d %H:%M:%S}Z", when(tick.at, now)
        table.add_row(*instants, *([Text(tick.note, style="yellow")] if noted else []))
    return table


def _ticks(ticks: Sequence[Tick], tz: str, now: datetime) -> Table:
    wide = render.console().width >= render.WIDE_COLUMNS
    table = grid("tick", "became", *(("seen",) if wide else ()), "why, or its job", cut=("why, or its job",))
    for tick in ticks:
        seen = [when(tick.seen_at, now)] if wide else []
        table.add_row(local_time(tick.at, tz), _outcome(tick), *seen, _why(tick, tz))
    return table


def _outcome(tick: Tick) -> Text:
    """✓ fired, ✓ by hand, ✗ 9 missed."""
    symbol, style = TICK_MARKS[tick.what]
    word = tick.reason.replace("_", " ") if tick.what == "fired" and tick.reason else tick.what
    return Text(f"{symbol} {f'{tick.count:,} ' * (tick.count > 1)}{word}", style)


def _why(tick: Tick, tz: str) -> Text:
    if tick.what == "fired":
        return line(tick.job_id or "")
    explanation = f": {REASONS[tick.reason]}" if tick.reason in REASONS else ""
    several = f", until {local_time(tick.last_at, tz)}" if tick.last_at is not None else ""
    return Text(clean(f"{tick.reason}{explanation}{several}"))
