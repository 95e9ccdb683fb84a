"""/audit: the audit trail; and /time: the clock of the store's app."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct
from msgspec.structs import asdict

from ...control.audit_words import reason_of, target_text
from ...records.audit import AuditEntry, AuditFilter
from ..access.authenticate import App, allow
from ..access.redaction import mask_note, redact_data, redact_target
from ..parameters import InstantText, parse_instant
from ..views import build_views

Limit = Annotated[int, QueryParameter(ge=1, le=200)]


class AuditEntryView(AuditEntry, frozen=True, kw_only=True, omit_defaults=False):
    """One action: who did what to which target, when, and the result."""

    target_text: str
    """The target for people: a filter in words, anything else unchanged."""
    reason: str | None
    """The reason of a cancel, the note of a pause; null if none was given."""
    asked: Any = None
    """The arguments, as JSON."""
    outcome: Any = None
    """The result, with the values before and after; null if the process died before it could record the result."""


class AuditPage(Struct, frozen=True):
    items: list[AuditEntryView]
    next: str | None
    """Pass it as `before` to get the next page; null on the last page."""


class ServerTime(Struct, frozen=True):
    now: datetime


@get("/audit", **allow("viewer"))
async def list_audit(
    app: App,
    actor: Annotated[str | None, QueryParameter(name="who", description="The actor, such as key:deploy.")] = None,
    action: Annotated[str | None, QueryParameter(description="An action (jobs.cancel) or a noun (jobs).")] = None,
    target: FromQuery[str | None] = None,
    since: InstantText = None,
    until: InstantText = None,
    before: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> AuditPage:
    """Actions in the audit trail, newest first."""
    which = AuditFilter(who=actor, action=action, target=target, since=parse_instant(since), until=parse_instant(until))
    found = await app.audit.list(which, limit=limit, before=before)
    return AuditPage(await build_views(app, found, _view), found[-1].id if len(found) == limit else None)


@get("/time", **allow("viewer", unscoped=True))
async def get_time(app: App) -> ServerTime:
    """The current time by which jobs and schedules run."""
    await app.connect()
    return ServerTime(app.clock.now())


def _view(entry: AuditEntry) -> AuditEntryView:
    outcome = None if entry.outcome is None else redact_data(entry.outcome)
    target = redact_target(entry.target)
    shown = {"target": target, "asked": redact_data(entry.asked), "outcome": outcome}
    words = {"target_text": target_text(entry.action, target), "reason": mask_note(reason_of(entry))}
    return AuditEntryView(**(asdict(entry) | shown | words))


ROUTES = [list_audit, get_time]
