"""Output for people: tables, ages, sizes and colours. Each state has a symbol as well as a colour."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from textwrap import indent

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ..records import finding
from ..records.api_key import ApiKey
from ..records.job import Job, Shown
from ..records.query import Sort
from ..records.queue import DeadGroup, Queue
from ..records.run import LogLine, Progress
from ..webhook.inbound import InboundTrigger
from ..webhook.record import Standing, Webhook, abridged_url
from .messages import clean

STATES: dict[Shown, tuple[str, str]] = {
    "pending": ("○", "cyan"),
    "scheduled": ("◔", "blue"),
    "retrying": ("↻", "yellow"),
    "running": ("►", "bold green"),
    "waiting": ("◇", "blue"),
    "paused": ("‖", "magenta"),
    "completed": ("✓", "green"),
    "dead": ("✗", "bold red"),
    "cancelled": ("⊘", "dim"),
    "expired": ("◌", "red"),
}
LEVELS = ((logging.ERROR, "bold red"), (logging.WARNING, "yellow"), (logging.INFO, "green"))
# From this width on, tables also show attempts and reasons.
WIDE_COLUMNS = 110
MAX_SECTION_CHARACTERS = 4000
LEVEL_COLUMNS = 9
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def console(*, plain: bool = False) -> Console:
    """A console that does not interpret markup, because it prints data."""
    if plain:
        return Console(markup=False, highlight=False, emoji=False, color_system=None, force_terminal=False)
    return Console(markup=False, highlight=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Prints tables fitted to the width; text is not wrapped, so that it can be copied."""
    out = console()
    for part in parts:
        out.print(part, soft_wrap=isinstance(part, Text))


def line(text: str) -> Text:
    """The text on one line, cut at the end of its column."""
    return Text(" ".join(clean(text).split()), no_wrap=True, overflow="ellipsis")


def state(shown: Shown) -> Text:
    symbol, style = STATES[shown]
    return Text(f"{symbol} {shown}", style=style, no_wrap=True)


def span(seconds: float) -> str:
    """3ms, 2.4s, 59s, 12m, 3h, 2d: at most five characters."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.0f}s" if seconds < 59.5 else "1m"


def size(count: int) -> str:
    """A number of bytes: 312B, 4.2K, 48M, 1.5G."""
    amount, unit = finding.format_size(count).split()
    return f"{amount}{unit[0]}"


def when(at: datetime, now: datetime) -> str:
    """An instant relative to now: 12m ago, in 3h."""
    distance = (at - now).total_seconds()
    if abs(distance) < 1:
        return "now"
    return f"in {_whole_seconds(distance)}" if distance > 0 else f"{_whole_seconds(-distance)} ago"


def _whole_seconds(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds < 60 else span(seconds)


def exact(at: datetime, now: datetime) -> str:
    """The instant, and its distance from now."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z  ({when(at, now)})"


def progress(made: Progress) -> str:
    """40 of 100 (40 %): rows."""
    of = "" if made.total is None else f" of {made.total:g}"
    share = f" ({100 * made.done / made.total:.0f} %)" if made.total else ""
    return f"{made.done:g}{of}{share}{': ' * bool(made.note)}{made.note}"


def facts(pairs: Mapping[str, str]) -> Text:
    """One line per name and value; empty values are left out.

    Further lines of a value are indented, so that none looks like another fact.
    """
    present = [(name, value) for name, value in pairs.items() if value]
    width = max(len(name) for name, _ in present)
    line_break = "\n" + " " * (width + 4)
    lines = [(f"  {name:<{width}}  ", clean(value.rstrip()).replace("\n", line_break)) for name, value in present]
    return Text("\n").join(Text.assemble((name, "dim"), value) for name, value in lines)


def section(title: str, text: str) -> list[RenderableType]:
    if len(text) > MAX_SECTION_CHARACTERS:
        text = (
            f"{text[:MAX_SECTION_CHARACTERS]}\n… {len(text) - MAX_SECTION_CHARACTERS:,} characters more; --json has all"
        )
    return [Text(), Text(title.upper(), style="dim"), Text(indent(clean(text.rstrip()), "  "))]


