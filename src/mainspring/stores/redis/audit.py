"""The audit log in Redis."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from ...clock import micros
from ...records.audit import AuditEntry, AuditFilter
from ..rules import matches_audit_filter
from .document_snapshot import entries_of, transact_documents
from .handle import RedisHandle
from .shard import Shard

# Entries read per round trip without a filter on their text, and in the first round trip with one.
PAGE_ROWS = 200
# Entries read per further round trip with such a filter: most of them are dropped without being decoded.
FILTERED_PAGE_ROWS = 1_000
# Ids of a time span that are read at once; a longer span is found by walking through all entries.
MAX_SPAN_IDS = 20_000

_encode = msgspec.json.Encoder().encode


class RedisAudit(RedisHandle):
    """Audit entries in the first shard, by id and by time."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        ids = [entry.id for entry in entries]
        with self._clock.outside():
            await transact_documents(self._open(), lambda read: read.record(entries), entries=ids)

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        shard, found = self._open().first, list[AuditEntry]()
        with self._clock.outside():
            span, parts, step = await _ids_in_span(shard, which), _required_parts(which), PAGE_ROWS
            while len(found) < limit:
                page = await _next_ids(shard, span, before, step)
                texts = await shard.call("HMGET", f"{shard.base}:entry", *page) if page else []
                pairs = zip(page, texts, strict=True)
                read = entries_of([(id, text) for id, text in pairs if text and all(part in text for part in parts)])
                found += [entry for entry in read if matches_audit_filter(entry, which)]
                if len(page) < step:
                    break
                before, step = page[-1], FILTERED_PAGE_ROWS if parts else PAGE_ROWS
        return found[:limit]


def _required_parts(which: AuditFilter) -> list[bytes]:
    """Byte strings that every matching record contains: a record without one of them need not be decoded."""
    named = [] if which.action is None else [_encode(which.action)[:-1]]  # an action, or the noun that it begins with
    return [*named, *(_encode(part) for part in (which.who, which.target) if part is not None)]


async def _next_ids(shard: Shard, span: Sequence[str] | None, before: str | None, step: int) -> list[str]:
    """The next `step` ids, newest first, of `span` or of all entries."""
    if span is not None:
        end = len(span) if before is None else bisect_left(span, before)
        return list(span[max(0, end - step) : end][::-1])
    high = b"+" if before is None else b"(" + before.encode()
    found = await shard.call("ZREVRANGEBYLEX", f"{shard.base}:trail", high, "-", "LIMIT", 0, step)
    return [id.decode() for id in found]


async def _ids_in_span(shard: Shard, which: AuditFilter) -> list[str] | None:
    """The ids in the filter's time span, sorted. None if it has none, or one of more than MAX_SPAN_IDS ids."""
    if which.since is None and which.until is None:
        return None
    low = "-inf" if which.since is None else micros(which.since)
    high = "+inf" if which.until is None else f"({micros(which.until)}"
    found = await shard.call("ZRANGEBYSCORE", f"{shard.base}:audited", low, high, "LIMIT", 0, MAX_SPAN_IDS + 1)
    return None if len(found) > MAX_SPAN_IDS else sorted(id.decode() for id in found)
