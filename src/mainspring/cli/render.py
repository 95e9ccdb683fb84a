"""Jobs and queues as people read them: tables, ages, colours. A state has a symbol as well as a colour."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from textwrap import indent

import msgspec
from msgspec import UNSET
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ..job import Ending, Execution, Job, Queue, Shown, State
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
ENDINGS: dict[Ending, tuple[str, str]] = {
    Ending.COMPLETED: ("✓", "green"),
    Ending.FAILED: ("✗", "red"),
    Ending.TIMEOUT: ("✗", "red"),
    Ending.SNOOZED: ("◔", "blue"),
    Ending.RELEASED: ("◔", "blue"),
    Ending.DISCARDED: ("✗", "bold red"),
    Ending.CANCELLED: ("⊘", "dim"),
    Ending.CRASHED: ("✗", "bold red"),
}
# A console this wide also has room for attempts and reasons.
WIDE = 110
LONG = 4000
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


def when(at: datetime, now: datetime) -> str:
    """An instant from here: 12m ago, in 3h."""
    distance = (at - now).total_seconds()
    if abs(distance) < 1:
        return "now"
    return f"in {_whole(distance)}" if distance > 0 else f"{_whole(-distance)} ago"


def _whole(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds < 60 else span(seconds)


def grid(*titles: str, cut: Collection[str] = ()) -> Table:
    """A table without lines, titles in dim capitals; where room is short, the columns in `cut` give."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title.upper(), no_wrap=title not in cut)
    return table


def job_table(jobs: Sequence[Job], now: datetime) -> Table:
    wide = console().width >= WIDE
    titles = ("id", "state", "task", "queue", "when", *(("try", "reason") if wide else ()))
    table = grid(*titles, cut=("task", "queue", "reason"))
    for job in jobs:
        shown = job.shown(now)
        at = when(_instant(job, shown), now)
        row: list[RenderableType] = [job.id, state(shown), line(job.task), line(job.queue), at]
        if wide:
            row += [str(job.attempt), line(reason(job))]
        table.add_row(*row)
    return table


def _instant(job: Job, shown: Shown) -> datetime:
    """The instant that says most about a job in this state."""
    if shown in ("scheduled", "retrying"):
        return job.run_at
    if shown == "running":
        return job.started_at or job.created_at
    return job.finished_at or job.created_at


def reason(job: Job) -> str:
    if job.cancel_reason:
        return job.cancel_reason
    return f"{job.failure.type}: {job.failure.message}" if job.failure else ""


def job_page(job: Job, executions: Sequence[Execution], now: datetime) -> list[RenderableType]:
    head = Text.assemble(state(job.shown(now)), "  ", (clean(job.task), "bold"), f"  {job.id}")
    page: list[RenderableType] = [head, _facts(job, now)]
    page += _section("arguments", _json(job.payload))
    if job.result is not None:
        page += _section("result", _json(job.result))
    if job.failure is not None:
        page += _section("failure", job.failure.stack or f"{job.failure.type}: {job.failure.message}")
    if executions:
        page += [Text(), _executions(executions)]
    return page


def _facts(job: Job, now: datetime) -> Text:
    pairs = [(name, value) for name, value in _pairs(job, now).items() if value]
    width = max(len(name) for name, _ in pairs)
    return Text("\n").join(Text.assemble((f"  {name:<{width}}  ", "dim"), clean(value)) for name, value in pairs)


def _pairs(job: Job, now: datetime) -> dict[str, str]:
    def at(instant: datetime | None) -> str:
        return "" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}Z  ({when(instant, now)})"

    crashes = f" ({job.crashes} ended by a crash)" if job.crashes else ""
    timeout = "none" if job.timeout is None else "" if job.timeout is UNSET else span(job.timeout)
    return {
        "queue": job.queue,
        "priority": str(job.priority),
        "created": at(job.created_at),
        "due": at(job.run_at) if job.state is State.PENDING or job.run_at > job.created_at else "",
        "expires": at(job.expires_at),
        "started": at(job.started_at),
        "finished": at(job.finished_at),
        "attempts": f"{job.attempt}{crashes}",
        "worker": job.worker or "",
        "max retries": "" if job.max_retries is None else str(job.max_retries),
        "timeout": timeout,
        "unique key": job.unique_key or "",
        "idempotency key": job.idempotency_key or "",
        "tags": ", ".join(job.tags),
        "metadata": msgspec.json.encode(job.metadata).decode() if job.metadata else "",
        "cancel reason": job.cancel_reason or "",
    }


def _section(title: str, text: str) -> list[RenderableType]:
    if len(text) > LONG:
        text = f"{text[:LONG]}\n… {len(text) - LONG:,} characters more; --json has all"
    return [Text(), Text(title.upper(), style="dim"), Text(indent(clean(text.rstrip()), "  "))]


def _json(text: str) -> str:
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def _executions(executions: Sequence[Execution]) -> Table:
    table = grid("run", "try", "ended", "started", "took", "reason", "worker", cut=("reason", "worker"))
    for run in executions:
        symbol, style = ENDINGS[run.ending]
        why = f"{run.failure.type}: {run.failure.message}" if run.failure else ""
        table.add_row(
            str(run.number), str(run.attempt), Text(f"{symbol} {run.ending}", style), f"{run.started_at:%H:%M:%S}",
            span(run.duration.total_seconds()), line(why), line(run.worker),
        )  # fmt: skip
    return table


def queue_table(queues: Sequence[Queue]) -> Table:
    table = grid("queue", "state", "pending", "scheduled", "retrying", "running", cut=("queue",))
    for column in table.columns[2:]:
        column.justify = "right"
    for queue in queues:
        mark = state("paused") if queue.paused else Text("► open", "green")
        counts = (queue.pending, queue.scheduled, queue.retrying, queue.running)
        table.add_row(line(queue.name), mark, *(f"{count:,}" for count in counts))
    return table
