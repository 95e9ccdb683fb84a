"""The memory store's audit trail: one entry for each change that an operator made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import Clock
from ...records.audit import AuditEntry, AuditFilter
from ..rules import matches_audit_filter
from ..rules.documents import record_entry
from .handle import MemoryHandle


class MemoryAudit(MemoryHandle):
    """The verbs on audit entries; each runs under the store's lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._entries: dict[str, AuditEntry] = {}

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        with self._locked():
            for entry in entries:
                self._entries[entry.id] = record_entry(self._entries.get(entry.id), entry)

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        with self._locked():
            ids = sorted((id for id in self._entries if before is None or id < before), reverse=True)
            return [self._entries[id] for id in ids if matches_audit_filter(self._entries[id], which)][:limit]

    def _drop_old_entries(self, since: datetime) -> int:
        """Deletes the entries before `since` and returns their number; the caller holds the lock."""
        old = [id for id, entry in self._entries.items() if entry.at < since]
        for id in old:
            del self._entries[id]
        return len(old)
