"""mainspring why: explains why a job is not running."""

from __future__ import annotations

import click
import msgspec

from ..app import Mainspring
from ..ids import JobId
from .app_loader import with_app
from .json_output import print_json
from .options import as_json


@click.command()
@click.argument("id")
@as_json
@with_app
async def why(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Explain why a job is not running, or where it runs.

    Prints every reason, when it may end if that is known, and the jobs that block it.
    """
    job, reasons, now = await app.jobs.get(id), await app.jobs.why(id), app.clock.now()
    shown = job.shown(now)
    if as_json:
        origin = {"schedule": job.schedule, "scheduled_at": job.scheduled_at}
        record = {"id": id, "task": job.task, "shown": shown, **origin, "reasons": msgspec.to_builtins(reasons)}
        return print_json(record)
    from . import job_page, render

    return render.show(
        job_page.job_heading(job, now), *job_page.schedule_lines(job, now), job_page.why_lines(reasons, now)
    )