def grid(*titles: str, cut: Collection[str] = ()) -> Table:
    """A table without lines, titles in dim capitals. The columns in `cut` shrink if the terminal is narrow."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title.upper(), no_wrap=title not in cut)
    return table


def job_state(job: Job, now: datetime) -> Text:
    """The shown state of a job; `partial` if some of its items failed."""
    return Text("◑ partial", "yellow") if job.partial else state(job.shown(now))


def job_table(jobs: Sequence[Job], now: datetime, sort: Sort | None = None) -> Table:
    wide = console().width >= WIDE_COLUMNS
    titles = ("id", "state", "task", "queue", "due" if sort == "due" else "when", *(("try", "about") if wide else ()))
    table = grid(*titles, cut=("task", "queue", "about"))
    for job in jobs:
        shown = job.shown(now)
        at = when(job.run_at if sort == "due" else _instant(job, shown), now)
        row: list[RenderableType] = [clean(job.id), job_state(job, now), line(job.task), line(job.queue), at]
        if wide:
            row += [str(job.attempt), line(progress_or_reason(job))]
        table.add_row(*row)
    return table


def _instant(job: Job, shown: Shown) -> datetime:
    """The most relevant instant of a job in this state."""
    if shown in ("scheduled", "retrying"):
        return job.run_at
    if shown == "running":
        return job.started_at or job.created_at
    return job.finished_at or job.created_at


def progress_or_reason(job: Job) -> str:
    """The progress of a running job, else the reason of its state."""
    if job.progress is not None and job.worker is not None:
        return progress(job.progress)
    return reason(job)


def reason(job: Job) -> str:
    if job.cancel_reason:
        return job.cancel_reason
    return f"{job.failure.type}: {job.failure.message}" if job.failure else ""


def queue_table(queues: Sequence[Queue], now: datetime) -> Table:
    """One row per queue; the column `paused by` only if a pause is recorded."""
    noted = any(queue.paused_at is not None for queue in queues)
    names = ("queue", "state", "pending", "scheduled", "retrying", "running", *(["paused by"] if noted else []))
    table = grid(*names, cut=("queue", "paused by") if noted else ("queue",))
    for column in table.columns[2:6]:
        column.justify = "right"
    for queue in queues:
        mark = state("paused") if queue.paused else Text("► open", "green")
        counts = (queue.pending, queue.scheduled, queue.retrying, queue.running)
        table.add_row(
            line(queue.name), mark, *(f"{count:,}" for count in counts), *([_pause(queue, now)] if noted else [])
        )
    return table


def _pause(queue: Queue, now: datetime) -> Text:
    """ada 5m ago: the provider is down."""
    if queue.paused_at is None:
        return Text("")
    who = [queue.paused_by] if queue.paused_by else []
    text = " ".join([*who, when(queue.paused_at, now)])
    return line(f"{text}: {queue.note}" if queue.note else text)


def key_table(keys: Sequence[ApiKey], now: datetime) -> Table:
    table = grid("name", "id", "role", "scopes", "made", "used", "expires", cut=("name", "scopes"))
    for key in keys:
        scopes = "all" if key.scopes is None else " ".join(key.scopes)
        used = when(key.last_used_at, now) if key.last_used_at else Text("never", "dim")
        end = when(key.expires_at, now) if key.expires_at else Text("never", "dim")
        table.add_row(line(key.name), key.id, key.role, line(scopes), when(key.created_at, now), used, end)
    return table


def webhook_table(hooks: Sequence[Webhook], standings: Mapping[str, Standing], now: datetime) -> Table:
    table = grid("name", "state", "delivered", "failures", "events", "url", cut=("name", "events", "url"))
    for hook in hooks:
        standing = standings.get(hook.name) or Standing(name=hook.name)
        mark = Text("► open", "green") if hook.disabled_at is None else Text("‖ disabled", "magenta")
        delivered = when(standing.delivered_at, now) if standing.delivered_at else Text("never", "dim")
        events = line(" ".join(hook.events))
        table.add_row(line(hook.name), mark, delivered, str(standing.failures), events, line(abridged_url(hook.url)))
    return table


def trigger_table(triggers: Sequence[InboundTrigger], now: datetime) -> Table:
    table = grid("name", "state", "sets off", "arguments", "made", cut=("name", "sets off", "arguments"))
    for trigger in triggers:
        mark = Text("► open", "green") if trigger.disabled_at is None else Text("‖ disabled", "magenta")
        target = f"task {trigger.task}" if trigger.task is not None else f"schedule {trigger.schedule}"
        parts = trigger.arguments
        taken = [parts] if isinstance(parts, str) else [f"{name}={part}" for name, part in parts.items()]
        arguments = " ".join([*taken, *(f"{name}=…" for name in trigger.kwargs)])
        table.add_row(line(trigger.name), mark, line(target), line(arguments), when(trigger.created_at, now))
    return table


def dead_table(jobs: Sequence[Job], now: datetime) -> Table:
    table = grid("id", "task", "died", "reason", cut=("task", "reason"))
    for job in jobs:
        table.add_row(clean(job.id), line(job.task), when(job.finished_at or job.created_at, now), line(reason(job)))
    return table


def group_table(groups: Sequence[DeadGroup], now: datetime) -> Table:
    wide = console().width >= WIDE_COLUMNS
    table = grid("jobs", "task", "error", "last died", *(("newest",) if wide else ()), cut=("task", "error"))
    table.columns[0].justify = "right"
    for group in groups:
        row: list[RenderableType] = [f"{group.count:,}", line(group.task), line(group.error), when(group.last_at, now)]
        table.add_row(*row, *([group.newest] if wide else []))
    return table


def run_title(run: int) -> Text:
    return Text(f"run {run}", style="dim")


def log_line(entry: LogLine) -> Text:
    """The instant, the level in colour, and the text, whose further lines are indented."""
    name = logging.getLevelName(entry.level).lower()
    style = next((style for level, style in LEVELS if entry.level >= level), "dim")
    at = f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03}Z "
    text = clean(entry.text).replace("\n", "\n    ")
    return Text.assemble((at, "dim"), (f"{name:<{LEVEL_COLUMNS}}", style), text)
