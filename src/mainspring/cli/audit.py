"""mainspring audit: lists the audit log."""

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
from .app_loader import store_name, with_app
from .json_output import print_json
from .messages import hint
from .options import as_json, moment

if TYPE_CHECKING:
    from rich.table import Table

_ACTION = "An action, jobs.cancel, or all of a noun: jobs."
_TARGET = "A job's id, or the name of a schedule or queue, as listed."


@click.command()
@click.option("--who", metavar="NAME", help="The author, as listed.")
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
        print_json([_record(entry) for entry in found])
    elif found:
        from . import render

        render.show(_table(found, now))
    if not found and not as_json:
        hint("no more entries" if before is not None else _none(app, which))
    elif len(found) == limit:
        hint(f"there may be more: --before {found[-1].id}")


def _none(app: Mainspring, which: AuditFilter) -> str:
    if which == AuditFilter():
        return (
            f"the audit trail of {store_name(app)} is empty; changes by commands, or inside `with act_as(…)`, go there"
        )
    return f"no entry in the audit trail of {store_name(app)} fits these options; without them all are listed"


def _record(entry: AuditEntry) -> dict[str, Any]:
    """Every field; parameters and outcome as data, not as text."""
    values = {"asked": decode_or_text(entry.asked), "outcome": _outcome(entry)}
    texts = {"target_text": target_text(entry.action, entry.target), "reason": reason_of(entry)}
    return msgspec.structs.asdict(entry) | values | texts


def _outcome(entry: AuditEntry) -> Any:
    return None if entry.outcome is None else decode_or_text(entry.outcome)


def _table(entries: Sequence[AuditEntry], now: datetime) -> Table:
    from . import render

    wide = render.console().width >= render.WIDE_COLUMNS
    more = ("outcome",) if wide else ()
    table = render.grid("when", "who", "action", "target", *more, cut=("who", "target", "outcome"))
    for entry in entries:
        target = _target(entry) if wide else f"{_target(entry)}{_error(entry)}"
        cells = (entry.who, entry.action, target, *((_outcome_text(entry),) if wide else ()))
        table.add_row(render.when(entry.at, now), *map(render.line, cells))
    return table


def _target(entry: AuditEntry) -> str:
    """The target in words, and the reason if one was given."""
    reason = reason_of(entry)
    return f"{target_text(entry.action, entry.target)}{f': {reason}' if reason else ''}"


def _error(entry: AuditEntry) -> str:
    """The error of a failed action, for a table without a column of outcomes."""
    outcome = _outcome(entry)
    return f" (failed: {outcome['error']})" if isinstance(outcome, dict) and "error" in outcome else ""


def _outcome_text(entry: AuditEntry) -> str:
    outcome = _outcome(entry)
    if not isinstance(outcome, dict):
        return "unknown: the process died"
    if "error" in outcome:
        return str(outcome["error"])
    if "done" in outcome:
        refused = f", {outcome['refused']:,} refused" if outcome["refused"] else ""
        thing = "schedule" if entry.action.startswith("schedules.") else "job"
        return f"{outcome['done']:,} {thing}{'s' * (outcome['done'] != 1)}{refused}"
    after = outcome.get("after", {})
    if after is None:
        return "deleted"
    names = ", ".join(after) if isinstance(after, dict) else "changed"
    return names if outcome.get("before") is not None and after else "created" if after else "nothing to change"
