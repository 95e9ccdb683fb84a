"""What the Redis store keeps for the service."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from ...clock import Clock, micros
from ...records.audit import AuditEntry, AuditFilter
from ...records.document import Document
from ...records.feed import MIN_FEED_ITEMS, Feed, FeedItem
from ..rules import matches_audit_filter
from .kept import document_of, entries_of, instant_of, play, watched
from .listener import RedisWakeups
from .shard import Shard, Shards

# So many are read at a time, and the entries of a span of time whole if there are no more than that.
STEP, FEW = 200, 20_000
# Entries of the audit trail that are read at a time where some of them may match: most are not even decoded.
MAX_FILTERED_ENTRIES = 1_000
# So many of each are tidied away at a time, so often in one call.
TIDIED, TIMES = 500, 20


_encode = msgspec.json.Encoder().encode


class RedisKeeper:
    """In the first home. Nothing of it expires by the server's own clock: what the time is, verbs say."""

    _clock: Clock
    _kin: RedisWakeups

    def _open(self) -> Shards:
        raise NotImplementedError

    # documents

    async def put_documents(self, documents: Sequence[Document], *, now: datetime) -> list[bool]:
        keys = [(document.kind, document.name) for document in documents]
        with self._clock.outside():
            return await play(self._open(), lambda kept: kept.put_documents(documents, now=now), keys)

    async def drop_documents(self, kind: str, names: Collection[str]) -> list[str]:
        keys = [(kind, name) for name in names]
        with self._clock.outside():
            return await play(self._open(), lambda kept: kept.drop_documents(kind, names), keys)

    async def documents(
        self, kind: str, names: Collection[str] | None = None, *, now: datetime, limit: int, after: str | None = None
    ) -> list[Document]:
        home, found = self._open().first, list[Document]()
        with self._clock.outside():
            while len(found) < limit:
                page = await _names(home, kind, names, after)
                texts = await home.call("HMGET", f"{home.base}:doc:{kind}", *page) if page else []
                pairs = zip(page, texts, strict=True)
                read = [document_of((kind, name), text) for name, text in pairs if text is not None]
                found += [one for one in read if one.expires_at is None or one.expires_at > now]
                if len(page) < STEP:
                    break
                after = page[-1]
        return found[:limit]

    # the audit trail

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        with self._clock.outside():
            await play(self._open(), lambda kept: kept.record(entries), entries=[entry.id for entry in entries])

    async def audit(self, which: AuditFilter, *, limit: int, before: str | None = None) -> list[AuditEntry]:
        home, found = self._open().first, list[AuditEntry]()
        with self._clock.outside():
            span, parts, step = await _span(home, which), _parts(which), STEP
            while len(found) < limit:
                page = await _ids(home, span, before, step)
                texts = await home.call("HMGET", f"{home.base}:entry", *page) if page else []
                pairs = zip(page, texts, strict=True)
                read = entries_of([(id, text) for id, text in pairs if text and all(part in text for part in parts)])
                found += [entry for entry in read if matches_audit_filter(entry, which)]
                if len(page) < step:
                    break
                before, step = page[-1], MAX_FILTERED_ENTRIES if parts else STEP
        return found[:limit]

    # news

    async def watch(self, *, until: datetime, now: datetime) -> None:
        with self._clock.outside():
            await play(self._open(), lambda kept: kept.watch(until=until, now=now))

    async def watched(self) -> datetime | None:
        home = self._open().first
        with self._clock.outside():
            return instant_of(await home.call(*watched(home)))

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        """After a loss that a beat has noticed they are numbered on from that instant, and what was kept is let go:
        by Feed.first every reader sees that there was something it has missed, whatever number it has seen."""
        if not news:
            return await self.watched()
        home, epoch = self._open().first, self._kin.epoch
        losses = len(epoch.losses)
        least = micros(now) if epoch.renumbered < losses else 0
        with self._clock.outside():
            until = await home.script("publish", [MIN_FEED_ITEMS, least, *news])
        epoch.renumbered = losses
        return instant_of(until)

    async def news(self, *, after: int, limit: int) -> Feed:
        home = self._open().first
        with self._clock.outside():
            last, kept, texts = await home.script("news", [after, limit])
        first = last - kept + 1
        start = max(first, after + 1)
        return Feed([FeedItem(start + n, text.decode()) for n, text in enumerate(texts)], first, last)

    # forgetting

    async def tidy(self, *, audited_since: datetime, now: datetime) -> int:
        homes, gone = self._open(), 0
        home, some = homes.first, ("LIMIT", 0, TIDIED)
        with self._clock.outside():
            for _ in range(TIMES):
                expired, old = await home.many([
                    ("ZRANGEBYSCORE", f"{home.base}:fading", "-inf", micros(now), *some),
                    ("ZRANGEBYSCORE", f"{home.base}:audited", "-inf", f"({micros(audited_since)}", *some),
                ])  # fmt: skip
                if not expired and not old:
                    break
                keys = [(kind, name) for kind, _, name in (one.decode().partition("\0") for one in expired)]
                ids = [id.decode() for id in old]
                gone += await play(homes, lambda kept: kept.tidy(audited_since=audited_since, now=now), keys, ids)
        return gone


async def _names(home: Shard, kind: str, names: Collection[str] | None, after: str | None) -> list[str]:
    """The next so many of them."""
    if names is not None:
        return sorted({name for name in names if after is None or name > after})[:STEP]
    low = b"-" if after is None else b"(" + after.encode()
    found = await home.call("ZRANGEBYLEX", f"{home.base}:docs:{kind}", low, "+", "LIMIT", 0, STEP)
    return [name.decode() for name in found]


def _parts(which: AuditFilter) -> list[bytes]:
    """What the record of an entry that matches has in it, so that one without them need not be decoded."""
    named = [] if which.action is None else [_encode(which.action)[:-1]]  # an action, or the noun that it begins with
    return [*named, *(_encode(part) for part in (which.who, which.target) if part is not None)]


async def _ids(home: Shard, span: Sequence[str] | None, before: str | None, step: int) -> list[str]:
    """The next ones, the newest first."""
    if span is not None:
        end = len(span) if before is None else bisect_left(span, before)
        return list(span[max(0, end - step) : end][::-1])
    high = b"+" if before is None else b"(" + before.encode()
    found = await home.call("ZREVRANGEBYLEX", f"{home.base}:trail", high, "-", "LIMIT", 0, step)
    return [id.decode() for id in found]


async def _span(home: Shard, which: AuditFilter) -> list[str] | None:
    """The ids of the span of time that is asked for, in order, if they are few."""
    if which.since is None and which.until is None:
        return None
    low = "-inf" if which.since is None else micros(which.since)
    high = "+inf" if which.until is None else f"({micros(which.until)}"
    found = await home.call("ZRANGEBYSCORE", f"{home.base}:audited", low, high, "LIMIT", 0, FEW + 1)
    return None if len(found) > FEW else sorted(id.decode() for id in found)
