"""Documents and audit entries after a write. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from ...records.audit import AuditEntry
from ...records.document import Document


def is_expired(document: Document, now: datetime) -> bool:
    return document.expires_at is not None and document.expires_at <= now


def put_document(stored: Document | None, new: Document, now: datetime) -> tuple[bool, Document | None]:
    """Whether `new` is stored after the put, and the document that is."""
    old = None if stored is None or is_expired(stored, now) else stored
    if old == new:
        return True, stored
    if new.revision != (old.revision if old else 0) + 1:
        return False, stored
    return True, new


def record_entry(stored: AuditEntry | None, entry: AuditEntry) -> AuditEntry:
    """The audit entry after it is recorded. An existing entry without an outcome gets one; nothing else changes."""
    old = stored or entry
    return old if old.outcome else replace(old, outcome=entry.outcome)
