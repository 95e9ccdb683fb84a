"""Records of the service: documents, the audit trail and news. No I/O, no clock."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

# As many news are kept at least: enough for a reader that was away for some minutes.
NEWS_KEPT = 10_000
# A store that leaves something to the next tidying has taken as many at least.
TIDIED = 500


class Document(Struct, frozen=True, kw_only=True):
    """A small text under a name: an API key, a webhook, a session."""

    kind: str
    name: str
    text: str
    revision: int = 1
    """Which version of it this is: each change adds one."""
    expires_at: datetime | None = None


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Trail(Struct, frozen=True, kw_only=True):
    """Which entries: conjunctive. None means any."""

    who: str | None = None
    action: str | None = None
    """A whole action, or a noun alone."""
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class News(Struct, frozen=True):
    """Something that has happened, for those who watch."""

    n: int
    text: str


class Feed(Struct, frozen=True):
    """Some news, and what there is to read."""

    news: list[News]
    first: int
    """The number of the oldest that is kept; one more than `last` if there is none."""
    last: int
    """The newest number given; 0: none ever was."""
