"""mainspring events: what happens, as it happens."""

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
from .failure import hint
from .filters import options
from .loading import with_app
from .options import as_json

_TYPE = "A whole type, job.log, or how it begins: job. May be repeated."
_STATE = f"May be repeated. One of {', '.join(SHOWN)}."
_AFTER = "The number of the last event seen: what came after it is shown first."
_WIDEST = 16

wanted = options(
    click.option("--type", "types", metavar="TYPE", multiple=True, help=_TYPE),
    click.option("--job", "jobs", metavar="ID", multiple=True, help="May be repeated."),
    click.option("--queue", "queues", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--task", "tasks", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--schedule", "schedules", metavar="NAME", multiple=True, help="May be repeated."),
    click.option("--state", "states", type=click.Choice(SHOWN), metavar="STATE", multiple=True, help=_STATE),
)


@click.command()
@wanted
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
            hint(f"to go on from here: --after {last}")


def _json(item: NumberedEvent) -> bytes:
    return msgspec.json.encode({"n": item.n} | msgspec.to_builtins(item.notice))


def _line(item: NumberedEvent) -> str:
    from . import render

    told = item.notice
    words = " ".join(str(render.line(word)) for word in _words(told) if word)
    return f"{item.n:>6}  {told.at:%H:%M:%S}  {told.type:<{_WIDEST}}  {words}".rstrip()


def _words(told: FeedEvent) -> Iterator[str]:
    """What is worth a line: which thing, and what about it."""
    from . import render

    if (job := told.job) is not None:
        yield f"{job.task} {job.id}"
    yield told.action or ""
    yield told.schedule or told.queue or told.worker or ""
    yield ", ".join((*told.ids, *told.schedules, *told.workers))
    if told.leader is not None:
        yield f"{told.leader.name}: {told.leader.holder} {'leads' if told.leader.leading else 'no longer leads'}"
    if told.tick is not None:
        yield f"{told.tick.at:%Y-%m-%d %H:%M:%S}Z {told.tick.reason}"
    if told.duration is not None:
        yield f"after {render.span(told.duration)}"
    if told.error is not None:
        yield f"{told.error.type}: {told.error.message}"
    if told.progress is not None:
        yield render.progress(told.progress)
    if told.line is not None:
        yield told.line.text
    yield "" if told.count is None else f"{told.count:,}"
    yield told.reason or ""
