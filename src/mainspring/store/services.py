"""Documents, the audit log and the live feed in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from ..records.audit import AuditEntry, AuditFilter
from ..records.document import Document, DocumentDrop
from ..records.feed import Feed


class DocumentStore(Protocol):
    """Documents: small named texts, such as API keys and webhooks."""

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        """Writes and deletes documents in order, independently of each other.

        DO1. A document is written if the stored revision is `revision - 1` (for revision 1: absent or expired), and
            answered True if it is now stored.
        DO2. It also counts as stored if the same document is there already: to detect a race, include a unique value in
            `text`.
        DO3. A DocumentDrop deletes, whatever the revision; it is answered True if the document existed, also as an
            expired one.
        """
        ...

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        """DO4. Documents of a kind, those named or all, in order of name, after the name `after`.

        DO5. A document is expired from its expires_at on, and then not returned.
        DO6. A document whose record cannot be decoded is returned with the stored value as its text: the reader detects
            that, and a DocumentDrop deletes it.
        """
        ...


class AuditStore(Protocol):
    """The audit log."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """AU1. Adds entries.
        AU2. An existing entry without an outcome gets one; nothing else of it changes.
        """

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        """AU3. Matching entries, newest first (by id), below the id `before`."""
        ...


class FeedStore(Protocol):
    """The live feed."""

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """Adds items to the live feed. Returns until when it is wanted; the instant may have passed.

        FD1. Numbers are assigned in order and become visible in order. Not idempotent.
        FD2. At least feed.MIN_FEED_ITEMS items are kept.
        FD3. Returns None if the feed was never wanted.
        FD4. Without items it only reads.
        """
        ...

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        """FD5. Items of the live feed in order, after the number `after`.

        FD6. `until` asks workers to publish until then, or longer if another caller asked for longer. Workers learn it
            with their beats.
        FD7. The page says until when the feed was wanted before this call.
        """
        ...
