"""What the SQLite store keeps for the service."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ...clock import instant, micros
from ...records.audit import AuditEntry, AuditFilter
from ...records.document import Document
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from ..rows import Row
from .batch import chunks, flatten, value_lists
from .lenient import fetch_rows

T = TypeVar("T")
# Rows that one tidying deletes of a kind at most; and the news between two looks for those that nobody needs.
STEP, SWEEP = 1000, 500

_json = msgspec.json.encode

_FOUND = "SELECT name, text, revision, expires_at FROM mainspring_documents WHERE kind = :kind"
_THERE = "(expires_at IS NULL OR expires_at > :now)"
_WRITE = "INSERT OR REPLACE INTO mainspring_documents (kind, name, revision, expires_at, text) VALUES (?, ?, ?, ?, ?)"


def _put(db: sqlite3.Connection, new: Document, now: int) -> bool:
    sql = f"{_FOUND} AND name = :name AND {_THERE}"
    rows = fetch_rows(db, sql, {"kind": new.kind, "name": new.name, "now": now})
    old = _document(new.kind, rows[0]) if rows else None
    if old == new:
        return True
    if new.revision != (old.revision if old else 0) + 1:
        return False
    db.execute(_WRITE, (new.kind, new.name, new.revision, _us(new.expires_at), new.text))
    return True


def _document(kind: str, row: Row) -> Document:
    name, text, revision, expires_at = row
    if isinstance(text, bytes):  # it is not UTF-8
        text = text.decode(errors="backslashreplace")
    return Document(kind=kind, name=name, text=text, revision=revision, expires_at=_at(expires_at))


def _documents(
    db: sqlite3.Connection, kind: str, names: Collection[str] | None, now: int, limit: int, after: str | None
) -> list[Document]:
    values: dict[str, Any] = {"kind": kind, "now": now, "limit": limit, "after": after}
    beyond = "" if after is None else "AND name > :after"
    named = "" if names is None else "AND name IN (SELECT value FROM json_each(:names))"
    if names is not None:
        values["names"] = _json(list(names)).decode()
    sql = f"{_FOUND} {beyond} {named} AND {_THERE} ORDER BY name LIMIT :limit"
    return [_document(kind, row) for row in fetch_rows(db, sql, values)]


_DROP = """DELETE FROM mainspring_documents WHERE kind = ? AND name IN (SELECT value FROM json_each(?))
    RETURNING name"""


def _drop(db: sqlite3.Connection, kind: str, names: Collection[str]) -> list[str]:
    rows = db.execute(_DROP, (kind, _json(list(names)).decode())).fetchall()
    return sorted(name for (name,) in rows)


# the audit trail

_RECORD = """INSERT INTO mainspring_audit (id, at, who, action, target, asked, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome WHERE outcome IS NULL"""
_PARTS = {
    "who": "who = :who",
    "action": "(action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')",
    "target": "target = :target",
    "since": "at >= :since",
    "until": "at < :until",
    "before": "id < :before",
}


def _record(db: sqlite3.Connection, entries: Sequence[AuditEntry]) -> None:
    rows = [(one.id, micros(one.at), one.who, one.action, one.target, one.asked, one.outcome) for one in entries]
    db.executemany(_RECORD, rows)


def audit(db: sqlite3.Connection, which: AuditFilter, limit: int, before: str | None) -> list[AuditEntry]:
    asked = {**msgspec.structs.asdict(which), "since": _us(which.since), "until": _us(which.until), "before": before}
    given = {name: value for name, value in asked.items() if value is not None}
    condition = " AND ".join(_PARTS[name] for name in given) or "1"
    sql = f"""SELECT id, at, who, action, target, asked, outcome FROM mainspring_audit
        WHERE {condition} ORDER BY id DESC LIMIT :limit"""
    rows = db.execute(sql, given | {"limit": limit}).fetchall()
    return [
        AuditEntry(id=id, at=instant(at), who=who, action=action, target=target, asked=asked, outcome=outcome)
        for id, at, who, action, target, asked, outcome in rows
    ]


_EXPIRED = """DELETE FROM mainspring_documents WHERE (kind, name) IN (
    SELECT kind, name FROM mainspring_documents WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?)"""
# The old ones are among the first ids; an index by time would only be there to be written.
OLD = "DELETE FROM mainspring_audit WHERE id IN (SELECT id FROM mainspring_audit ORDER BY id LIMIT ?) AND at < ?"


def _tidy(db: sqlite3.Connection, since: int, now: int) -> int:
    return db.execute(_EXPIRED, (now, STEP)).rowcount + db.execute(OLD, (STEP, since)).rowcount


# news

_WATCH = """INSERT INTO mainspring_watched VALUES (1, ?)
    ON CONFLICT (n) DO UPDATE SET until = max(until, excluded.until)"""


def watched(db: sqlite3.Connection) -> datetime | None:
    """Until when somebody wants, or wanted, news."""
    row = db.execute("SELECT until FROM mainspring_watched").fetchone()
    return None if row is None else instant(row[0])


def _publish(db: sqlite3.Connection, news: Sequence[str]) -> datetime | None:
    for some in chunks([(text,) for text in news]):
        db.execute(f"INSERT INTO mainspring_news (text) VALUES {value_lists(len(some), 1)}", flatten(some))
    last = _last(db)
    if last // SWEEP != (last - len(news)) // SWEEP:
        db.execute("DELETE FROM mainspring_news WHERE n <= ?", (last - MIN_FEED_ITEMS,))
    return watched(db)


def _news(db: sqlite3.Connection, after: int, limit: int) -> Feed:
    rows = db.execute("SELECT n, text FROM mainspring_news WHERE n > ? ORDER BY n LIMIT ?", (after, limit)).fetchall()
    first, last = db.execute("SELECT min(n) FROM mainspring_news").fetchone()[0], _last(db)
    return Feed([FeedItem(n, text) for n, text in rows], last + 1 if first is None else first, last)


def _last(db: sqlite3.Connection) -> int:
    return db.execute("SELECT max(n) FROM mainspring_news").fetchone()[0] or 0


def _us(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _at(us: int | None) -> datetime | None:
    return None if us is None else instant(us)


class SqliteKeeper:
    """Through the store's own lanes."""

    async def _write(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        raise NotImplementedError

    async def _read(self, verb: Callable[[sqlite3.Connection], T]) -> T:
        raise NotImplementedError

    async def put_documents(self, documents: Sequence[Document], *, now: datetime) -> list[bool]:
        return await self._write(lambda db: [_put(db, document, micros(now)) for document in documents])

    async def drop_documents(self, kind: str, names: Collection[str]) -> list[str]:
        return await self._write(lambda db: _drop(db, kind, names))

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        return await self._read(lambda db: _documents(db, kind, names, micros(now), limit, after))

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        await self._write(lambda db: _record(db, entries))

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        return await self._read(lambda db: audit(db, which, limit, before))

    async def watch(self, *, until: datetime, now: datetime) -> None:
        await self._write(lambda db: db.execute(_WATCH, (micros(until),)).rowcount)

    async def watched(self) -> datetime | None:
        return await self._read(watched)

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        if not news:
            return await self.watched()
        return await self._write(lambda db: _publish(db, news))

    async def news(self, *, after: int, limit: int) -> Feed:
        return await self._read(lambda db: _news(db, after, limit))

    async def tidy(self, *, audited_since: datetime, now: datetime) -> int:
        return await self._write(lambda db: _tidy(db, micros(audited_since), micros(now)))
