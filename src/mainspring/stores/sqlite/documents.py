"""The SQLite store's documents: small named texts such as API keys and webhooks, each with a revision."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ...clock import instant, micros
from ...records.document import Document, DocumentDrop
from ..document_steps import Drops, document_steps, drop_answers
from ..rows import Row
from .handle import SqliteHandle
from .lenient import fetch_rows

# Expired documents that one call of prune deletes.
MAX_PRUNED_DOCUMENTS = 1000

_json = msgspec.json.encode

_SELECT = "SELECT name, text, revision, expires_at FROM mainspring_documents WHERE kind = :kind"
_UNEXPIRED = "(expires_at IS NULL OR expires_at > :now)"
_WRITE = "INSERT OR REPLACE INTO mainspring_documents (kind, name, revision, expires_at, text) VALUES (?, ?, ?, ?, ?)"


def _put_all(db: sqlite3.Connection, documents: Sequence[Document | DocumentDrop], now: int) -> list[bool]:
    answers: dict[int, bool] = {}
    for n, some in document_steps(enumerate(documents)):
        if isinstance(some, Document):
            answers[n] = _put(db, some, now)
        else:
            answers |= drop_answers(some, _drop(db, some))
    return [answers[n] for n in range(len(documents))]


def _put(db: sqlite3.Connection, new: Document, now: int) -> bool:
    sql = f"{_SELECT} AND name = :name AND {_UNEXPIRED}"
    rows = fetch_rows(db, sql, {"kind": new.kind, "name": new.name, "now": now})
    old = _document(new.kind, rows[0]) if rows else None
    if old == new:
        return True
    if new.revision != (old.revision if old else 0) + 1:
        return False
    expires_at = None if new.expires_at is None else micros(new.expires_at)
    db.execute(_WRITE, (new.kind, new.name, new.revision, expires_at, new.text))
    return True


def _document(kind: str, row: Row) -> Document:
    name, text, revision, expires_at = row
    if isinstance(text, bytes):  # it is not UTF-8
        text = text.decode(errors="backslashreplace")
    until = None if expires_at is None else instant(expires_at)
    return Document(kind=kind, name=name, text=text, revision=revision, expires_at=until)


def _documents(
    db: sqlite3.Connection, kind: str, names: Collection[str] | None, now: int, limit: int, after: str | None
) -> list[Document]:
    values: dict[str, Any] = {"kind": kind, "now": now, "limit": limit, "after": after}
    beyond = "" if after is None else "AND name > :after"
    named = "" if names is None else "AND name IN (SELECT value FROM json_each(:names))"
    if names is not None:
        values["names"] = _json(list(names)).decode()
    sql = f"{_SELECT} {beyond} {named} AND {_UNEXPIRED} ORDER BY name LIMIT :limit"
    return [_document(kind, row) for row in fetch_rows(db, sql, values)]


_DROP = """DELETE FROM mainspring_documents WHERE kind = ? AND name IN (SELECT value FROM json_each(?))
    RETURNING name"""


def _drop(db: sqlite3.Connection, drops: Drops) -> set[str]:
    names = _json([one.name for one in drops.values()]).decode()
    return {name for (name,) in db.execute(_DROP, (next(iter(drops.values())).kind, names)).fetchall()}


_DROP_EXPIRED = """DELETE FROM mainspring_documents WHERE (kind, name) IN (
    SELECT kind, name FROM mainspring_documents WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?)"""


def drop_expired_documents(db: sqlite3.Connection, now: int) -> int:
    return db.execute(_DROP_EXPIRED, (now, MAX_PRUNED_DOCUMENTS)).rowcount


class SqliteDocuments(SqliteHandle):
    """The verbs on documents."""

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        return await self._write(lambda db: _put_all(db, documents, micros(now)))

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        return await self._read(lambda db: _documents(db, kind, names, micros(now), limit, after))
