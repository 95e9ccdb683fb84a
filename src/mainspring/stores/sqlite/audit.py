"""The SQLite store's audit trail: one entry for each change that an operator made."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.audit import AuditEntry, AuditFilter
from .handle import SqliteHandle

# Old entries that one call of prune deletes.
MAX_PRUNED_ENTRIES = 1000

_RECORD = """INSERT INTO mainspring_audit (id, at, who, action, target, asked, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome WHERE outcome IS NULL"""
_CONDITIONS = {
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


def audit_page(db: sqlite3.Connection, which: AuditFilter, limit: int, before: str | None) -> list[AuditEntry]:
    values = {**msgspec.structs.asdict(which), "since": _us(which.since), "until": _us(which.until), "before": before}
    given = {name: value for name, value in values.items() if value is not None}
    condition = " AND ".join(_CONDITIONS[name] for name in given) or "1"
    sql = f"""SELECT id, at, who, action, target, asked, outcome FROM mainspring_audit
        WHERE {condition} ORDER BY id DESC LIMIT :limit"""
    rows = db.execute(sql, given | {"limit": limit}).fetchall()
    return [
        AuditEntry(id=id, at=instant(at), who=who, action=action, target=target, asked=asked, outcome=outcome)
        for id, at, who, action, target, asked, outcome in rows
    ]


# Ids grow with time, so the old entries have the first ids; an index by time would only cost writes.
DROP_OLD = "DELETE FROM mainspring_audit WHERE id IN (SELECT id FROM mainspring_audit ORDER BY id LIMIT ?) AND at < ?"


def drop_old_entries(db: sqlite3.Connection, since: int) -> int:
    return db.execute(DROP_OLD, (MAX_PRUNED_ENTRIES, since)).rowcount


def _us(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


class SqliteAudit(SqliteHandle):
    """The verbs on audit entries."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        await self._write(lambda db: _record(db, entries))

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        return await self._read(lambda db: audit_page(db, which, limit, before))
