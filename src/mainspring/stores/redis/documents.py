"""Documents in Redis: small records of the service by kind and name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...clock import micros
from ...records.document import Document, DocumentDrop
from .document_snapshot import document_of, transact_documents
from .handle import RedisHandle
from .shard import Shard, Shards

# Documents read per round trip.
PAGE_ROWS = 200
# Documents and audit entries pruned per transaction, of each.
PRUNE_ROWS = 500
# Transactions per call of prune().
MAX_PRUNES = 20


class RedisDocuments(RedisHandle):
    """Documents in the first shard. They expire by the time that the caller passes, not by the server's clock."""

    async def put_documents(self, documents: Sequence[Document | DocumentDrop], *, now: datetime) -> list[bool]:
        keys = [(document.kind, document.name) for document in documents]
        with self._clock.outside():
            return await transact_documents(self._open(), lambda read: read.put(documents, now), keys)

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        shard, found = self._open().first, list[Document]()
        with self._clock.outside():
            while len(found) < limit:
                page = await _next_names(shard, kind, names, after)
                texts = await shard.call("HMGET", f"{shard.base}:doc:{kind}", *page) if page else []
                pairs = zip(page, texts, strict=True)
                read = [document_of((kind, name), text) for name, text in pairs if text is not None]
                found += [one for one in read if one.expires_at is None or one.expires_at > now]
                if len(page) < PAGE_ROWS:
                    break
                after = page[-1]
        return found[:limit]


async def prune_documents(shards: Shards, audited_since: datetime, now: datetime) -> int:
    """Deletes expired documents and old audit entries, at most MAX_PRUNES * PRUNE_ROWS of each."""
    shard, some, deleted = shards.first, ("LIMIT", 0, PRUNE_ROWS), 0
    for _ in range(MAX_PRUNES):
        expired, old = await shard.multi(
            [
                ("ZRANGEBYSCORE", f"{shard.base}:fading", "-inf", micros(now), *some),
                ("ZRANGEBYSCORE", f"{shard.base}:audited", "-inf", f"({micros(audited_since)}", *some),
            ]
        )
        if not expired and not old:
            break
        keys = [(kind, name) for kind, _, name in (one.decode().partition("\0") for one in expired)]
        ids = [id.decode() for id in old]
        deleted += await transact_documents(shards, lambda read: read.prune(audited_since, now), keys, ids)
    return deleted


async def _next_names(shard: Shard, kind: str, names: Collection[str] | None, after: str | None) -> list[str]:
    """The next PAGE_ROWS names in order, of `names` or of all documents of that kind."""
    if names is not None:
        return sorted({name for name in names if after is None or name > after})[:PAGE_ROWS]
    low = b"-" if after is None else b"(" + after.encode()
    found = await shard.call("ZRANGEBYLEX", f"{shard.base}:docs:{kind}", low, "+", "LIMIT", 0, PAGE_ROWS)
    return [name.decode() for name in found]
