"""mainspring doctor: whether the store, the workers and their jobs are well, and what to do if not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from ..app import Mainspring
from ..control.schedule_index import pages
from ..errors import MainspringError
from ..insight.diagnosis import DoctorFacts, ScheduleFact, answer, findings
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
from . import records
from .loading import place, with_any_app
from .options import as_json
from .text import safe

if TYPE_CHECKING:
    from rich.text import Text

RUNNING, LOST, DUE = 1000, 1000, 200
# Workers prune every few minutes; only what stays for longer than this was forgotten by them.
SLACK = timedelta(hours=1)
LOOKS: dict[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "bold yellow"), "bad": ("✗", "bold red")}


@click.command()
@as_json
@with_any_app
async def doctor(app: Mainspring, as_json: bool) -> None:
    """Check the store, its workers and their jobs for problems.

    Each line is ok, warn or bad, with what to do about it. The exit code is 1 if something is bad.
    """
    found = await examine(app)
    if as_json:
        document = {"store": place(app), "verdict": worst_verdict(found), "findings": msgspec.to_builtins(found)}
        records.emit(document)
    else:
        _show(found)
    if worst_verdict(found) == "bad":
        click.get_current_context().exit(1)


async def examine(app: Mainspring) -> list[Finding]:
    """Everything that can be said; if the store does not answer, only that."""
    health = await app.health()
    if not health.ready:
        remedy = "mend that first: nothing else can be looked at"
        return [Finding("store", "bad", _named(app, "; ".join(health.reasons)), remedy)]
    try:
        store = await app.opened()
        before = app.clock.monotonic()
        await store.time()
        answered = timedelta(seconds=app.clock.monotonic() - before)
        own = [*await store.diagnose(), document_finding(await _unreadable_documents(app, store))]
        return [answer(place(app), answered), *own, *findings(await _facts(app, store, answered))]
    except MainspringError as error:
        return [Finding("store", "bad", _named(app, str(error)), "look again, and at the store's own log")]


async def _unreadable_documents(app: Mainspring, store: Store) -> list[UnreadableRecord]:
    now = app.clock.now()
    hooks = [*await WEBHOOKS.unreadable(store, now), *await TRIGGERS.unreadable(store, now)]
    return [*await app.keys.unreadable(), *hooks]


def _named(app: Mainspring, trouble: str) -> str:
    """Of which store, if it does not say so itself."""
    said = safe(trouble)
    return said if place(app) in said else f"{place(app)}: {said}"


async def _facts(app: Mainspring, store: Store, answered: timedelta) -> DoctorFacts:
    stats, now = await app.stats(), app.clock.now()
    workers = await store.workers(now=now)
    overdue, orphaned = await _overdue(app, store, workers, now) if app.tasks else (None, [])
    return DoctorFacts(
        now=now, answered=answered, skew=app.clock.skew, schema=await store.schema(), stats=stats,
        workers=workers, circuits=await store.circuits(),
        running=await store.jobs(Filter(states=("running",)), now=now, limit=RUNNING, brief=True),
        lost=await store.expired(now=now, limit=LOST), due=await due(store, stats.queues, now, DUE),
        schedules=[ScheduleFact.of(row) async for page in pages(store) for row in page],
        oldest=await _oldest(store, now), overdue=overdue, orphaned=orphaned,
    )  # fmt: skip


async def due(store: Store, queues: Sequence[Queue], now: datetime, limit: int) -> list[Job]:
    """The first jobs of those queues that could run now, paused queues left out."""
    open = tuple(queue.name for queue in queues if not queue.paused and (queue.pending or queue.retrying))
    if not open:
        return []
    # Chosen by time and not by state: then an index finds them, however many are due later.
    first = await store.jobs(Filter(queues=open), now=now, limit=limit, sort="due", brief=True)
    return [job for job in first if job.run_at <= now and job.shown(now) in ("pending", "retrying")]


async def _oldest(store: Store, now: datetime) -> datetime | None:
    ended = []
    for state in FINAL:
        ended += await store.jobs(Filter(states=(state.value,)), now=now, limit=1, sort="finished", brief=True)
    return min((job.finished_at for job in ended if job.finished_at is not None), default=None)


Groups = list[tuple[State, str]]


async def _overdue(app: Mainspring, store: Store, workers: Sequence[WorkerRow], now: datetime) -> tuple[Groups, Groups]:
    """States and tasks with jobs that retention should have removed: those of this app, and those that
    neither it nor a live worker knows. What another app's workers know is theirs."""
    elsewhere = {task for worker in workers for task in worker.info.tasks}
    overdue, orphaned = Groups(), Groups()
    for state, task in await store.groups():
        known = task in app.tasks and not app.tasks[task].stub
        if not known and task in elsewhere:
            continue
        rule = retention_of(state, app.tasks[task].options.retention if known else {}, app.settings)
        if rule.age is not None:
            before = now - rule.age - SLACK
            if await store.surplus(state, task, keep=rule.keep, before=before, limit=1):
                (overdue if known else orphaned).append((state, task))
    return overdue, orphaned


def _show(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from . import render
    from .text import clean

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        symbol, style = LOOKS[finding.verdict]
        said = Text(clean(finding.text))
        if finding.remedy:
            said.append(f"\n→ {clean(finding.remedy)}", style="cyan")
        table.add_row(Text(f"{symbol} {finding.verdict}", style), finding.about, said)
    render.show(table, _summary(found))


def _summary(found: Sequence[Finding]) -> Text:
    from rich.text import Text

    verdicts = [finding.verdict for finding in found]
    warnings, bad = verdicts.count("warn"), verdicts.count("bad")
    if not warnings and not bad:
        return Text("\nall is well", "green")
    parts = [f"{bad} bad"] * bool(bad) + [f"{warnings} warning{'s' * (warnings != 1)}"] * bool(warnings)
    return Text(f"\n{', '.join(parts)}", LOOKS[worst_verdict(found)][1])
