"""The PostgreSQL store's documents: small named texts such as API keys and webhooks, each with a revision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...clock import instant, micros
from ...records.document import Document, DocumentDrop
from ..document_steps import Drops, document_steps, drop_answers
from .handle import PostgresHandle
from .pool import Session

# Expired documents that one call of prune deletes.
MAX_PRUNED_DOCUMENTS = 5_000

# A caller that comes second waits for the first, and then reads what it has written.
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


def _ordered_steps(documents: Sequence[Document | DocumentDrop]) -> list[tuple[int, Document | Drops]]:
    """In order of name, so that two callers cannot deadlock; documents of one name in the given order."""
    order = sorted(range(len(documents)), key=lambda n: (documents[n].kind, documents[n].name))
    return list(document_steps((n, documents[n]) for n in order))


async def _put_all(db: Session, steps: Sequence[tuple[int, Document | Drops]], now: int) -> list[bool]:
    answers: dict[int, bool] = {}
    for n, some in steps:
        if isinstance(some, Document):
            answers[n] = await _put(db, some, now)
        else:
            answers |= drop_answers(some, await _drop(db, some))
    return [answers[n] for n in sorted(answers)]


async def _drop(db: Session, drops: Drops) -> set[str]:
    sql = "DELETE FROM mainspring_documents WHERE kind = $1 AND name = ANY($2) RETURNING name"
    kind, names = next(iter(drops.values())).kind, [one.name for one in drops.values()]
    return {name for (name,) in await db.rows(sql, kind, names)}


async def _put(db: Session, new: Document, now: int) -> bool:
    expires_at = None if new.expires_at is None else micros(new.expires_at)
    sql = _PUT_FIRST if new.revision == 1 else _PUT_NEXT
    return bool(await db.value(sql, new.kind, new.name, new.revision, expires_at, new.text, now))


# A statement for each kind of request, so that each has one plan for all values, along the primary key.
_PAGE = """SELECT kind, name, revision, expires_at, text FROM mainspring_documents
    WHERE kind = $1 AND (expires_at IS NULL OR expires_at > $2){} ORDER BY name LIMIT $3"""
SELECT_ALL = _PAGE.format("")
SELECT_AFTER = _PAGE.format(" AND name > $4")
SELECT_NAMED = _PAGE.format(" AND name = ANY($4)")
SELECT_NAMED_AFTER = _PAGE.format(" AND name = ANY($4) AND name > $5")


def _document(kind: str, name: str, revision: int, expires_at: int | None, text: str) -> Document:
    until = None if expires_at is None else instant(expires_at)
    return Document(kind=kind, name=name, revision=revision, expires_at=until, text=text)


# Rows are locked first: a document that is written meanwhile has not expired.
_DROP_EXPIRED = """DELETE FROM mainspring_documents WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM mainspring_documents WHERE expires_at <= $1
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING true"""


async def drop_expired_documents(db: Session, now: int) -> int:
    return len(await db.rows(_DROP_EXPIRED, now, MAX_PRUNED_DOCUMENTS))


class PostgresDocuments(PostgresHandle):
    """The verbs on documents."""

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        steps = _ordered_steps(documents)
        call = self._transact if len(steps) > 1 else self._call
        return await call(lambda db: _put_all(db, steps, micros(now)))

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        pages = (SELECT_ALL, SELECT_AFTER) if names is None else (SELECT_NAMED, SELECT_NAMED_AFTER)
        chosen = () if names is None else (list(names),)
        values = micros(now), limit, *chosen, *(() if after is None else (after,))
        rows = await self._hot(lambda db: db.rows(pages[after is not None], kind, *values))
        return [_document(*row) for row in rows]
