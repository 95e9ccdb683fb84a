"""The audit log: who did what to which object, and when."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action: who did what to which object, when, and with which result."""

    id: str
    """Time-ordered, chosen by the process that acts."""
    at: datetime
    who: str
    action: str
    """A noun and a verb: jobs.cancel, schedules.pause, keys.create."""
    target: str
    """The object of the action: a job's id, a schedule's name, a filter as JSON."""
    asked: str = "{}"
    """The arguments, as JSON."""
    outcome: str | None = None
    """The result as JSON, with the values before and after. None: the process died before it could record it."""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Selects entries of the audit log: an entry must match every field that is set. None matches any entry."""

    who: str | None = None
    action: str | None = None
    """A complete action (jobs.cancel), or only its noun (jobs)."""
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
