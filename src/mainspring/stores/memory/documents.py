"""What the memory store keeps for the service."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from msgspec.structs import replace

from ...records.audit import AuditEntry, AuditFilter
from ...records.document import Document
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from ..rules import matches_audit_filter


class MemoryKeeper:
    """Under the store's lock."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], Document] = {}
        self._entries: dict[str, AuditEntry] = {}
        self._news: deque[FeedItem] = deque(maxlen=MIN_FEED_ITEMS)
        self._told = 0
        self._watched: datetime | None = None

    def _locked(self) -> AbstractContextManager[object]:
        raise NotImplementedError

    async def put_documents(self, documents: Sequence[Document], *, now: datetime) -> list[bool]:
        with self._locked():
            return [self._put(document, now) for document in documents]

    def _put(self, new: Document, now: datetime) -> bool:
        old = self._there(new.kind, new.name, now)
        if old == new:
            return True
        if new.revision != (old.revision if old else 0) + 1:
            return False
        self._documents[new.kind, new.name] = new
        return True

    def _there(self, kind: str, name: str, now: datetime) -> Document | None:
        found = self._documents.get((kind, name))
        return None if found is None or (found.expires_at is not None and found.expires_at <= now) else found

    async def drop_documents(self, kind: str, names: Collection[str]) -> list[str]:
        with self._locked():
            return sorted(name for name in set(names) if self._documents.pop((kind, name), None) is not None)

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        with self._locked():
            chosen = {name for of, name in self._documents if of == kind} if names is None else set(names)
            found = [self._there(kind, name, now) for name in sorted(chosen) if after is None or name > after]
            return [document for document in found if document is not None][:limit]

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        with self._locked():
            for entry in entries:
                old = self._entries.get(entry.id, entry)
                self._entries[entry.id] = old if old.outcome else replace(old, outcome=entry.outcome)

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        with self._locked():
            ids = sorted((id for id in self._entries if before is None or id < before), reverse=True)
            return [self._entries[id] for id in ids if matches_audit_filter(self._entries[id], which)][:limit]

    async def watch(self, *, until: datetime, now: datetime) -> None:
        with self._locked():
            self._watched = max(self._watched or until, until)

    async def watched(self) -> datetime | None:
        with self._locked():
            return self._watched

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        with self._locked():
            for text in news:
                self._told += 1
                self._news.append(FeedItem(self._told, text))
            return self._watched

    async def news(self, *, after: int, limit: int) -> Feed:
        with self._locked():
            found = [one for one in self._news if one.n > after][:limit]
            return Feed(found, self._told - len(self._news) + 1, self._told)

    async def tidy(self, *, audited_since: datetime, now: datetime) -> int:
        with self._locked():
            gone = [key for key in self._documents if self._there(*key, now) is None]
            old = [id for id, entry in self._entries.items() if entry.at < audited_since]
            for key in gone:
                del self._documents[key]
            for id in old:
                del self._entries[id]
            return len(gone) + len(old)
