"""The memory store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

from datetime import datetime

from ...schedule.record import LeaderTerm
from ..rules import next_term


class TermTable:
    """The newest term of each name, held or resigned; read and written under the store's lock."""

    def __init__(self) -> None:
        self._terms: dict[str, LeaderTerm] = {}

    def acquire(self, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
        term = self._terms[name] = next_term(self._terms.get(name), name, holder, until, now)
        return term

    def held(self, now: datetime) -> list[LeaderTerm]:
        """The terms that a process holds now, in order of name."""
        return [term for _, term in sorted(self._terms.items()) if term.holder is not None and term.until > now]
