"""mainspring audit: who changed what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..app import Mainspring
from ..codec import decode_or_text
from ..control.audit_words import reason_of, target_text
from ..records.audit import AuditEntry, AuditFilter
from . import records
from .failure import hint
from .loading import place, with_app
from .options import as_json, moment

if TYPE_CHECKING:
    from rich.table import Table

_ACTION = "A whole one, jobs.cancel, or a noun alone: jobs."
_TARGET = "A job's id, a schedule's or queue's name: as the list says it."


@click.command()
@click.option("--who", metavar="NAME", help="The author, as the list shows it.")
@click.option("--action", metavar="ACTION", help=_ACTION)
@click.option("--target", metavar="TEXT", help=_TARGET)
@click.option("--since", type=moment, metavar="INSTANT|SPAN", help="Then or later; 2h: two hours ago.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=20, show_default=True)
@click.option("--before", metavar="ID", help="Continue after the previous page, with the same options.")
@as_json
@with_app
async def audit(
    app: Mainspring, since: datetime | timedelta | None, limit: int, before: str | None, as_json: bool, **parts: Any
) -> None:
    """List who changed what, newest first.

    Lists changes whose author is known. Changes made with this command line are recorded as cli:USER@HOST.
    """
    now = app.clock.now()
    which = AuditFilter(since=now - since if isinstance(since, timedelta) else since, **parts)
    found = await app.audit.list(which, limit=limit, before=before)
    if as_json:
        records.emit([_record(entry) for entry in found])
    elif found:
        from . import render

        render.show(_table(found, now))
    if not found and not as_json:
        hint("no more entries" if before is not None else _none(app, which))
    elif len(found) == limit:
        hint(f"there may be more: --before {found[-1].id}")


def _none(app: Mainspring, which: AuditFilter) -> str:
    if which == AuditFilter():
        return f"the audit trail of {place(app)} is empty; changes by commands, or inside `with acting(…)`, go there"
    return f"no entry in the audit trail of {place(app)} fits these options; without them all are listed"


def _record(entry: AuditEntry) -> dict[str, Any]:
    """Every field; what was asked and what became of it as data, not as text."""
    told = None if entry.outcome is None else decode_or_text(entry.outcome)
    words = {"target_text": target_text(entry.action, entry.target), "reason": reason_of(entry)}
    return msgspec.structs.asdict(entry) | {"asked": decode_or_text(entry.asked), "outcome": told} | words


def _table(entries: Sequence[AuditEntry], now: datetime) -> Table:
    from . import render

    wide = render.console().width >= render.WIDE
    more = ("outcome",) if wide else ()
    table = render.grid("when", "who", "action", "target", *more, cut=("who", "target", "outcome"))
    for entry in entries:
        what = _what(entry) if wide else f"{_what(entry)}{_failed(entry)}"
        said = (entry.who, entry.action, what, *((_told(entry),) if wide else ()))
        table.add_row(render.when(entry.at, now), *map(render.line, said))
    return table


def _what(entry: AuditEntry) -> str:
    """The target in words, and why."""
    reason = reason_of(entry)
    return f"{target_text(entry.action, entry.target)}{f': {reason}' if reason else ''}"


def _failed(entry: AuditEntry) -> str:
    """Where there is no room for outcomes, those that would be taken for done."""
    told = None if entry.outcome is None else decode_or_text(entry.outcome)
    return f" (failed: {told['error']})" if isinstance(told, dict) and "error" in told else ""


def _told(entry: AuditEntry) -> str:
    """What became of it, in a few words."""
    told = None if entry.outcome is None else decode_or_text(entry.outcome)
    if not isinstance(told, dict):
        return "unknown: the process died"
    if "error" in told:
        return str(told["error"])
    if "done" in told:
        refused = f", {told['refused']:,} refused" if told["refused"] else ""
        thing = "schedule" if entry.action.startswith("schedules.") else "job"
        return f"{told['done']:,} {thing}{'s' * (told['done'] != 1)}{refused}"
    after = told.get("after", {})
    if after is None:
        return "deleted"
    names = ", ".join(after) if isinstance(after, dict) else "changed"
    return names if told.get("before") is not None and after else "created" if after else "nothing to change"
