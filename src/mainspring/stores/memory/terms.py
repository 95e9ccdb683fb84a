"""The memory store's leader terms: which process leads for a name, and until when."""

from __future__ import annotations

from datetime import datetime

from ...schedule.record import LeaderTerm
from ..rules import next_term


class TermTable(dict[str, LeaderTerm]):
    """The newest term of each name, held or resigned; read and written under the store's lock."""

    def acquire(self, name: str, holder: str, until: datetime, now: datetime) -> LeaderTerm:
        self[name] = next_term(self.get(name), name, holder, until, now)
        return self[name]

    def held(self, now: datetime) -> list[LeaderTerm]:
        """The terms that a process holds now, in order of name."""
        return [term for _, term in sorted(self.items()) if term.holder is not None and term.until > now]
