"""What the PostgreSQL store keeps for the service: documents, the audit trail, news."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ...clock import instant, micros
from ...records.audit import AuditEntry, AuditFilter
from ...records.document import Document
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from .pool import Session, Verb

T = TypeVar("T")

# Rows of a kind that go in one step.
TIDIED = 5_000


class PostgresKeeper:
    async def _call(self, verb: Verb[T]) -> T:
        raise NotImplementedError

    async def _hot(self, verb: Verb[T]) -> T:
        raise NotImplementedError

    async def _read(self, verb: Verb[T]) -> T:
        raise NotImplementedError

    async def _transact(self, verb: Verb[T]) -> T:
        raise NotImplementedError

    # documents

    async def put_documents(self, documents: Sequence[Document], *, now: datetime) -> list[bool]:
        way = self._transact if len(documents) > 1 else self._call
        return await way(lambda db: _put_all(db, documents, micros(now)))

    async def drop_documents(self, kind: str, names: Collection[str]) -> list[str]:
        sql = "DELETE FROM mainspring_documents WHERE kind = $1 AND name = ANY($2) RETURNING name"
        return sorted(name for (name,) in await self._call(lambda db: db.rows(sql, kind, list(names))))

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        chosen = None if names is None else list(names)
        rows = await self._call(lambda db: db.rows(_SOME, kind, chosen, micros(now), limit, after))
        return [_document(*row) for row in rows]

    # the audit trail

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        rows = [_entry_row(entry) for entry in sorted(entries, key=lambda entry: entry.id)]
        await self._call(lambda db: db.many(_RECORD, rows))

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        since, until = (None if at is None else micros(at) for at in (which.since, which.until))
        values = (before, which.who, which.action, which.target, since, until, limit)
        return [_entry(*row) for row in await self._read(lambda db: db.rows(_AUDIT, *values))]

    # news

    async def watch(self, *, until: datetime, now: datetime) -> None:
        await self._call(lambda db: db.run(_WATCH, micros(until)))

    async def watched(self) -> datetime | None:
        return _at(await self._call(lambda db: db.value(WATCHED)))

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        if not news:
            return await self.watched()
        return _at(await self._hot(lambda db: db.value(PUBLISH, list(news), db.url.lock, MIN_FEED_ITEMS)))

    async def news(self, *, after: int, limit: int) -> Feed:
        rows = await self._hot(lambda db: db.rows(_NEWS, after, limit, MIN_FEED_ITEMS))
        _, _, first, last = rows[0]
        return Feed([FeedItem(n, text) for n, text, *_ in rows if n is not None], first, last)

    async def tidy(self, *, audited_since: datetime, now: datetime) -> int:
        return await self._transact(lambda db: _tidy(db, micros(audited_since), micros(now)))


def _at(us: int | None) -> datetime | None:
    return None if us is None else instant(us)


# documents

# Whoever comes second waits for the first, and finds what it has written.
_PUT_FIRST = """INSERT INTO mainspring_documents AS known (kind, name, revision, expires_at, text)
    VALUES ($1, $2, $3::bigint, $4::bigint, $5::text)
    ON CONFLICT (kind, name) DO UPDATE
        SET revision = excluded.revision, expires_at = excluded.expires_at, text = excluded.text
        WHERE known.expires_at <= $6::bigint
            OR (known.revision, known.expires_at, known.text) IS NOT DISTINCT FROM ($3::bigint, $4::bigint, $5::text)
    RETURNING true"""
_PUT_NEXT = """UPDATE mainspring_documents SET revision = $3::bigint, expires_at = $4::bigint, text = $5::text
    WHERE kind = $1 AND name = $2 AND (expires_at IS NULL OR expires_at > $6::bigint) AND (revision = $3::bigint - 1
        OR (revision, expires_at, text) IS NOT DISTINCT FROM ($3::bigint, $4::bigint, $5::text))
    RETURNING true"""


async def _put_all(db: Session, documents: Sequence[Document], now: int) -> list[bool]:
    """By name, so that no two callers wait for each other; those of one name in the order given."""
    order = sorted(range(len(documents)), key=lambda n: (documents[n].kind, documents[n].name))
    told = {n: await _put(db, documents[n], now) for n in order}
    return [told[n] for n in range(len(documents))]


async def _put(db: Session, new: Document, now: int) -> bool:
    expires_at = None if new.expires_at is None else micros(new.expires_at)
    sql = _PUT_FIRST if new.revision == 1 else _PUT_NEXT
    return bool(await db.value(sql, new.kind, new.name, new.revision, expires_at, new.text, now))


_SOME = """SELECT kind, name, revision, expires_at, text FROM mainspring_documents
    WHERE kind = $1 AND ($2::text[] IS NULL OR name = ANY($2)) AND (expires_at IS NULL OR expires_at > $3)
        AND ($5::text IS NULL OR name > $5) ORDER BY name LIMIT $4"""


def _document(kind: str, name: str, revision: int, expires_at: int | None, text: str) -> Document:
    return Document(kind=kind, name=name, revision=revision, expires_at=_at(expires_at), text=text)


# the audit trail

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


# Locked first: what is written anew meanwhile has not expired.
_TIDY = """DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE {old}
    ORDER BY {by} LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING true"""
_TIDY_DOCUMENTS = _TIDY.format(table="mainspring_documents", old="expires_at <= $1", by="expires_at")
_TIDY_AUDIT = _TIDY.format(table="mainspring_audit", old="at < $1", by="at")


async def _tidy(db: Session, audited_since: int, now: int) -> int:
    expired = await db.rows(_TIDY_DOCUMENTS, now, TIDIED)
    return len(expired) + len(await db.rows(_TIDY_AUDIT, audited_since, TIDIED))


# news

_WATCH = """INSERT INTO mainspring_marks AS known VALUES ('watched', $1)
    ON CONFLICT (name) DO UPDATE SET n = excluded.n WHERE known.n < excluded.n"""
WATCHED = "SELECT n FROM mainspring_marks WHERE name = 'watched'"
PUBLISH = "SELECT mainspring_publish($1, $2, $3)"
# From where the last ones were forgotten, as mainspring_publish does it: below are none but dead rows, many of them.
_FLOOR = "last / ($3::bigint / 10) * ($3::bigint / 10) - $3::bigint"
# An ANALYZE at a moment when all rows are dead has the planner expect one row. For one row a bitmap, a sort, min() or
# max() cost no more than a step along the index, and they read every dead row. With the HOT settings ORDER BY n LIMIT
# leaves the planner only the index.
_NEWS = f"""WITH newest AS MATERIALIZED (SELECT coalesce((SELECT n FROM mainspring_news ORDER BY n DESC LIMIT 1),
            (SELECT n FROM mainspring_marks WHERE name = 'promised'), 0) AS last),
        feed AS MATERIALIZED (SELECT last, coalesce((SELECT n FROM mainspring_news WHERE n > {_FLOOR}
            ORDER BY n LIMIT 1), last + 1) AS first FROM newest)
    SELECT n, text, first, last FROM feed LEFT JOIN LATERAL (SELECT n, text FROM mainspring_news
        WHERE n > $1 AND n >= first ORDER BY n LIMIT $2) AS one ON true ORDER BY n"""
