"""mainspring webhooks: creates, lists, tests and changes webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..errors import JobUnfinished
from ..webhook.record import EVENTS, EXTRAS, Extra, Kind
from .app_loader import store_name, with_app
from .json_output import job_record, print_json
from .messages import Failed, hint
from .options import as_json, span

# How long `test` waits for a worker.
TEST_TIMEOUT_SECONDS = 30.0


@click.group()
def webhooks() -> None:
    """Create, list, test and change webhooks."""


@webhooks.command("list")
@as_json
@with_app
async def list_(app: Mainspring, as_json: bool) -> None:
    """List webhooks, without their secrets, and how deliveries go."""
    found, standings = await app.webhooks.list(), await app.webhooks.standings()
    if as_json:
        by_name = {one.name: {**msgspec.to_builtins(one)} for one in standings.values()}
        return print_json([msgspec.to_builtins(hook) | {"standing": by_name.get(hook.name)} for hook in found])
    if not found:
        return hint(
            f"{store_name(app)} has no webhooks; make one: mainspring webhooks create NAME https://… --event job.dead"
        )
    from . import render

    return render.show(render.webhook_table(found, standings, app.clock.now()))


@webhooks.command()
@click.argument("name")
@click.argument("url")
@click.option("--event", "events", type=click.Choice(EVENTS), multiple=True, required=True, help="May be repeated.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; may be repeated.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only jobs of this task; may be repeated.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only jobs with this tag; of several, with all of them."
)
@click.option("--include", type=click.Choice(EXTRAS), multiple=True, help="What else of a job is sent.")
@click.option("--note", default="", help="A note for others.")
@as_json
@with_app
async def create(
    app: Mainspring,
    name: str,
    url: str,
    events: Sequence[Kind],
    queues: Sequence[str],
    tasks: Sequence[str],
    tags: Sequence[str],
    include: Sequence[Extra],
    note: str,
    as_json: bool,
) -> None:
    """Send events to URL from now on, and print the secret that signs them, which is not shown again."""
    created = await app.webhooks.create(
        name, url, events, queues=queues or None, tasks=tasks or None, tags=tags or None, include=include, note=note
    )
    print_secret(as_json, "webhook", created.webhook, created.secret)


@webhooks.command()
@click.argument("name")
@as_json
@with_app
async def show(app: Mainspring, name: str, as_json: bool) -> None:
    """Show the webhook NAME, without its secret, and how its deliveries go."""
    hook, standing = await app.webhooks.get(name), await app.webhooks.standing(name)
    if as_json:
        return print_json(msgspec.to_builtins(hook) | {"standing": msgspec.to_builtins(standing)})
    from . import hook_page, render

    return render.show(hook_page.webhook_page(hook, standing, app.clock.now()))


@webhooks.command()
@click.argument("name")
@click.option("--url", help="Where events are sent.")
@click.option(
    "--event", "events", type=click.Choice(EVENTS), multiple=True, help="The events it gets; may be repeated."
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of these queues; '' for all.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only jobs of these tasks; '' for all.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only jobs with all these tags; '' for all.")
@click.option("--include", type=click.Choice([*EXTRAS, ""]), multiple=True, help="What else is sent; '' for nothing.")
@click.option("--note", help="A note for others.")
@as_json
@with_app
async def update(
    app: Mainspring, name: str, url: str | None, note: str | None, as_json: bool, **lists: Sequence[str]
) -> None:
    """Change NAME; what is not given stays as it is. A list replaces the whole old list."""
    given: dict[str, Any] = {"url": url, "note": note}
    given = {option: value for option, value in given.items() if value is not None}
    for option, values in lists.items():
        names = [value for value in values if value]
        if values:
            given[option] = names or ([] if option == "include" else None)
    if not given:
        raise click.UsageError("what is to be changed? Give --url, --event, --queue, --task, --tag, --include, --note")
    hook = await app.webhooks.update(name, **given)
    if as_json:
        return print_json(msgspec.to_builtins(hook))
    return click.echo(f"webhook {name!r} is changed: {', '.join(given)}")


@webhooks.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="Continue after the previous page.")
@as_json
@with_app
async def deliveries(app: Mainspring, name: str, limit: int, after: str | None, as_json: bool) -> None:
    """List the deliveries to NAME, newest first."""
    page, now = await app.webhooks.deliveries(name, limit=limit, after=after), app.clock.now()
    if as_json:
        print_json([job_record(job, now) for job in page])
    elif page:
        from . import hook_page, render

        render.show(hook_page.delivery_table(page, now))
    else:
        hint("no older deliveries are kept" if after else f"webhook {name!r} has no deliveries that are still kept")
    if page.next is not None:
        hint(f"there may be more: --after {page.next}")


@webhooks.command()
@click.argument("name")
@click.option("--overlap", type=span, default="1d", show_default=True, help="How long the old secret stays valid.")
@as_json
@with_app
async def rotate(app: Mainspring, name: str, overlap: float, as_json: bool) -> None:
    """Give NAME a new secret and print it; it is not shown again."""
    rotated = await app.webhooks.rotate(name, overlap=overlap)
    print_secret(as_json, "webhook", rotated.webhook, rotated.secret)


@webhooks.command()
@click.argument("name")
@with_app
async def test(app: Mainspring, name: str) -> None:
    """Send a test event to NAME, and print the result."""
    handle = await app.webhooks.test(name)
    try:
        response = await handle.result(TEST_TIMEOUT_SECONDS)
    except TimeoutError:
        raise Failed(
            f"no worker has delivered it within {TEST_TIMEOUT_SECONDS:.0f} s: mainspring why {handle.id}"
        ) from None
    except JobUnfinished:
        job = await handle.job()
        raise Failed(job.failure.message if job.failure else f"it is {job.state}") from None
    click.echo(f"webhook {name!r} answered {response['status']}")


@webhooks.command()
@click.argument("name")
@with_app
async def disable(app: Mainspring, name: str) -> None:
    """Send nothing to NAME until it is enabled; pending deliveries are cancelled."""
    await app.webhooks.update(name, disabled=True)
    click.echo(f"webhook {name!r} is disabled; enable it with: mainspring webhooks enable {name}")


@webhooks.command()
@click.argument("name")
@with_app
async def enable(app: Mainspring, name: str) -> None:
    """Send events to NAME again."""
    await app.webhooks.update(name, disabled=False)
    click.echo(f"webhook {name!r} is enabled")


@webhooks.command()
@click.argument("name")
@with_app
async def delete(app: Mainspring, name: str) -> None:
    """Delete NAME; pending deliveries are cancelled."""
    await app.webhooks.delete(name)
    click.echo(f"webhook {name!r} is gone")


def print_secret(as_json: bool, what: str, record: Any, secret: str) -> None:
    """Prints the secret alone on stdout, so that scripts can read it."""
    if as_json:
        return print_json({what: msgspec.to_builtins(record), "secret": secret})
    click.echo(secret)
    return hint(f"this is the secret of {what} {record.name!r}; it cannot be shown again")
