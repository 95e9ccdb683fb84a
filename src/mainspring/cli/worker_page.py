"""Workers for people: a table of all, and a page about one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..records.job import Job
from ..records.worker import WorkerRow, WorkerState
from .messages import clean
from .render import WIDE_COLUMNS, console, exact, facts, grid, line, progress, size, when

STATES: dict[WorkerState, tuple[str, str]] = {
    "open": ("►", "green"),
    "draining": ("◔", "yellow"),
    "drained": ("‖", "magenta"),
    "resuming": ("↻", "yellow"),
    "stopping": ("■", "red"),
}


def worker_table(workers: Sequence[WorkerRow], now: datetime) -> Table:
    """One row per worker; host and process only on wide terminals, leaked slots only if there are any."""
    wide, leaks = console().width >= WIDE_COLUMNS, any(worker.info.leaked for worker in workers)
    left = ("id", *(("host", "pid") if wide else ()), "state")
    table = grid(
        *left, "slots", *(("leaked",) if leaks else ()), "ended", "memory", "beat by", "queues", cut=("queues",)
    )
    for worker in workers:
        info = worker.info
        row: list[RenderableType] = [clean(info.id), *((line(info.host), str(info.pid)) if wide else ()), state(worker)]
        row += [slots(worker), *([_leaked(info.leaked)] if leaks else []), f"{info.finished:,}"]
        table.add_row(*row, size(info.memory), when(worker.until, now), line(queues(worker)))
    return table


def worker_page(worker: WorkerRow, jobs: Sequence[Job], now: datetime) -> list[RenderableType]:
    info = worker.info
    head = Text.assemble(state(worker), "  ", (clean(info.id), "bold"))
    about = {
        "host": info.host,
        "process": str(info.pid),
        "started": exact(info.started_at, now),
        "beat by": exact(worker.until, now),
        "slots": f"{slots(worker)} taken",
        "leaked": f"{info.leaked} of them by runs that ignore their interruption" if info.leaked else "",
        "deaf": "not notified of new jobs: it polls for them" if info.deaf else "",
        "ended": f"{info.finished:,} runs",
        "memory": size(info.memory),
        "queues": queues(worker),
        "tasks": ", ".join(_limited(info.tasks, info.limits)),
    }
    page: list[RenderableType] = [head, facts(about), Text()]
    return [*page, _runs(jobs, now) if jobs else Text("It runs nothing now.", style="dim")]


def state(worker: WorkerRow) -> Text:
    word = worker.state
    symbol, style = STATES[word]
    return Text(f"{symbol} {word}", style=style, no_wrap=True)


def slots(worker: WorkerRow) -> str:
    """3/100; 3/100→50 until the worker has applied an order to have 50."""
    info, wanted = worker.info, worker.orders.concurrency
    ordered = f"→{wanted}" if wanted not in (None, info.concurrency) else ""
    return f"{info.running}/{info.concurrency}{ordered}"


def queues(worker: WorkerRow) -> str:
    info = worker.info
    return "all" if info.queues is None else ", ".join(_limited(info.queues, info.queue_limits))


def _limited(names: Sequence[str], limits: Mapping[str, int]) -> list[str]:
    return [f"{name}={limits[name]}" if name in limits else name for name in names]


def _leaked(count: int) -> Text:
    return Text(str(count), style="bold red" if count else "dim")


def _runs(jobs: Sequence[Job], now: datetime) -> Table:
    table = grid("id", "task", "queue", "try", "started", "progress", cut=("task", "queue", "progress"))
    for job in jobs:
        made = "" if job.progress is None else progress(job.progress)
        started = when(job.started_at or job.created_at, now)
        table.add_row(clean(job.id), line(job.task), line(job.queue), str(job.attempt), started, line(made))
    return table
