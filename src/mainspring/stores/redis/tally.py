"""Tallies of runs: a finish appends counts to a list, and heartbeats fold the list into sums."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start
from ...records.unreadable import readable, sums_of, sums_of_each
from .handle import RedisHandle
from .hashes import read_hash
from .index import Command
from .shard import Shard, Shards
from .two_phase import Unit, commit_one, has

Counted = tuple[int, str, str, RunSums]
Key = tuple[Span, datetime, str, str]

_counted = msgspec.json.Decoder(Counted).decode
_encode = msgspec.json.Encoder().encode
# Counts folded per transaction.
BATCH_COUNTS = 1_000
# Transactions per beat.
MAX_FOLDS = 20


class RedisTally(RedisHandle):
    """The tallies of each span."""

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        """The folded sums, together with the counts that are not folded yet."""
        found: dict[tuple[datetime, str, str], RunSums] = {}
        shards = self._open()
        with self._clock.outside():
            for some in await shards.each(lambda shard: _tallies(shard, span, since)):
                found |= some  # each queue is in one shard only
        return [Tally(*key, sums) for key, sums in sorted(found.items(), key=lambda one: one[0]) if key[0] >= since]


async def fold(shards: Shards) -> None:
    """Adds the appended counts to the sums of every span that contains them, unless another worker does so now."""
    await shards.each(lambda shard: _fold_shard(shards, shard))


async def _fold_shard(shards: Shards, shard: Shard) -> None:
    for _ in range(MAX_FOLDS):
        if not await _fold_batch(shards, shard):
            break


async def _fold_batch(shards: Shards, shard: Shard) -> bool:
    """Folds one batch; whether there may be more."""
    base = shard.base
    turn, texts = await shard.multi(
        [("HGET", f"{base}:meta", "folds"), ("LRANGE", f"{base}:counting", 0, BATCH_COUNTS - 1)]
    )
    if not texts:
        return False
    found: dict[Key, RunSums] = {}
    for at, queue, task, sums in readable("count", zip(texts, texts, strict=True), _counted):
        for span in SPAN_SECONDS:
            found.setdefault((span, span_start(instant(at), span), queue, task), RunSums()).add(sums)
    keys = list(found)
    reads = [("HGET", f"{base}:tally:{span}", _field(at, queue, task)) for span, at, queue, task in keys]
    stored = await shard.multi(reads) if reads else []
    for key, text in zip(keys, stored, strict=True):
        if text is not None:
            found[key].add(sums_of(text))
    commands: list[Command] = [("LTRIM", f"{base}:counting", len(texts), -1), ("HINCRBY", f"{base}:meta", "folds", 1)]
    commands += [
        ("HSET", f"{base}:tally:{span}", _field(at, queue, task), _encode(sums))
        for (span, at, queue, task), sums in found.items()
    ]
    if minutes := [at for span, at, _, _ in keys if span == "minute"]:
        commands += await _drop_old(shard, max(minutes))
    written = await commit_one(shards, Unit([has(f"{base}:meta", "folds", turn)], commands))
    return written and len(texts) == BATCH_COUNTS


async def _drop_old(shard: Shard, now: datetime) -> list[Command]:
    """The commands that delete sums past their retention."""
    gone: list[Command] = []
    for span, stored in RETENTION.items():
        key = f"{shard.base}:tally:{span}"
        fields = [field for field in await read_hash(shard, key) if instant(int(field.split("\0")[0])) < now - stored]
        gone += [("HDEL", key, field) for field in fields]
    return gone


def _field(at: datetime, queue: str, task: str) -> str:
    return f"{micros(at)}\0{queue}\0{task}"


async def _tallies(shard: Shard, span: Span, since: datetime) -> dict[tuple[datetime, str, str], RunSums]:
    """The tallies since then, and perhaps some before. Only these are decoded: a hash has days for more than a year."""
    base, first = shard.base, micros(since)
    pairs, texts = await shard.multi([("HGETALL", f"{base}:tally:{span}"), ("LRANGE", f"{base}:counting", 0, -1)])
    keys, kept = list[tuple[datetime, str, str]](), list[bytes]()
    instants: dict[str, datetime] = {}
    for field, text in zip(pairs[::2], pairs[1::2], strict=True):
        at, queue, task = field.decode().split("\0")
        if int(at) >= first:
            keys.append((instants.get(at) or instants.setdefault(at, instant(int(at))), queue, task))
            kept.append(text)
    found = dict(zip(keys, sums_of_each(kept), strict=True))
    for us, queue, task, sums in readable("count", zip(texts, texts, strict=True), _counted):
        found.setdefault((span_start(instant(us), span), queue, task), RunSums()).add(sums)
    return found
