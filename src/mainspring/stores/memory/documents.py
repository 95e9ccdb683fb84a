"""The memory store's documents: small named texts such as API keys and webhooks, each with a revision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...clock import Clock
from ...records.document import Document, DocumentDrop
from ..rules.documents import is_expired, put_document
from .handle import MemoryHandle


class MemoryDocuments(MemoryHandle):
    """The verbs on documents; each runs under the store's lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._documents: dict[tuple[str, str], Document] = {}

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        with self._locked():
            return [self._put(document, now) for document in documents]

    def _put(self, new: Document | DocumentDrop, now: datetime) -> bool:
        if isinstance(new, DocumentDrop):
            return self._documents.pop((new.kind, new.name), None) is not None
        stands, after = put_document(self._documents.get((new.kind, new.name)), new, now)
        if after is not None:
            self._documents[new.kind, new.name] = after
        return stands

    def _unexpired(self, kind: str, name: str, now: datetime) -> Document | None:
        found = self._documents.get((kind, name))
        return None if found is None or is_expired(found, now) else found

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        with self._locked():
            chosen = {name for of, name in self._documents if of == kind} if names is None else set(names)
            found = [self._unexpired(kind, name, now) for name in sorted(chosen) if after is None or name > after]
            return [document for document in found if document is not None][:limit]

    def _drop_expired_documents(self, now: datetime) -> int:
        """Deletes expired documents and returns their number; the caller holds the lock."""
        expired = [key for key, document in self._documents.items() if is_expired(document, now)]
        for key in expired:
            del self._documents[key]
        return len(expired)
