"""Runs counted in Redis: a finish only adds to a list, and beats sum it up."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...records.tally import RETENTION, SPAN_SECONDS, RunSums, Span, Tally, span_start
from ...records.unreadable import readable, sums_of
from .index import Arguments
from .known import read_hash
from .shard import Shard, Shards
from .two_phase import Unit, commit_one, has

Counted = tuple[int, str, str, RunSums]
Key = tuple[Span, datetime, str, str]

_counted = msgspec.json.Decoder(Counted).decode
_encode = msgspec.json.Encoder().encode
# Counts that are summed up at a time, and how often with one beat.
MOST, MAX_FOLDS = 1_000, 20


async def fold(homes: Shards) -> None:
    """Adds what has been counted to all the spans it lies in, unless another worker is at it."""
    await homes.each(lambda home: _folds(homes, home))


async def _folds(homes: Shards, home: Shard) -> None:
    for _ in range(MAX_FOLDS):
        if not await _fold(homes, home):
            break


async def _fold(homes: Shards, home: Shard) -> bool:
    """Whether there may be more to add."""
    base = home.base
    turn, texts = await home.many([("HGET", f"{base}:meta", "folds"), ("LRANGE", f"{base}:counting", 0, MOST - 1)])
    if not texts:
        return False
    found: dict[Key, RunSums] = {}
    for at, queue, task, sums in readable("count", zip(texts, texts, strict=True), _counted):
        for span in SPAN_SECONDS:
            found.setdefault((span, span_start(instant(at), span), queue, task), RunSums()).add(sums)
    keys = list(found)
    asked = [("HGET", f"{base}:tally:{span}", _field(at, queue, task)) for span, at, queue, task in keys]
    kept = await home.many(asked) if asked else []
    for key, text in zip(keys, kept, strict=True):
        if text is not None:
            found[key].add(sums_of(text))
    commands: list[Arguments] = [("LTRIM", f"{base}:counting", len(texts), -1), ("HINCRBY", f"{base}:meta", "folds", 1)]
    commands += [
        ("HSET", f"{base}:tally:{span}", _field(at, queue, task), _encode(sums))
        for (span, at, queue, task), sums in found.items()
    ]
    if minutes := [at for span, at, _, _ in keys if span == "minute"]:
        commands += await _old(home, max(minutes))
    written = await commit_one(homes, Unit([has(f"{base}:meta", "folds", turn)], commands))
    return written and len(texts) == MOST


async def _old(home: Shard, now: datetime) -> list[Arguments]:
    gone: list[Arguments] = []
    for span, kept in RETENTION.items():
        key = f"{home.base}:tally:{span}"
        fields = [field for field in await read_hash(home, key) if instant(int(field.split("\0")[0])) < now - kept]
        gone += [("HDEL", key, field) for field in fields]
    return gone


def _field(at: datetime, queue: str, task: str) -> str:
    return f"{micros(at)}\0{queue}\0{task}"


async def tallies(homes: Shards, span: Span, since: datetime) -> list[Tally]:
    found: dict[tuple[datetime, str, str], RunSums] = {}
    for some in await homes.each(lambda home: _tallies(home, span)):
        found |= some  # a queue has one home
    return [Tally(*key, sums) for key, sums in sorted(found.items(), key=lambda one: one[0]) if key[0] >= since]


async def _tallies(home: Shard, span: Span) -> dict[tuple[datetime, str, str], RunSums]:
    base = home.base
    pairs, texts = await home.many([("HGETALL", f"{base}:tally:{span}"), ("LRANGE", f"{base}:counting", 0, -1)])
    found: dict[tuple[datetime, str, str], RunSums] = {}
    for field, text in zip(pairs[::2], pairs[1::2], strict=True):
        at, queue, task = field.decode().split("\0")
        found[instant(int(at)), queue, task] = sums_of(text)
    for us, queue, task, sums in readable("count", zip(texts, texts, strict=True), _counted):
        found.setdefault((span_start(instant(us), span), queue, task), RunSums()).add(sums)
    return found
