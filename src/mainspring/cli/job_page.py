"""A page about one job: its fields, why it waits, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..insight.why import Reason
from ..records.job import Job, State
from ..records.run import PARTIAL, Checkpoint, Ending, Execution
from .messages import clean
from .render import MAX_SECTION_CHARACTERS, exact, facts, grid, job_state, line, progress, section, size, span, when

# Stored steps that a page shows.
MAX_STEPS = 50
OUTCOME_MARKS: dict[str, tuple[str, str]] = {
    PARTIAL: ("◑", "yellow"),
    Ending.COMPLETED: ("✓", "green"),
    Ending.FAILED: ("✗", "red"),
    Ending.TIMEOUT: ("✗", "red"),
    Ending.SNOOZED: ("◔", "blue"),
    Ending.RELEASED: ("◔", "blue"),
    Ending.SUSPENDED: ("◔", "blue"),
    Ending.DISCARDED: ("✗", "bold red"),
    Ending.CANCELLED: ("⊘", "dim"),
    Ending.CRASHED: ("✗", "bold red"),
}


def job_page(
    job: Job, executions: Sequence[Execution], reasons: Sequence[Reason], now: datetime, by: str | None = None
) -> list[RenderableType]:
    """The page; `by` is the user who enqueued the job."""
    page: list[RenderableType] = [job_heading(job, now), facts(_pairs(job, now) | {"made by": by or ""})]
    if reasons:
        page += [Text(), Text("WHY", style="dim"), why_lines(reasons, now)]
    page += section("arguments", _json(job.payload))
    if job.result is not None:
        page += section("result", _json(job.result))
    if job.failure is not None:
        page += section("failure", job.failure.stack or f"{job.failure.type}: {job.failure.message}")
    if executions:
        page += [Text(), _executions(executions), *_notes(executions)]
    return page


def step_lines(steps: Sequence[Checkpoint], now: datetime) -> list[RenderableType]:
    """The durable steps that are stored, the last ones if they are many."""
    if not steps:
        return []
    left_out = [Text(f"  … {len(steps) - MAX_STEPS} steps before these", style="dim")] if len(steps) > MAX_STEPS else []
    table = grid("step", "stored", "value", cut=("value",))
    for one in steps[-MAX_STEPS:]:
        table.add_row(line(one.name), when(one.at, now), line(one.value[:MAX_SECTION_CHARACTERS]))
    return [Text(), *left_out, table]


def job_heading(job: Job, now: datetime) -> Text:
    return Text.assemble(job_state(job, now), "  ", (clean(job.task), "bold"), f"  {clean(job.id)}")


def schedule_lines(job: Job, now: datetime) -> list[Text]:
    """The schedule and the tick of the job, if a schedule created it."""
    if job.schedule is None or job.scheduled_at is None:
        return []
    tick = f"for its tick {exact(job.scheduled_at, now)}"
    return [Text.assemble(("  of schedule ", "dim"), clean(job.schedule), f", {tick}")]


def why_lines(reasons: Sequence[Reason], now: datetime) -> Text:
    """Each reason with the time at which it may end, and the jobs that block this one."""
    lines: list[Text] = []
    for reason in reasons:
        until = f" ({when(reason.until, now)})" if reason.until is not None else ""
        lines.append(Text.assemble(("  • ", "dim"), line(f"{reason.text[:MAX_SECTION_CHARACTERS]}{until}")))
        lines += [Text.assemble(("    in the way: ", "dim"), clean(holder)) for holder in reason.holders]
    return Text("\n").join(lines)


def _pairs(job: Job, now: datetime) -> dict[str, str]:
    def at(instant: datetime | None) -> str:
        return "" if instant is None else exact(instant, now)

    crashes = f" ({job.crashes} ended by a crash)" if job.crashes else ""
    timeout = "none" if job.timeout is None else "" if job.timeout is UNSET else span(job.timeout)
    return {
        "schedule": job.schedule or "",
        "tick": at(job.scheduled_at),
        "queue": job.queue,
        "priority": str(job.priority),
        "created": at(job.created_at),
        "due": at(job.run_at) if job.state is State.PENDING or job.run_at > job.created_at else "",
        "expires": at(job.expires_at),
        "started": at(job.started_at),
        "finished": at(job.finished_at),
        "progress": "" if job.progress is None else f"{progress(job.progress)}  ({when(job.progress.at, now)})",
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


def _json(text: str) -> str:
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def _executions(executions: Sequence[Execution]) -> Table:
    """One row per run; columns that would be empty are left out."""
    optional = [column for column in (_ITEMS, _USAGE) if any(column.of(run) for run in executions)]
    titles = [title for column in optional for title in column.titles]
    table = grid("run", "try", "ended", "started", "took", *titles, "reason", "worker", cut=("reason", "worker"))
    for column in table.columns[5 : 5 + len(titles)]:
        column.justify = "right"
    for run in executions:
        symbol, style = OUTCOME_MARKS[run.outcome]
        why = f"{run.failure.type}: {run.failure.message}" if run.failure else ""
        cells = [cell for column in optional for cell in column.of(run) or [""] * len(column.titles)]
        outcome = Text(f"{symbol} {run.outcome}", style)
        times = f"{run.started_at:%H:%M:%S}", span(run.duration.total_seconds())
        table.add_row(str(run.number), str(run.attempt), outcome, *times, *cells, line(why), line(run.worker))
    return table


class _Columns(Struct, frozen=True):
    """Columns that only some jobs need; `of` returns their cells, none for a run without values."""

    titles: tuple[str, ...]
    of: Callable[[Execution], Sequence[str]]


def _items(run: Execution) -> Sequence[str]:
    return () if run.items is None else [f"{n:,}" for n in (run.items.success, run.items.failed, run.items.skipped)]


def _usage(run: Execution) -> Sequence[str]:
    return () if run.usage is None else (span(run.usage.cpu), size(run.usage.memory))


_ITEMS = _Columns(("ok", "failed", "skipped"), _items)
_USAGE = _Columns(("cpu", "memory"), _usage)


def _notes(executions: Sequence[Execution]) -> list[RenderableType]:
    noted = [run for run in executions if run.metadata]
    return [
        Text(clean(f"run {run.number}: {msgspec.json.encode(run.metadata).decode()[:MAX_SECTION_CHARACTERS]}"))
        for run in noted
    ]
