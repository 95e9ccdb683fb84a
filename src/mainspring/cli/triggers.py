"""mainspring triggers: endpoints that start jobs or schedules on signed messages."""

from __future__ import annotations

from typing import Any, Literal

import click
import msgspec

from ..app import Mainspring
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, json_object, span
from .webhooks import print_secret


@click.group()
def triggers() -> None:
    """Create, list and change triggers, which start jobs on messages."""


@triggers.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List triggers, without their secrets."""
    found = await app.triggers.list()
    if as_json:
        return print_json(msgspec.to_builtins(found))
    if not found:
        return hint(f"{store_name(app)} has no triggers; make one: mainspring triggers create NAME --task TASK --body")
    from . import render

    return render.show(render.trigger_table(found, app.clock.now()))


@triggers.command()
@click.argument("name")
@click.option("--task", metavar="TASK", help="Create a job of this task.")
@click.option("--schedule", metavar="NAME", help="Fire this schedule.")
@click.option("--signal", metavar="NAME", help="Give this signal to the job that --job finds.")
@click.option("--job", metavar="PART", help="Where the message has the id of that job, e.g. body.data.flow.")
@click.option("--queue", metavar="NAME", help="Of the job. Default: the task's own.")
@click.option("--priority", type=int, help="Of the job. Default: the task's own.")
@click.option("--kwargs", type=json_object, default="{}", metavar="JSON", help="Fixed arguments, as a JSON object.")
@click.option("--body", is_flag=True, help="Pass all members of the message as arguments.")
@click.option("--argument", "parts", multiple=True, metavar="NAME=PART", help="E.g. event=body, order=body.data.id.")
@click.option("--note", default="", help="A note for others.")
@as_json
@with_app
async def create(
    app: Mainspring,
    name: str,
    task: str | None,
    schedule: str | None,
    signal: str | None,
    job: str | None,
    queue: str | None,
    priority: int | None,
    kwargs: dict[str, Any],
    body: bool,
    parts: tuple[str, ...],
    note: str,
    as_json: bool,
) -> None:
    """Create a trigger at /hooks/NAME, and print the secret that signs its messages, which is not shown again."""
    if body and parts:
        raise click.UsageError("--body makes the whole message arguments: give it, or --argument, not both")
    arguments: Literal["body"] | dict[str, str] = "body" if body else dict(map(_parse_part, parts))
    created = await app.triggers.create(
        name,
        task=task,
        schedule=schedule,
        signal=signal,
        job=job,
        queue=queue,
        priority=priority,
        kwargs=kwargs,
        arguments=arguments,
        note=note,
    )
    print_secret(as_json, "trigger", created.trigger, created.secret)


@triggers.command()
@click.argument("name")
@as_json
@with_app
async def show(app: Mainspring, name: str, as_json: bool) -> None:
    """Show the trigger NAME, without its secret."""
    trigger = await app.triggers.get(name)
    if as_json:
        return print_json(msgspec.to_builtins(trigger))
    from . import hook_page, render

    return render.show(hook_page.trigger_page(trigger, app.clock.now()))


@triggers.command()
@click.argument("name")
@click.option("--task", metavar="TASK", help="Create a job of this task, instead of what it does now.")
@click.option("--schedule", metavar="NAME", help="Fire this schedule, instead of what it does now.")
@click.option("--signal", metavar="NAME", help="Give this signal, instead of what it does now.")
@click.option("--job", metavar="PART", help="With --signal: where the message has the id of the job.")
@click.option("--queue", metavar="NAME", help="Of the job; '' for the task's own.")
@click.option("--priority", metavar="NUMBER", help="Of the job; '' for the task's own.")
@click.option("--kwargs", type=json_object, metavar="JSON", help="Fixed arguments, as a JSON object.")
@click.option("--body", is_flag=True, help="Pass all members of the message as arguments.")
@click.option("--argument", "parts", multiple=True, metavar="NAME=PART", help="Replaces all arguments; '' for none.")
@click.option("--note", help="A note for others.")
@as_json
@with_app
async def update(app: Mainspring, name: str, body: bool, parts: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Change NAME; what is not given stays as it is."""
    if body and parts:
        raise click.UsageError("--body makes the whole message arguments: give it, or --argument, not both")
    changes = {option: value for option, value in given.items() if value is not None}
    does = [one for one in ("task", "schedule", "signal") if changes.get(one)]
    if len(does) > 1:
        raise click.UsageError("a trigger makes a job of a task, fires a schedule, or gives a signal: give one of them")
    if does:
        changes |= {other: None for other in ("task", "schedule", "signal") if other != does[0]}
        if does != ["signal"]:
            changes["job"] = None
    changes |= {option: None for option in ("queue", "priority") if changes.get(option) == ""}
    if changes.get("priority") is not None:
        changes["priority"] = _parse_number(changes["priority"])
    if body or parts:
        changes["arguments"] = "body" if body else dict(_parse_part(part) for part in parts if part)
    if not changes:
        raise click.UsageError("what is to be changed? Give --task, --schedule, --kwargs, --argument, --note, …")
    changed = await app.triggers.update(name, **changes)
    if as_json:
        return print_json(msgspec.to_builtins(changed))
    return click.echo(f"trigger {name!r} is changed: {', '.join(changes)}")


@triggers.command()
@click.argument("name")
@with_app
async def disable(app: Mainspring, name: str) -> None:
    """Refuse messages to NAME until it is enabled."""
    await app.triggers.update(name, disabled=True)
    click.echo(f"trigger {name!r} is disabled; enable it with: mainspring triggers enable {name}")


@triggers.command()
@click.argument("name")
@with_app
async def enable(app: Mainspring, name: str) -> None:
    """Accept messages to NAME again."""
    await app.triggers.update(name, disabled=False)
    click.echo(f"trigger {name!r} is enabled")


@triggers.command()
@click.argument("name")
@click.option("--overlap", type=span, default="1d", show_default=True, help="How long the old secret stays valid.")
@as_json
@with_app
async def rotate(app: Mainspring, name: str, overlap: float, as_json: bool) -> None:
    """Give NAME a new secret and print it; it is not shown again."""
    rotated = await app.triggers.rotate(name, overlap=overlap)
    print_secret(as_json, "trigger", rotated.trigger, rotated.secret)


@triggers.command()
@click.argument("name")
@with_app
async def delete(app: Mainspring, name: str) -> None:
    """Delete NAME; jobs that it has created stay."""
    await app.triggers.delete(name)
    click.echo(f"trigger {name!r} is gone")


def _parse_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number", param_hint="'--priority'") from None


def _parse_part(text: str) -> tuple[str, str]:
    name, equals, part = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=PART, such as event=body", param_hint="'--argument'")
    return name, part
