"""mainspring jobs cancel, retry, run-again, pause, resume, delete."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from ..app import Mainspring
from ..ids import JobId
from ..records.job import DEFAULT_STATES, Action
from .app_loader import with_app
from .job_changes import ChangeCommand, apply_change, choose_jobs, which_jobs
from .json_output import print_json
from .options import as_json


@click.command()
@click.option("--reason", help="The reason; kept with the job.")
@which_jobs
@with_app
async def cancel(app: Mainspring, reason: str | None, **given: Any) -> None:
    """Cancel waiting and running jobs.

    By id, or those that options choose: without --state, unfinished ones. Waiting jobs never run; running
    ones are interrupted at their worker's next heartbeat.
    """
    choice = await choose_jobs(app, DEFAULT_STATES[Action.CANCEL], given)
    act = app.jobs.cancel if reason is None else partial(app.jobs.cancel, reason=reason)
    await apply_change(app, ChangeCommand.of(Action.CANCEL, "cancelled", act), choice)


@click.command()
@which_jobs
@with_app
async def retry(app: Mainspring, **given: Any) -> None:
    """Run dead, cancelled and expired jobs again.

    By id, or those that options choose: without --state, dead ones. They become pending, with all their
    retries.
    """
    await apply_change(
        app,
        ChangeCommand.of(Action.RETRY, "pending again", app.jobs.retry),
        await choose_jobs(app, DEFAULT_STATES[Action.RETRY], given),
    )


@click.command("run-again")
@click.argument("id")
@as_json
@with_app
async def run_again(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Enqueue a copy of a finished job as a new job.

    It has the same task, queue, arguments, tags and options. The finished job stays as it is: to run a dead,
    cancelled or expired job itself again, use `jobs retry`.
    """
    copy = await app.jobs.run_again(id)
    if as_json:
        return print_json({"id": copy.id, "of": id})
    return click.echo(copy.id)


@click.command()
@which_jobs
@with_app
async def pause(app: Mainspring, **given: Any) -> None:
    """Pause waiting jobs until they are resumed.

    By id, or those that options choose: without --state, pending, scheduled and retrying ones.
    """
    await apply_change(
        app,
        ChangeCommand.of(Action.PAUSE, "paused", app.jobs.pause),
        await choose_jobs(app, DEFAULT_STATES[Action.PAUSE], given),
    )


@click.command()
@which_jobs
@with_app
async def resume(app: Mainspring, **given: Any) -> None:
    """Resume paused jobs.

    By id, or those that options choose.
    """
    await apply_change(
        app,
        ChangeCommand.of(Action.RESUME, "pending again", app.jobs.resume),
        await choose_jobs(app, DEFAULT_STATES[Action.RESUME], given),
    )


@click.command()
@which_jobs
@with_app
async def delete(app: Mainspring, **given: Any) -> None:
    """Delete jobs and their history.

    By id, or those that options choose: without --state, finished ones. Running jobs are refused: cancel
    them first.
    """
    await apply_change(
        app,
        ChangeCommand.of(Action.DELETE, "deleted", app.jobs.delete),
        await choose_jobs(app, DEFAULT_STATES[Action.DELETE], given),
    )
