"""mainspring triggers: what others may set off by a signed message."""

from __future__ import annotations

from typing import Any, Literal

import click
import msgspec

from ..app import Mainspring
from . import records
from .failure import hint
from .loading import place, with_app
from .options import as_json, json_object, span
from .webhooks import secret_shown


@click.group()
def triggers() -> None:
    """Let signed messages set off tasks and schedules."""


@triggers.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """All of them, without their secrets."""
    found = await app.triggers.list()
    if as_json:
        return records.emit(msgspec.to_builtins(found))
    if not found:
        return hint(f"{place(app)} has no triggers; make one: mainspring triggers create NAME --task TASK --body")
    from . import render

    return render.show(render.trigger_table(found, app.clock.now()))


@triggers.command()
@click.argument("name")
@click.option("--task", metavar="TASK", help="Make a job of this task.")
@click.option("--schedule", metavar="NAME", help="Fire this schedule.")
@click.option("--queue", metavar="NAME", help="Of the job; the task's own otherwise.")
@click.option("--priority", type=int, help="Of the job; the task's own otherwise.")
@click.option("--kwargs", type=json_object, default="{}", metavar="JSON", help="Arguments that are the same each time.")
@click.option("--body", is_flag=True, help="The members of the message are arguments.")
@click.option("--argument", "parts", multiple=True, metavar="NAME=PART", help="E.g. event=body, order=body.data.id.")
@click.option("--note", default="", help="For people.")
@as_json
@with_app
async def create(
    app: Mainspring,
    name: str,
    task: str | None,
    schedule: str | None,
    queue: str | None,
    priority: int | None,
    kwargs: dict[str, Any],
    body: bool,
    parts: tuple[str, ...],
    note: str,
    as_json: bool,
) -> None:
    """Let messages to /hooks/NAME set off a task or a schedule, and print the secret to sign them with, this once."""
    if body and parts:
        raise click.UsageError("--body makes the whole message arguments: give it, or --argument, not both")
    arguments: Literal["body"] | dict[str, str] = "body" if body else dict(map(_part, parts))
    made = await app.triggers.create(
        name, task=task, schedule=schedule, queue=queue, priority=priority, kwargs=kwargs, arguments=arguments,
        note=note,
    )  # fmt: skip
    secret_shown(as_json, "trigger", made.trigger, made.secret)


@triggers.command()
@click.argument("name")
@click.option("--overlap", type=span, default="1d", show_default=True, help="The old one counts, too, for so long.")
@as_json
@with_app
async def rotate(app: Mainspring, name: str, overlap: float, as_json: bool) -> None:
    """Give NAME a new secret and print it, this once."""
    made = await app.triggers.rotate(name, overlap=overlap)
    secret_shown(as_json, "trigger", made.trigger, made.secret)


@triggers.command()
@click.argument("name")
@with_app
async def delete(app: Mainspring, name: str) -> None:
    """Forget NAME; jobs that it has made are left alone."""
    await app.triggers.delete(name)
    click.echo(f"trigger {name!r} is gone")


def _part(text: str) -> tuple[str, str]:
    name, equals, part = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=PART, such as event=body", param_hint="'--argument'")
    return name, part
