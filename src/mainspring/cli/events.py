"""mainspring events: prints the live feed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import click
import msgspec

from ..app import Mainspring
from ..feed.event import FeedEvent
from ..feed.hub import NumberedEvent
from ..records.job import SHOWN
from .app_loader import with_app
from .filters import combine_options
from .messages import hint
from .options import as_json

_TYPE = "An event type, job.log, or its first part: job. May be repeated."
_STATE = f"May be repeated. One of {', '.join(SHOWN)}."
_AFTER = "Start after the event with this number."
_TYPE_COLUMNS = 16

event_filters = combine_options(
    click.option("--type", "types", metavar="TYPE", multiple=True, help=_TYPE),
    click.option("--job", "jobs", metavar="ID", multiple=True, help="May be repeated."),
    click.option("--queue", "queues", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--task", "tasks", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--schedule", "schedules", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--state", "states", type=click.Choice(SHOWN), metavar="STATE", multiple=True, help=_STATE),
)


@click.command()
@event_filters
@click.option("--after", type=click.IntRange(0), metavar="N", help=_AFTER)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after this number of events.")
@as_json
@with_app
async def events(app: Mainspring, after: int | None, count: int | None, as_json: bool, **names: Any) -> None:
    """Show events of all processes as they happen, until Ctrl-C.

    Workers publish events from their next heartbeat (5 seconds) on. --json prints one JSON document per line.
    """
    seen, last = 0, after
    try:
        async with aclosing(app.watch(after=after, **names)) as items:
            async for item in items:
                click.echo(_json(item) if as_json else _line(item))
                seen, last = seen + 1, item.n
                if seen == count:
                    break
    finally:
        if last is not None and not as_json:
            hint(f"to continue from here: --after {last}")


def _json(item: NumberedEvent) -> bytes:
    return msgspec.json.encode({"n": item.n} | msgspec.to_builtins(item.notice))


def _line(item: NumberedEvent) -> str:
    from . import render

    event = item.notice
    words = " ".join(str(render.line(word)) for word in _words(event) if word)
    return f"{item.n:>6}  {event.at:%H:%M:%S}  {event.type:<{_TYPE_COLUMNS}}  {words}".rstrip()


def _words(event: FeedEvent) -> Iterator[str]:
    """What the event is about, and its details."""
    from . import render

    if (job := event.job) is not None:
        yield f"{job.task} {job.id}"
    yield event.action or ""
    yield event.schedule or event.queue or event.worker or ""
    yield ", ".join((*event.ids, *event.schedules, *event.workers))
    if event.leader is not None:
        yield f"{event.leader.name}: {event.leader.holder} {'leads' if event.leader.leading else 'no longer leads'}"
    if event.tick is not None:
        yield f"{event.tick.at:%Y-%m-%d %H:%M:%S}Z {event.tick.reason}"
    if event.duration is not None:
        yield f"after {render.span(event.duration)}"
    if event.error is not None:
        yield f"{event.error.type}: {event.error.message}"
    if event.progress is not None:
        yield render.progress(event.progress)
    if event.line is not None:
        yield event.line.text
    yield "" if event.count is None else f"{event.count:,}"
    yield event.reason or ""
