"""mainspring jobs: seeing, cancelling and retrying jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..app import Mainspring
from ..job import SHOWN, Action, Filter, JobId, Shown
from . import records
from .change import change, matching, tell
from .confirm import confirm
from .failure import hint
from .loading import place, with_app
from .options import F, as_json, yes

_STATES = f"May be repeated. One of {', '.join(SHOWN)}."
OPEN: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "running", "waiting", "paused")


@click.group()
def jobs() -> None:
    """See, cancel and retry jobs."""


def filters(command: F) -> F:
    options: list[Callable[[F], F]] = [
        click.option("--state", "states", type=click.Choice(SHOWN), metavar="STATE", multiple=True, help=_STATES),
        click.option("--queue", "queues", metavar="NAME", multiple=True, help="May be repeated."),
        click.option("--task", "tasks", metavar="NAME", multiple=True, help="May be repeated."),
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated: all of them must be there."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@jobs.command("list")
@filters
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="ID", help="Go on after this job: the last one of the page before.")
@as_json
@with_app
async def list_(app: Mainspring, limit: int, after: str | None, as_json: bool, **parts: Any) -> None:
    """Jobs, newest first."""
    which = _filter(parts)
    found = await app.jobs.list(which, limit=limit, after=after)
    now = app.clock.now()
    if as_json:
        return records.emit([records.job_record(job, now) for job in found])
    if not found:
        if after is not None:
            return hint("no more jobs")
        if which != Filter():
            return hint(f"no job in {place(app)} fits these options; without them all are listed")
        return hint(f"{place(app)} holds no jobs; store one: mainspring enqueue TASK …")
    from . import render

    render.show(render.job_table(found, now))
    if len(found) == limit:
        hint(f"there may be more: --after {found[-1].id}")
    return None


@jobs.command()
@click.argument("id")
@as_json
@with_app
async def show(app: Mainspring, id: JobId, as_json: bool) -> None:
    """Everything about one job, every run included."""
    job = await app.jobs.get(id)
    runs = await app.executions.list(job_id=id)
    now = app.clock.now()
    if as_json:
        return records.emit(records.job_record(job, now) | {"executions": records.execution_records(runs)})
    from . import render

    return render.show(*render.job_page(job, runs, now))


@jobs.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--reason", help="Kept with the job.")
@click.option("--all", "every", is_flag=True, help="All that --state, --queue, --task and --tag choose.")
@filters
@yes
@with_app
async def cancel(
    app: Mainspring, ids: tuple[JobId, ...], reason: str | None, every: bool, yes: bool, **parts: Any
) -> None:
    """Cancel jobs, by id or with --all (default: every unfinished one).

    Waiting jobs never run. Running ones are interrupted when their worker next beats.
    """
    which = _chosen(ids, every, parts, OPEN)
    await _apply(app, Action.CANCEL, ids, which, yes, reason)


@jobs.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All that --state, --queue, --task and --tag choose.")
@filters
@yes
@with_app
async def retry(app: Mainspring, ids: tuple[JobId, ...], every: bool, yes: bool, **parts: Any) -> None:
    """Run jobs again, by id or with --all (default: every dead one).

    Dead, cancelled and expired jobs become pending, with all their retries.
    """
    which = _chosen(ids, every, parts, ("dead",))
    await _apply(app, Action.RETRY, ids, which, yes)


def _filter(parts: dict[str, Any]) -> Filter:
    return Filter(**{name: value or None for name, value in parts.items()})


def _chosen(ids: tuple[JobId, ...], every: bool, parts: dict[str, Any], usual: tuple[Shown, ...]) -> Filter:
    """What to act on: the ids as they are, or with --all a filter with its usual states."""
    if every == bool(ids):
        raise click.UsageError("give job ids, or --all and what to choose by (--state, --queue, --task, --tag)")
    if ids and any(parts.values()):
        raise click.UsageError("--state, --queue, --task and --tag choose among --all; ids need no choice")
    return Filter() if ids else _filter({**parts, "states": parts["states"] or usual})


async def _apply(
    app: Mainspring,
    action: Action,
    ids: tuple[JobId, ...],
    which: Filter,
    yes: bool,
    reason: str | None = None,
) -> None:
    found = list(dict.fromkeys(ids)) or await matching(app, which)
    if not found:
        return hint(f"nothing to {action} in {place(app)}: no job with {_words(which)}")
    if not ids and not yes:
        confirm(f"{action} {len(found):,} job{'s' * (len(found) != 1)} ({_words(which)}) in {place(app)}?")
    return tell(action, await change(app, action, found, which, reason))


def _words(which: Filter) -> str:
    parts = {"state": which.states, "queue": which.queues, "task": which.tasks, "tag": which.tags}
    return "; ".join(f"{name} {', '.join(values)}" for name, values in parts.items() if values)
