"""mainspring why: what keeps a job from running."""

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
        made = {"schedule": job.schedule, "scheduled_at": job.scheduled_at}
        told = {"id": id, "task": job.task, "shown": shown, **made, "reasons": msgspec.to_builtins(reasons)}
        return print_json(told)
    from . import job_page, render

    return render.show(job_page.head(job, now), *job_page.origin(job, now), job_page.why_lines(reasons, now))
