"""Options that choose jobs, and the Filter made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from ..app import Mainspring
from ..ids import WorkerId
from ..records.job import SHOWN
from ..records.query import Filter
from ..records.run import Failure
from .options import F, moment

_STATES = f"May be repeated. One of {', '.join(SHOWN)}."
_WORKER = "Jobs that this worker is running: its id, or the beginning of it. May be repeated."
_ERROR = "The last error, as `dead list` shows it, or the beginning of it. May be repeated."
_MAX_DEAD_GROUPS = 1000
# Names of the parts of a filter, as a confirmation question shows them.
_NAMES = {
    "state": "states", "queue": "queues", "task": "tasks", "schedule": "schedules", "tag": "tags",
    "worker": "workers", "error": "errors",
}  # fmt: skip


def combine_options(*which: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator that adds several options; the help page shows them in this order."""

    def add(command: F) -> F:
        for option in reversed(which):
            command = option(command)
        return command

    return add


by_task = click.option("--task", "tasks", metavar="NAME", multiple=True, help="May be repeated.")
by_error = click.option("--error", "errors", metavar="TEXT", multiple=True, help=_ERROR)
filter_options = combine_options(
    click.option("--state", "states", type=click.Choice(SHOWN), metavar="STATE", multiple=True, help=_STATES),
    click.option("--queue", "queues", metavar="NAME", multiple=True, help="May be repeated."),
    by_task,
    click.option(
        "--schedule", "schedules", metavar="NAME", multiple=True, help="The schedule that created it. May be repeated."
    ),
    click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated: jobs that have all of them."),
    click.option("--worker", "workers", metavar="ID", multiple=True, help=_WORKER),
    by_error,
    click.option("--outcome", type=click.Choice(["partial"]), help="Completed jobs some of whose items failed."),
    click.option("--key-prefix", metavar="TEXT", help="The beginning of its unique or idempotency key."),
    click.option("--since", type=moment, metavar="INSTANT|SPAN", help="Created then or later; 2h: two hours ago."),
    click.option("--until", type=moment, metavar="INSTANT|SPAN", help="Created then or before; 2h: two hours ago."),
)


async def filter_of(app: Mainspring, parts: Mapping[str, Any]) -> Filter:
    """The Filter that these options describe; workers and errors may be given by their beginning."""
    given = {name: value for name, value in parts.items() if value not in (None, ())}
    if given.get("key_prefix") == "":
        raise click.UsageError("--key-prefix is empty, and every key begins so")
    now = app.clock.now()
    since, until = (_instant(given.pop(name, None), now) for name in ("since", "until"))
    if since is not None and until is not None and since > until:
        raise click.UsageError(f"--since {since:%Y-%m-%d %H:%M:%S}Z is after --until {until:%Y-%m-%d %H:%M:%S}Z")
    if "workers" in given:
        given["workers"] = await _workers(app, given["workers"])
    if "errors" in given:
        given["errors"] = await _errors(app, given["errors"])
    return Filter(**given, created_after=since, created_before=until)


def _instant(given: datetime | timedelta | None, now: datetime) -> datetime | None:
    return now - given if isinstance(given, timedelta) else given


async def _workers(app: Mainspring, given: Sequence[str]) -> tuple[WorkerId, ...]:
    """Ids of live workers that begin with a text; a text that matches none is taken as the id of a dead worker."""
    live = [worker.info.id for worker in await app.workers.list()]
    return _unique(one for text in given for one in _starting_with(text, live) or [text])


async def _errors(app: Mainspring, given: Sequence[str]) -> tuple[str, ...]:
    """Errors of dead jobs that begin with a text; a text that matches none is taken as an error itself."""
    known = sorted({group.error for group in await app.dead.groups(limit=_MAX_DEAD_GROUPS)})
    return _unique(one for text in given for one in _starting_with(text, known) or [text, _kind(text)])


def _starting_with(text: str, known: Sequence[str]) -> list[str]:
    return [text] if text in known else [one for one in known if text and one.startswith(text)]


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _kind(text: str) -> str:
    type, _, message = text.partition(": ")
    return Failure(type, message).kind


def filter_text(which: Filter) -> str:
    """The filter in words, for a question."""
    parts = [(name, getattr(which, field)) for name, field in _NAMES.items()]
    texts = [f"{name} {', '.join(values)}" for name, values in parts if values]
    if which.outcome:
        texts.append(f"outcome {which.outcome}")
    if which.key_prefix:
        texts.append(f"key {which.key_prefix}…")
    if which.created_after:
        texts.append(f"since {which.created_after:%Y-%m-%d %H:%M:%S}Z")
    if which.created_before:
        texts.append(f"until {which.created_before:%Y-%m-%d %H:%M:%S}Z")
    return "; ".join(texts)
