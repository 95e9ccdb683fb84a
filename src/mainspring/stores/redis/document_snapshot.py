"""Transactions on documents and audit entries: a verb runs on what was read, and its changes are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

import msgspec

from ...clock import EPOCH, instant, micros
from ...records.audit import AuditEntry
from ...records.document import Document, DocumentDrop
from ...records.unreadable import readable
from ..rules.documents import is_expired, put_document, record_entry
from .index import Command
from .shard import Shard, Shards
from .transact import contend_one
from .two_phase import Condition, Unit, has

T = TypeVar("T")
Key = tuple[str, str]
"""A document's kind and name."""

_encode = msgspec.json.Encoder().encode
_document = msgspec.json.Decoder(Document).decode
_entry = msgspec.json.Decoder(AuditEntry).decode


def document_of(key: Key, text: bytes) -> Document:
    """The document; one that cannot be decoded has its whole stored value as text."""
    found = _decoded(key, text)
    return found or Document(kind=key[0], name=key[1], text=text.decode(errors="backslashreplace"))


def _decoded(key: Key, text: bytes) -> Document | None:
    found = readable(f"document {key[0]}", [(key[1], text)], _document)
    return found[0] if found else None


def _is_readable(key: Key, text: bytes | None) -> bool:
    return text is None or _decoded(key, text) is not None


def entries_of(pairs: Iterable[tuple[str, bytes | None]]) -> list[AuditEntry]:
    """The entries, without those that cannot be decoded."""
    return readable("audit entry", [(id, text) for id, text in pairs if text is not None], _entry)


def _entry_of(id: str, text: bytes) -> AuditEntry:
    """The entry; a placeholder if it cannot be decoded, so that it stays unchanged until it is pruned."""
    found = entries_of([(id, text)])
    return found[0] if found else AuditEntry(id=id, at=EPOCH, who="", action="", target="", outcome="{}")


class DocumentSnapshot:
    """The documents and entries that were read, and the changes of a verb; a verb uses nothing else."""

    def __init__(self, base: str, documents: dict[Key, bytes | None], entries: dict[str, bytes | None]) -> None:
        self._base = base
        self._read = (documents, entries)
        self._old_documents = {key: None if text is None else document_of(key, text) for key, text in documents.items()}
        self._old_entries = {id: None if text is None else _entry_of(id, text) for id, text in entries.items()}
        self._documents, self._entries = dict(self._old_documents), dict(self._old_entries)

    def put(self, documents: Iterable[Document | DocumentDrop], now: datetime) -> list[bool]:
        """Writes and deletes documents in order; for each whether it is now stored, or existed."""
        answers = list[bool]()
        for new in documents:
            key = new.kind, new.name
            if isinstance(new, DocumentDrop):
                answers.append(self._documents[key] is not None)
                self._documents[key] = None
            else:
                stands, self._documents[key] = put_document(self._documents[key], new, now)
                answers.append(stands)
        return answers

    def record(self, entries: Iterable[AuditEntry]) -> None:
        for entry in entries:
            self._entries[entry.id] = record_entry(self._entries[entry.id], entry)

    def prune(self, audited_since: datetime, now: datetime) -> int:
        """Deletes expired documents and old entries among those that were read; their number.

        Unreadable documents were read because the index says that they have expired: they are deleted as well.
        """
        texts, _ = self._read
        expired = [
            key
            for key, document in self._documents.items()
            if document is not None and (is_expired(document, now) or not _is_readable(key, texts[key]))
        ]
        old = [id for id, entry in self._entries.items() if entry is not None and entry.at < audited_since]
        self._documents.update(dict.fromkeys(expired))
        self._entries.update(dict.fromkeys(old))
        return len(expired) + len(old)

    def changes(self) -> Unit:
        """The changes, with a condition for each changed value."""
        (documents, entries), base = self._read, self._base
        expected, commands = list[Condition](), list[Command]()
        for key, old in self._old_documents.items():
            if (new := self._documents[key]) != old:
                expected.append(has(f"{base}:doc:{key[0]}", key[1], documents[key]))
                commands += _document_commands(base, key, new)
        for id, was in self._old_entries.items():
            if (now := self._entries[id]) != was:
                expected.append(has(f"{base}:entry", id, entries[id]))
                commands += _entry_commands(base, id, now)
        return Unit(expected, commands)


def _document_commands(base: str, key: Key, new: Document | None) -> Iterator[Command]:
    """Writes a document and its index entries: by name within its kind, and by expiry."""
    kind, name = key
    if new is None:
        yield "HDEL", f"{base}:doc:{kind}", name
        yield "ZREM", f"{base}:docs:{kind}", name
    else:
        yield "HSET", f"{base}:doc:{kind}", name, _encode(new)
        yield "ZADD", f"{base}:docs:{kind}", 0, name
    if new is None or new.expires_at is None:
        yield "ZREM", f"{base}:fading", f"{kind}\0{name}"
    else:
        yield "ZADD", f"{base}:fading", micros(new.expires_at), f"{kind}\0{name}"


def _entry_commands(base: str, id: str, new: AuditEntry | None) -> Iterator[Command]:
    """Writes an audit entry and its index entries: by id and by time."""
    if new is None:
        yield "HDEL", f"{base}:entry", id
        yield "ZREM", f"{base}:trail", id
        yield "ZREM", f"{base}:audited", id
    else:
        yield "HSET", f"{base}:entry", id, _encode(new)
        yield "ZADD", f"{base}:trail", 0, id
        yield "ZADD", f"{base}:audited", micros(new.at), id


def instant_of(text: bytes | None) -> datetime | None:
    return None if text is None else instant(int(text))


def watched_command(shard: Shard) -> Command:
    """The command that reads until when the feed has readers."""
    return "HGET", f"{shard.base}:meta", "watched"


async def transact_documents(
    shards: Shards, verb: Callable[[DocumentSnapshot], T], documents: Iterable[Key] = (), entries: Iterable[str] = ()
) -> T:
    """The verb's answer, once its changes are written; the verb runs again after a lost race."""
    keys, ids = sorted(set(documents)), sorted(set(entries))

    async def propose() -> tuple[T, Unit]:
        snapshot = await _read(shards.first, keys, ids)
        return verb(snapshot), snapshot.changes()

    return await contend_one(shards, "writing documents", propose)


async def _read(shard: Shard, keys: list[Key], ids: list[str]) -> DocumentSnapshot:
    kinds: dict[str, list[str]] = {}
    for kind, name in keys:
        kinds.setdefault(kind, []).append(name)
    commands: list[Command] = [("HMGET", f"{shard.base}:doc:{kind}", *names) for kind, names in kinds.items()]
    if ids:
        commands.append(("HMGET", f"{shard.base}:entry", *ids))
    columns = await shard.multi(commands) if commands else []
    texts = iter([text for column in columns for text in column])
    return DocumentSnapshot(shard.base, {key: next(texts) for key in keys}, {id: next(texts) for id in ids})
