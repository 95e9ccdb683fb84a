"""mainspring jobs: lists and shows jobs; job_actions and job_edits change them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..errors import BadSetting
from ..ids import JobId
from ..records.job import Job
from ..records.query import SORTS, Filter, Sort
from .app_loader import store_name, with_app
from .filters import filter_of, filter_options
from .job_actions import cancel, delete, pause, resume, retry, run_again
from .job_edits import reschedule, update
from .job_logs import logs
from .job_output import output
from .json_output import checkpoint_records, execution_records, job_record, print_json
from .messages import hint
from .options import as_json

# The jobs that a list in this order contains.
_ONLY = {"due": "pending, scheduled and retrying jobs", "finished": "finished jobs"}
_SORT = "created, due (waiting jobs by due time) or finished. Default: finished for completed, dead, cancelled ones."


@click.group()
def jobs() -> None:
    """List, show and change jobs."""


@jobs.command("list")
@filter_options
@click.option("--sort", type=click.Choice(SORTS), metavar="ORDER", help=_SORT)
@click.option("--oldest-first/--newest-first", default=None, help="Default: newest first; with --sort due, soonest.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="Continue after the previous page, with the same options.")
@as_json
@with_app
async def list_(
    app: Mainspring,
    sort: Sort | None,
    oldest_first: bool | None,
    limit: int,
    after: str | None,
    as_json: bool,
    **parts: Any,
) -> None:
    """List jobs, newest first."""
    which = await filter_of(app, parts)
    oldest = sort == "due" if oldest_first is None else oldest_first
    page = await app.jobs.list(which, limit=limit, after=after, newest=not oldest, sort=sort)
    now = app.clock.now()
    if as_json:
        print_json([job_record(job, now) for job in page])
    elif page:
        from . import render

        render.show(render.job_table(page, now, sort))
    if not page and not as_json:
        hint("no more jobs" if after is not None else _none(app, which, sort))
    elif page.next is not None:
        hint(f"there may be more: --after {page.next}")


def _none(app: Mainspring, which: Filter, sort: Sort | None) -> str:
    if which == Filter() and sort in _ONLY:
        return f"{store_name(app)} holds no {_ONLY[sort]}, which is what --sort {sort} lists"
    if which == Filter():
        return f"{store_name(app)} holds no jobs; store one: mainspring enqueue TASK …"
    only = f" (--sort {sort} lists {_ONLY[sort]} only)" if sort in _ONLY else ""
    return f"no job in {store_name(app)} fits these options{only}; without them all are listed"


@jobs.command()
@click.argument("id")
@as_json
@with_app
async def show(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Show one job: why it waits, and all its runs."""
    job, now = await app.jobs.get(id), app.clock.now()
    runs, by = await app.executions.list(job_id=id), await _enqueued_by(app, job)
    # The page shows anyway that the job is finished.
    why = [reason for reason in await app.jobs.why(id) if reason.code != "final"]
    steps = await app.jobs.checkpoints(id)
    if as_json:
        more = {"enqueued_by": by, "why": msgspec.to_builtins(why), "executions": execution_records(runs)}
        return print_json(job_record(job, now) | more | {"checkpoints": checkpoint_records(steps)})
    from . import job_page, render

    return render.show(*job_page.job_page(job, runs, why, now, by), *job_page.step_lines(steps, now))


async def _enqueued_by(app: Mainspring, job: Job) -> str | None:
    """The user who enqueued it; None if unknown, or if the key of an API may not read the audit log."""
    try:
        return await app.audit.enqueued_by(job)
    except BadSetting as refused:
        hint(f"who enqueued it is not known here: {refused}")
        return None


for command in (cancel, retry, run_again, pause, resume, delete, update, reschedule, logs, output):
    jobs.add_command(command)
