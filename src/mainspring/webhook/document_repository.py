"""DocumentRepository: typed records of one kind in the store's documents, with optimistic concurrency."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from ..errors import HookChanged, HookExists, HookNotFound, StoreUnavailable
from ..records.document import Document, DocumentDrop
from ..records.job import UnreadableRecord
from ..records.unreadable import decoded_documents
from ..store import Store
from ..suggest import did_you_mean

# Documents read at once.
PAGE_DOCUMENTS = 500
# Attempts to change a record that others change at the same time.
MAX_ATTEMPTS = 50


class RevisionedRecord(Protocol):
    """A record that a repository can store."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...


T = TypeVar("T", bound=RevisionedRecord)


class HookUnreadable(HookNotFound):
    """The record exists, but this release cannot decode it."""


class DocumentRepository(Generic[T]):
    """The records of one document kind, by name."""

    def __init__(self, kind: str, shape: type[T], what: str) -> None:
        """`what` names such a record in messages."""
        self._kind = kind
        self._what = what
        self._decoder = msgspec.json.Decoder(shape)

    async def find(self, store: Store, names: Collection[str] | None, now: datetime) -> list[T]:
        """The named records, or all. One that this release cannot decode is omitted, logged and counted."""
        return (await self._read(store, names, now))[0]

    async def unreadable(self, store: Store, now: datetime) -> list[UnreadableRecord]:
        """The records that this release cannot decode."""
        return (await self._read(store, None, now))[1]

    async def _read(
        self, store: Store, names: Collection[str] | None, now: datetime
    ) -> tuple[list[T], list[UnreadableRecord]]:
        found: list[Document] = []
        while True:
            after = found[-1].name if found else None
            page = await store.documents(self._kind, names, now=now, limit=PAGE_DOCUMENTS, after=after)
            found += page
            if len(page) < PAGE_DOCUMENTS:
                break
        return decoded_documents(found, lambda document: self._decoder.decode(document.text))

    async def get(self, store: Store, name: str, now: datetime) -> T:
        """Raises HookNotFound, or HookUnreadable if it cannot be decoded."""
        found, broken = await self._read(store, [name], now)
        if broken:
            raise HookUnreadable(
                f"the record of {self._what} {name!r} cannot be decoded ({broken[0].error}): upgrade mainspring here, "
                "or delete it and create it again"
            )
        if not found:
            known = [record.name for record in await self.find(store, None, now)]
            raise HookNotFound(f"there is no {self._what} {name!r}; {did_you_mean(name, known)}")
        return found[0]

    async def add(self, store: Store, record: T, now: datetime) -> T:
        """Raises HookExists if the name is taken."""
        if not await self._put(store, record, now):
            raise HookExists(f"a {self._what} named {record.name!r} is there already; change it, or give another name")
        return record

    async def replace_unreadable(self, store: Store, record: T, now: datetime) -> T:
        """Adds the record, replacing one that cannot be decoded."""
        if (await self._read(store, [record.name], now))[1]:
            await store.put_documents([DocumentDrop(self._kind, record.name)], now=now)
        return await self.add(store, record, now)

    async def change(
        self, store: Store, name: str, now: datetime, act: Callable[[T], T], *, expected: int | None = None
    ) -> T:
        """Applies `act` to the newest revision, and retries if others changed it meanwhile.

        With `expected`, raises HookChanged if the record is not at that revision.
        """
        for _ in range(MAX_ATTEMPTS):
            old = await self.get(store, name, now)
            if expected is not None and old.revision != expected:
                raise HookChanged(f"{self._what} {name!r} was changed by others since it was read; read it again")
            new = act(old)
            if new == old:
                return old
            new = _with_revision(new, old.revision + 1)
            if await self._put(store, new, now):
                return new
        raise StoreUnavailable(f"{self._what} {name!r} was changed by others {MAX_ATTEMPTS} times in a row; try again")

    async def get_readable(self, store: Store, name: str, now: datetime) -> T | None:
        """Like get(), but None if the record cannot be decoded."""
        try:
            return await self.get(store, name, now)
        except HookUnreadable:
            return None

    async def drop(self, store: Store, name: str, now: datetime) -> None:
        """Raises HookNotFound if it does not exist."""
        if not (await store.put_documents([DocumentDrop(self._kind, name)], now=now))[0]:
            await self.get(store, name, now)

    async def _put(self, store: Store, record: T, now: datetime) -> bool:
        text = msgspec.json.encode(record).decode()
        document = Document(kind=self._kind, name=record.name, text=text, revision=record.revision)
        return (await store.put_documents([document], now=now))[0]


def _with_revision(record: T, revision: int) -> T:
    revised: T = replace(record, revision=revision)  # type: ignore[type-var]
    return revised
