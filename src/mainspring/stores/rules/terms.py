"""A leader's term after a process asks to lead. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from ...schedule.record import LeaderTerm


def next_term(known: LeaderTerm | None, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
    """The leader's term after `holder` asks to lead until `until`; an `until` in the past resigns."""
    live = known is not None and known.holder is not None and known.until > now
    if known is not None and live:
        if known.holder != holder:
            return known
        return replace(known, until=until) if until > now else LeaderTerm(name, None, known.term, now)
    term = 0 if known is None else known.term
    return LeaderTerm(name, holder, term + 1, until) if until > now else LeaderTerm(name, None, term, now)
