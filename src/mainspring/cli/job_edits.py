"""mainspring jobs update, reschedule: change waiting jobs."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import click

from ..app import Mainspring
from ..records.job import MAX_PRIORITY, MIN_PRIORITY, Action, Shown
from ..records.query import Filter
from .app_loader import with_app
from .arguments import parse_arguments
from .filters import combine_options
from .job_changes import ChangeCommand, apply_change, choose_jobs, first_jobs, which_jobs
from .options import instant, json_object, span

WAITING: tuple[Shown, ...] = ("pending", "scheduled", "retrying", "waiting", "paused")
PRIORITY = click.IntRange(MIN_PRIORITY, MAX_PRIORITY)
_NONE = ("none", "never")
# A tuple, because None is a value of some options.
Given = tuple[float | datetime | None]

arg_option = click.option(
    "--arg",
    "args",
    metavar="KEY=VALUE",
    multiple=True,
    help="A new value for an argument; or KEY:=JSON. May be repeated.",
)


def _parse_timeout(text: str) -> Given:
    return (None if text in _NONE else span(text),)


def _parse_expiry(text: str) -> Given:
    return (None if text in _NONE else instant(text),)


value_options = combine_options(
    click.option("--priority", type=PRIORITY, metavar="N", help="Higher runs first; negative ones last."),
    click.option("--set-queue", "queue", metavar="NAME", help="Move to this queue."),
    click.option("--max-retries", type=click.IntRange(0), metavar="N", help="Retries after the first attempt."),
    click.option("--timeout", type=_parse_timeout, metavar="SPAN|none", help="Time limit of one attempt: 90, 5m."),
    click.option(
        "--expires-at", type=_parse_expiry, metavar="INSTANT|never", help="Expires then if it has not started."
    ),
    click.option("--set-tag", "new_tags", metavar="TAG", multiple=True, help="Replaces its tags. May be repeated."),
    click.option("--no-tags", is_flag=True, help="Removes its tags."),
    click.option("--metadata", type=json_object, metavar="JSON", help="A JSON object that replaces its metadata."),
    arg_option,
)
PLAIN_OPTIONS = ("priority", "queue", "max_retries", "metadata")


@click.command()
@value_options
@which_jobs
@with_app
async def update(app: Mainspring, args: Sequence[str], new_tags: Sequence[str], no_tags: bool, **given: Any) -> None:
    """Change waiting jobs.

    By id, or those that options choose. What is not given stays as it is. --queue and --tag choose jobs; --set-queue
    and --set-tag change them. With an app, tasks check their new arguments.
    """
    new = {name: value for name in PLAIN_OPTIONS if (value := given.pop(name)) is not None}
    new |= {name: value[0] for name in ("timeout", "expires_at") if (value := given.pop(name)) is not None}
    if given["ids"] and (given["queues"] or given["tags"]):
        raise click.UsageError("--queue and --tag choose jobs; --set-queue and --set-tag change them")
    if new_tags and no_tags:
        raise click.UsageError("--set-tag and --no-tags exclude each other")
    if new_tags or no_tags:
        new["tags"] = list(new_tags)
    if not new and not args:
        raise click.UsageError("what is to be changed? Give --priority, --set-queue, --metadata, --arg, …")
    choice = await choose_jobs(app, WAITING, given)
    if args:
        new["arguments"] = await parse_arg_options(app, args, choice.which)
    await apply_change(app, ChangeCommand.of(Action.UPDATE, "updated", partial(app.jobs.update, **new)), choice)


@click.command()
@click.option("--at", type=instant, metavar="INSTANT", help="Due at this time: 2030-01-31T09:00:00Z.")
@click.option("--in", "later", type=span, metavar="SPAN", help="Due this long from now: 90, 5m, 2h.")
@which_jobs
@with_app
async def reschedule(app: Mainspring, at: datetime | None, later: float | None, **given: Any) -> None:
    """Change when waiting jobs are due.

    By id, or those that options choose.
    """
    if (at is None) == (later is None):
        raise click.UsageError("when? Give --at INSTANT or --in SPAN")
    run_at = at if later is None else app.clock.now() + timedelta(seconds=later)
    assert run_at is not None
    done = f"due at {run_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    act = partial(app.jobs.reschedule, at=run_at)
    await apply_change(
        app, ChangeCommand.of(Action.UPDATE, done, act, "reschedule"), await choose_jobs(app, WAITING, given)
    )


async def parse_arg_options(app: Mainspring, words: Sequence[str], which: Filter) -> dict[str, Any]:
    """The values of --arg: typed if all the jobs have one task whose code is known, else text."""
    tasks = {job.task for job in await first_jobs(app, which)}
    task = app.tasks.get(tasks.pop()) if len(tasks) == 1 else None
    hints = typing.get_type_hints(task.fn, include_extras=True) if task is not None else {}
    return parse_arguments(words, hints, "write --arg KEY=VALUE, or KEY:=JSON")
