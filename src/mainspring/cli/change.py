"""One action on many jobs, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext

import click
from msgspec import Struct
from msgspec.structs import replace

from ..app import Mainspring
from ..control import PAGE
from ..errors import InvalidTransition, JobExists
from ..handle import missing
from ..job import ALLOWED, Action, Changed, Filter, JobId, Refusal
from .failure import Failed, hint

DONE = {Action.CANCEL: "cancelled", Action.RETRY: "pending again"}
SHOWN_REFUSALS = 10


class Report(Struct):
    done: list[JobId] = []
    stopping: int = 0
    """Running jobs among them: their worker ends them."""
    moved: int = 0
    """Chosen, and in another state by the time they were reached."""
    refusals: list[str] = []


async def matching(app: Mainspring, which: Filter) -> list[JobId]:
    """All of them, from the newest back, so that jobs that come meanwhile do not keep it going."""
    found: list[JobId] = []
    after: JobId | None = None
    while page := await app.jobs.list(which, limit=PAGE, after=after):
        found += [job.id for job in page]
        after = page[-1].id
    return found


async def change(app: Mainspring, action: Action, ids: Sequence[JobId], which: Filter, reason: str | None) -> Report:
    """Page by page, by id: a job that still fits the filter afterwards cannot make this go round for ever."""
    report = Report()
    pages = [tuple(ids[start : start + PAGE]) for start in range(0, len(ids), PAGE)]
    progress = click.progressbar(pages, label=f"{action} {len(ids):,} jobs", file=sys.stderr)
    with progress if len(pages) > 1 else nullcontext(pages) as each:
        for page in each:
            await _change(app, action, replace(which, ids=page), reason, report)
    return report


async def _change(app: Mainspring, action: Action, which: Filter, reason: str | None, report: Report) -> None:
    if action is Action.RETRY:
        changed = await app.jobs.retry(which)
    else:
        changed = await (app.jobs.cancel(which) if reason is None else app.jobs.cancel(which, reason))
        running = Filter(ids=tuple(changed.done), states=("running",))
        report.stopping += len(await app.jobs.list(running, limit=PAGE))
    report.done += changed.done
    report.refusals += [_refusal(action, id, why) for id, why in changed.refused.items()]
    await _look_for_the_rest(app, which, changed, report)


async def _look_for_the_rest(app: Mainspring, which: Filter, changed: Changed, report: Report) -> None:
    answered = {*changed.done, *changed.refused}
    rest = tuple(id for id in which.ids or () if id not in answered)
    known = {job.id for job in await app.jobs.list(Filter(ids=rest), limit=PAGE)} if rest else set()
    report.moved += len(known)
    report.refusals += [str(missing(id)) for id in rest if id not in known]


def _refusal(action: Action, id: JobId, refusal: Refusal) -> str:
    if refusal.holder is not None:
        return f"cannot {action} job {id}: {JobExists(refusal.key or '', refusal.holder)}"
    return str(InvalidTransition(id, refusal.state, action, ", ".join(sorted(ALLOWED[action]))))


def tell(action: Action, report: Report) -> None:
    """What was done on stdout, what was not on stderr; fails if anything was refused."""
    ended = len(report.done) - report.stopping
    if ended:
        click.echo(f"{_jobs(ended)} {DONE[action]}")
    if report.stopping:
        click.echo(f"{_jobs(report.stopping)} running and told to stop")
    if report.moved:
        hint(f"{_jobs(report.moved)} in another state by now and left alone")
    if len(report.refusals) == 1 and not report.done:
        raise Failed(report.refusals[0])
    for line in report.refusals[:SHOWN_REFUSALS]:
        hint(line)
    if len(report.refusals) > SHOWN_REFUSALS:
        hint(f"… and {len(report.refusals) - SHOWN_REFUSALS:,} more like these")
    if report.refusals:
        raise Failed(f"{len(report.refusals):,} of {len(report.refusals) + len(report.done):,} jobs refused")


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"
