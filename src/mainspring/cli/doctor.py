"""mainspring doctor: checks the store, the workers and their jobs, and prints what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from ..app import Mainspring
from ..control.schedule_index import pages
from ..errors import MainspringError
from ..insight.diagnosis import DoctorFacts, ScheduleFact, findings, store_finding
from ..insight.wrong_counts import wrong_counts
from ..records.finding import Finding, Verdict, worst_verdict
from ..records.job import FINAL, Job, State, UnreadableRecord
from ..records.query import Filter
from ..records.queue import Queue
from ..records.unreadable import document_finding
from ..records.worker import WorkerRow
from ..store import Store
from ..task.retention import retention_of
from ..webhook.inbound import TRIGGERS
from ..webhook.record import WEBHOOKS
from .app_loader import store_name, with_any_app
from .json_output import print_json
from .messages import safe
from .options import as_json

if TYPE_CHECKING:
    from rich.text import Text

# Jobs that are read of each kind.
MAX_RUNNING_JOBS = 1000
MAX_LOST_JOBS = 1000
MAX_DUE_JOBS = 200
# Workers prune every few minutes: a job is overdue only if it outlives its retention by this much.
PRUNING_SLACK = timedelta(hours=1)
MARKS: dict[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "bold yellow"), "bad": ("✗", "bold red")}


@click.command()
@as_json
@with_any_app
async def doctor(app: Mainspring, as_json: bool) -> None:
    """Check the store, its workers and their jobs for problems.

    Each line is ok, warn or bad, with what to do about it. The exit code is 1 if something is bad.
    """
    found = await examine(app)
    if as_json:
        document = {"store": store_name(app), "verdict": worst_verdict(found), "findings": msgspec.to_builtins(found)}
        print_json(document)
    else:
        _show(found)
    if worst_verdict(found) == "bad":
        click.get_current_context().exit(1)


async def examine(app: Mainspring) -> list[Finding]:
    """All findings; only one if the store does not answer."""
    health = await app.health()
    if not health.ready:
        remedy = "fix that first: nothing else can be checked"
        return [Finding("store", "bad", _with_store(app, "; ".join(health.reasons)), remedy)]
    try:
        store = await app.connect()
        before = app.clock.monotonic()
        await store.time()
        answered = timedelta(seconds=app.clock.monotonic() - before)
        own = [*await store.diagnose(), document_finding(await _unreadable_documents(app, store))]
        return [store_finding(store_name(app), answered), *own, *findings(await _facts(app, store, answered))]
    except MainspringError as error:
        return [Finding("store", "bad", _with_store(app, str(error)), "try again, and look at the store's own log")]


async def _unreadable_documents(app: Mainspring, store: Store) -> list[UnreadableRecord]:
    now = app.clock.now()
    hooks = [*await WEBHOOKS.unreadable(store, now), *await TRIGGERS.unreadable(store, now)]
    return [*await app.keys.unreadable(), *hooks]


def _with_store(app: Mainspring, trouble: str) -> str:
    """The text with the store's name, unless it is in there."""
    text = safe(trouble)
    return text if store_name(app) in text else f"{store_name(app)}: {text}"


async def _facts(app: Mainspring, store: Store, answered: timedelta) -> DoctorFacts:
    stats, now = await app.stats(), app.clock.now()
    workers = await store.workers(now=now)
    overdue, orphaned = await _overdue(app, store, workers, now) if app.tasks else (None, [])
    return DoctorFacts(
        now=now,
        answered=answered,
        skew=app.clock.skew,
        schema=await store.schema(),
        stats=stats,
        workers=workers,
        circuits=(await store.overview(now=now, finished=False)).circuits,
        running=await store.jobs(Filter(states=("running",)), now=now, limit=MAX_RUNNING_JOBS, brief=True),
        lost=await store.orphaned(now=now, limit=MAX_LOST_JOBS),
        due=await due_jobs(store, stats.queues, now, MAX_DUE_JOBS),
        schedules=[ScheduleFact.of(row) async for page in pages(store) for row in page],
        oldest=await _oldest(store, now),
        overdue=overdue,
        orphaned=orphaned,
        wrong_counts=await wrong_counts(store, now),
    )


async def due_jobs(store: Store, queues: Sequence[Queue], now: datetime, limit: int) -> list[Job]:
    """The first jobs that could run now, without those of paused queues."""
    open = tuple(queue.name for queue in queues if not queue.paused and (queue.pending or queue.retrying))
    if not open:
        return []
    # Sorted by due time without a filter by state: an index finds them, however many jobs are due later.
    first = await store.jobs(Filter(queues=open), now=now, limit=limit, sort="due", brief=True)
    return [job for job in first if job.run_at <= now and job.shown(now) in ("pending", "retrying")]


async def _oldest(store: Store, now: datetime) -> datetime | None:
    ended = []
    for state in FINAL:
        ended += await store.jobs(Filter(states=(state.value,)), now=now, limit=1, sort="finished", brief=True)
    return min((job.finished_at for job in ended if job.finished_at is not None), default=None)


Groups = list[tuple[State, str]]


async def _overdue(app: Mainspring, store: Store, workers: Sequence[WorkerRow], now: datetime) -> tuple[Groups, Groups]:
    """States and tasks with jobs that retention should have removed: tasks of this app, and tasks without code.

    A task that only workers of another app know is left to them.
    """
    elsewhere = {task for worker in workers for task in worker.info.tasks}
    overdue, orphaned = Groups(), Groups()
    for state, task in await store.finished_groups():
        known = task in app.tasks and not app.tasks[task].stub
        if not known and task in elsewhere:
            continue
        rule = retention_of(state, app.tasks[task].options.retention if known else {}, app.settings)
        if rule.age is not None:
            before = now - rule.age - PRUNING_SLACK
            if await store.prunable(state, task, keep=rule.keep, before=before, limit=1):
                (overdue if known else orphaned).append((state, task))
    return overdue, orphaned


def _show(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from . import render
    from .messages import clean

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        symbol, style = MARKS[finding.verdict]
        text = Text(clean(finding.text))
        if finding.remedy:
            text.append(f"\n→ {clean(finding.remedy)}", style="cyan")
        table.add_row(Text(f"{symbol} {finding.verdict}", style), finding.about, text)
    render.show(table, _summary(found))


def _summary(found: Sequence[Finding]) -> Text:
    from rich.text import Text

    verdicts = [finding.verdict for finding in found]
    warnings, bad = verdicts.count("warn"), verdicts.count("bad")
    if not warnings and not bad:
        return Text("\nall is well", "green")
    parts = [f"{bad} bad"] * bool(bad) + [f"{warnings} warning{'s' * (warnings != 1)}"] * bool(warnings)
    return Text(f"\n{', '.join(parts)}", MARKS[worst_verdict(found)][1])
