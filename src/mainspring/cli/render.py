"""Things as people read them: tables, ages, sizes, colours. A state has a symbol as well as a colour."""

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
from ..webhook.record import Standing, Webhook, abridged
from .text import clean

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
# A console this wide also has room for attempts and reasons.
WIDE = 110
LONG = 4000
NAME = 9
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def console(*, plain: bool = False) -> Console:
    """What is printed is data: no markup is read from it."""
    if plain:
        return Console(markup=False, highlight=False, emoji=False, color_system=None, force_terminal=False)
    return Console(markup=False, highlight=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Tables fit the width; text is left whole, so that it can be copied."""
    out = console()
    for part in parts:
        out.print(part, soft_wrap=isinstance(part, Text))


def line(text: str) -> Text:
    """One line, cut where its column ends."""
    return Text(" ".join(clean(text).split()), no_wrap=True, overflow="ellipsis")


def state(shown: Shown) -> Text:
    symbol, style = STATES[shown]
    return Text(f"{symbol} {shown}", style=style, no_wrap=True)


def span(seconds: float) -> str:
    """3ms, 2.4s, 59s, 12m, 3h, 2d: short and never more than five characters."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.0f}s" if seconds < 59.5 else "1m"


def size(count: int) -> str:
    """Bytes: 312B, 4.2K, 48M, 1.5G."""
    amount, unit = finding.format_size(count).split()
    return f"{amount}{unit[0]}"


def when(at: datetime, now: datetime) -> str:
    """An instant from here: 12m ago, in 3h."""
    distance = (at - now).total_seconds()
    if abs(distance) < 1:
        return "now"
    return f"in {_whole(distance)}" if distance > 0 else f"{_whole(-distance)} ago"


def _whole(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds < 60 else span(seconds)


def exact(at: datetime, now: datetime) -> str:
    """The instant itself, and from here."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z  ({when(at, now)})"


def progress(far: Progress) -> str:
    """40 of 100 (40 %): rows."""
    of = "" if far.total is None else f" of {far.total:g}"
    share = f" ({100 * far.done / far.total:.0f} %)" if far.total else ""
    return f"{far.done:g}{of}{share}{': ' * bool(far.note)}{far.note}"


def facts(pairs: Mapping[str, str]) -> Text:
    """Name and value, a line each; those without a value are left out.

    Further lines of a value are below its first one, so that none looks like a fact.
    """
    said = [(name, value) for name, value in pairs.items() if value]
    width = max(len(name) for name, _ in said)
    below = "\n" + " " * (width + 4)
    lines = [(f"  {name:<{width}}  ", clean(value.rstrip()).replace("\n", below)) for name, value in said]
    return Text("\n").join(Text.assemble((name, "dim"), value) for name, value in lines)


def section(title: str, text: str) -> list[RenderableType]:
    if len(text) > LONG:
        text = f"{text[:LONG]}\n… {len(text) - LONG:,} characters more; --json has all"
    return [Text(), Text(title.upper(), style="dim"), Text(indent(clean(text.rstrip()), "  "))]


def grid(*titles: str, cut: Collection[str] = ()) -> Table:
    """A table without lines, titles in dim capitals; where room is short, the columns in `cut` give."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title.upper(), no_wrap=title not in cut)
    return table


def job_state(job: Job, now: datetime) -> Text:
    """Its state as people see it; one that completed in part is partial."""
    return Text("◑ partial", "yellow") if job.partial else state(job.shown(now))


def job_table(jobs: Sequence[Job], now: datetime, sort: Sort | None = None) -> Table:
    wide = console().width >= WIDE
    titles = ("id", "state", "task", "queue", "due" if sort == "due" else "when", *(("try", "about") if wide else ()))
    table = grid(*titles, cut=("task", "queue", "about"))
    for job in jobs:
        shown = job.shown(now)
        at = when(job.run_at if sort == "due" else _instant(job, shown), now)
        row: list[RenderableType] = [clean(job.id), job_state(job, now), line(job.task), line(job.queue), at]
        if wide:
            row += [str(job.attempt), line(about(job))]
        table.add_row(*row)
    return table


def _instant(job: Job, shown: Shown) -> datetime:
    """The instant that says most about a job in this state."""
    if shown in ("scheduled", "retrying"):
        return job.run_at
    if shown == "running":
        return job.started_at or job.created_at
    return job.finished_at or job.created_at


def about(job: Job) -> str:
    """How far it is, or why it is where it is."""
    if job.progress is not None and job.worker is not None:
        return progress(job.progress)
    return reason(job)


def reason(job: Job) -> str:
    if job.cancel_reason:
        return job.cancel_reason
    return f"{job.failure.type}: {job.failure.message}" if job.failure else ""


def queue_table(queues: Sequence[Queue], now: datetime) -> Table:
    """Who paused a queue and why has a column only if a pause was recorded."""
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
    words = " ".join([*who, when(queue.paused_at, now)])
    return line(f"{words}: {queue.note}" if queue.note else words)


def key_table(keys: Sequence[ApiKey], now: datetime) -> Table:
    table = grid("name", "id", "role", "scopes", "made", "used", "expires", cut=("name", "scopes"))
    for key in keys:
        scopes = "all" if key.scopes is None else " ".join(key.scopes)
        used = when(key.last_used_at, now) if key.last_used_at else Text("never", "dim")
        end = when(key.expires_at, now) if key.expires_at else Text("never", "dim")
        table.add_row(line(key.name), key.id, key.role, line(scopes), when(key.created_at, now), used, end)
    return table


def webhook_table(hooks: Sequence[Webhook], standings: Mapping[str, Standing], now: datetime) -> Table:
    table = grid("name", "state", "told", "failures", "events", "url", cut=("name", "events", "url"))
    for hook in hooks:
        went = standings.get(hook.name) or Standing(name=hook.name)
        mark = Text("► open", "green") if hook.disabled_at is None else Text("‖ disabled", "magenta")
        told = when(went.delivered_at, now) if went.delivered_at else Text("never", "dim")
        events = line(" ".join(hook.events))
        table.add_row(line(hook.name), mark, told, str(went.failures), events, line(abridged(hook.url)))
    return table


def trigger_table(triggers: Sequence[InboundTrigger], now: datetime) -> Table:
    table = grid("name", "state", "sets off", "arguments", "made", cut=("name", "sets off", "arguments"))
    for one in triggers:
        mark = Text("► open", "green") if one.disabled_at is None else Text("‖ disabled", "magenta")
        does = f"task {one.task}" if one.task is not None else f"schedule {one.schedule}"
        taken = [one.arguments] if isinstance(one.arguments, str) else [f"{k}={v}" for k, v in one.arguments.items()]
        arguments = " ".join([*taken, *(f"{name}=…" for name in one.kwargs)])
        table.add_row(line(one.name), mark, line(does), line(arguments), when(one.created_at, now))
    return table


def dead_table(jobs: Sequence[Job], now: datetime) -> Table:
    table = grid("id", "task", "died", "reason", cut=("task", "reason"))
    for job in jobs:
        table.add_row(clean(job.id), line(job.task), when(job.finished_at or job.created_at, now), line(reason(job)))
    return table


def group_table(groups: Sequence[DeadGroup], now: datetime) -> Table:
    wide = console().width >= WIDE
    table = grid("jobs", "task", "error", "last died", *(("newest",) if wide else ()), cut=("task", "error"))
    table.columns[0].justify = "right"
    for group in groups:
        row: list[RenderableType] = [f"{group.count:,}", line(group.task), line(group.error), when(group.last_at, now)]
        table.add_row(*row, *([group.newest] if wide else []))
    return table


def run_title(run: int) -> Text:
    return Text(f"run {run}", style="dim")


def log_line(said: LogLine) -> Text:
    """Its instant, its level in colour, and the text; further lines of it stand apart from lines of their own."""
    level = logging.getLevelName(said.level).lower()
    style = next((style for least, style in LEVELS if said.level >= least), "dim")
    at = f"{said.at:%Y-%m-%d %H:%M:%S}.{said.at.microsecond // 1000:03}Z "
    text = clean(said.text).replace("\n", "\n    ")
    return Text.assemble((at, "dim"), (f"{level:<{NAME}}", style), text)
