"""The PostgreSQL store's audit trail: one entry for each change that an operator made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...clock import instant, micros
from ...records.audit import AuditEntry, AuditFilter
from .handle import PostgresHandle
from .pool import Session

# Old entries that one call of prune deletes.
MAX_PRUNED_ENTRIES = 5_000

_RECORD = """INSERT INTO mainspring_audit AS known (id, at, who, action, target, asked, outcome)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome WHERE known.outcome IS NULL"""
_AUDIT = """SELECT id, at, who, action, target, asked, outcome FROM mainspring_audit
    WHERE ($1::text IS NULL OR id < $1) AND ($2::text IS NULL OR who = $2)
        AND ($3::text IS NULL OR action = $3 OR starts_with(action, $3 || '.')) AND ($4::text IS NULL OR target = $4)
        AND ($5::bigint IS NULL OR at >= $5) AND ($6::bigint IS NULL OR at < $6)
    ORDER BY id DESC LIMIT $7"""


def _entry_row(entry: AuditEntry) -> tuple[Any, ...]:
    return entry.id, micros(entry.at), entry.who, entry.action, entry.target, entry.asked, entry.outcome


def _entry(id: str, at: int, who: str, action: str, target: str, asked: str, outcome: str | None) -> AuditEntry:
    return AuditEntry(id=id, at=instant(at), who=who, action=action, target=target, asked=asked, outcome=outcome)


_DROP_OLD = """DELETE FROM mainspring_audit WHERE ctid = ANY (ARRAY(SELECT ctid FROM mainspring_audit WHERE at < $1
    ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING true"""


async def drop_old_entries(db: Session, since: int) -> int:
    return len(await db.rows(_DROP_OLD, since, MAX_PRUNED_ENTRIES))


class PostgresAudit(PostgresHandle):
    """The verbs on audit entries."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        rows = [_entry_row(entry) for entry in sorted(entries, key=lambda entry: entry.id)]
        await self._call(lambda db: db.many(_RECORD, rows))

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        since, until = (None if at is None else micros(at) for at in (which.since, which.until))
        values = (before, which.who, which.action, which.target, since, until, limit)
        return [_entry(*row) for row in await self._read(lambda db: db.rows(_AUDIT, *values))]
