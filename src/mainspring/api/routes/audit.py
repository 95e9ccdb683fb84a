"""/audit: who did what; and /time, for those who go by the same clock."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct
from msgspec.structs import asdict

from ...control.audit_words import reason_of, target_text
from ...records.audit import AuditEntry, AuditFilter
from ..access.authenticate import Spring, may
from ..access.redaction import shown_data, shown_target, shown_text
from ..parameters import When, instant
from ..showing import shown_each

Limit = Annotated[int, QueryParameter(ge=1, le=200)]


class EntryView(AuditEntry, frozen=True, kw_only=True, omit_defaults=False):
    """Who did what, when, to what; and how that ended."""

    target_text: str
    """The target in words, where it is a filter; else as it is."""
    reason: str | None
    """Why, as it was given: the reason of a cancel, the note of a pause; null: none was."""
    asked: Any = None
    """The arguments, as data."""
    outcome: Any = None
    """What became of it, with what was before and after; null: nobody lived to tell."""


class AuditPage(Struct, frozen=True):
    items: list[EntryView]
    next: str | None
    """Give it as `before` for the next page; null: there is none."""


class ServerTime(Struct, frozen=True):
    now: datetime


@get("/audit", **may("viewer"))
async def list_audit(
    spring: Spring,
    by: Annotated[str | None, QueryParameter(name="who", description="As the trail names them.")] = None,
    action: Annotated[str | None, QueryParameter(description="A whole action, jobs.cancel, or a noun: jobs.")] = None,
    target: FromQuery[str | None] = None,
    since: When = None,
    until: When = None,
    before: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> AuditPage:
    """Changes that were made in somebody's name, newest first."""
    which = AuditFilter(who=by, action=action, target=target, since=instant(since), until=instant(until))
    found = await spring.audit.list(which, limit=limit, before=before)
    return AuditPage(await shown_each(spring, found, _view), found[-1].id if len(found) == limit else None)


@get("/time", **may("viewer", unscoped=True))
async def get_time(spring: Spring) -> ServerTime:
    """What time it is for jobs and schedules."""
    await spring.opened()
    return ServerTime(spring.clock.now())


def _view(entry: AuditEntry) -> EntryView:
    outcome = None if entry.outcome is None else shown_data(entry.outcome)
    target = shown_target(entry.target)
    shown = {"target": target, "asked": shown_data(entry.asked), "outcome": outcome}
    words = {"target_text": target_text(entry.action, target), "reason": shown_text(reason_of(entry))}
    return EntryView(**(asdict(entry) | shown | words))


ROUTES = [list_audit, get_time]
