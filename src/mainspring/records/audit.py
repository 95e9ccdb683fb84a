"""The audit log: who did what, when, to what."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who did what, when, to what; and how that ended."""

    id: str
    """Time-ordered, minted by whoever acts."""
    at: datetime
    who: str
    action: str
    """A noun and a verb: jobs.cancel, schedules.pause, keys.create."""
    target: str
    """What it was done to: a job's id, a schedule's name, a filter as JSON."""
    asked: str = "{}"
    """The arguments, as JSON."""
    outcome: str | None = None
    """What became of it, as JSON, with what was before and after; None: nobody lived to tell."""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries: conjunctive. None means any."""

    who: str | None = None
    action: str | None = None
    """A whole action, or a noun alone."""
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
