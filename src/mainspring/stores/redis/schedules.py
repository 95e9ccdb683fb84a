"""Schedules and their ticks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...failpoint import failpoint
from ...records.job import UnreadableRecord
from ...records.unreadable import decoded, readable
from ...schedule.record import Due, Fired, Firing, Schedule, Tick
from ..rules.fire import fire_one
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name, of_firing
from . import plain
from .aside import set_aside_schedules
from .diff import schedule_commands
from .enqueue_limited import limit_elsewhere
from .handle import RedisHandle
from .reads import fetch
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import Proposal, contend, transact
from .two_phase import Unit, has

_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode
# Schedules read per round trip.
MAX_ROWS = 1_000
# Names repaired per call of the script.
MAX_NAMES = 1_000
# Schedules read first to find the next due time: those computed elsewhere are skipped.
AHEAD_ROWS = 4
# Repairs of the index by name per page: an older release may write at the same time without maintaining it.
MAX_REPAIRS = 3


class RedisSchedules(RedisHandle):
    """Schedules and their ticks, in the first shard."""

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        shards = self._open()
        with self._clock.outside():
            due = await _due(shards.first, now, limit, computed)
            await set_aside_schedules(shards, due.unreadable)
        return due

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        with self._clock.outside():
            fired = await _fire(self._open(), firings, now)
        if any(one.stands for one in fired):
            failpoint("fire.after_commit")
        self._wakeups.notify("new", "final")
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        shards, wanted, found = self._open(), sorted(set(names)), list[str]()
        with self._clock.outside():
            for start in range(0, len(wanted), MAX_ROWS):
                found += await _drop(shards, wanted[start : start + MAX_ROWS])
        return found

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        shard = self._open().first
        with self._clock.outside():
            if names is None:
                return await schedules_by_name(shard, limit, after)
            return await _named_schedules(shard, names, limit, after)

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        shard, high = self._open().first, "+inf" if before is None else f"({before}"
        key = f"{shard.base}:ticks:{name}"
        with self._clock.outside():
            texts = await shard.call("ZREVRANGEBYSCORE", key, high, "-inf", "LIMIT", 0, limit)
        return readable(f"tick of schedule {name}", zip(texts, texts, strict=True), _tick)


async def _due(shard: Shard, now: datetime, limit: int, computed: Collection[str]) -> Due:
    """Due schedules by due_at and name: one round trip, and more if schedules computed elsewhere come first."""
    found, seen, passed, ahead = list[Schedule](), 0, 0, AHEAD_ROWS
    broken = list[UnreadableRecord]()
    while True:
        wanted = min(limit - len(found), MAX_ROWS)
        rows, later = await shard.script("due", [micros(now), seen, wanted, passed, ahead])
        some, others = _mine(rows, computed)
        found += [row for row, _ in some]
        broken += others
        seen += len(rows) // 3
        if len(found) == limit:
            return Due(found, now, broken)
        if len(rows) == 3 * wanted:
            continue
        for _, at in _mine(later, computed)[0]:
            return Due(found, at, broken)
        if len(later) < 3 * ahead:
            return Due(found, None, broken)
        passed, ahead = passed + ahead, min(2 * ahead, MAX_ROWS)


def _mine(
    rows: Sequence[bytes], computed: Collection[str]
) -> tuple[list[tuple[Schedule, datetime]], list[UnreadableRecord]]:
    """The schedules that are not computed elsewhere, with their due times; and those that cannot be decoded."""
    texts = [(name, (text, at)) for name, text, at in zip(rows[::3], rows[1::3], rows[2::3], strict=True) if text]
    found, broken = decoded("schedule", texts, lambda one: (_schedule(one[0]), instant(int(float(one[1])))))
    mine = [
        (row, at) for row, at in found if row.due_at is not None and (not row.spec.computed or row.name in computed)
    ]
    return mine, broken


async def _fire(shards: Shards, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Writes each firing independently, but together with firings that it shares a name with."""

    def needs(firing: Firing, known: KnownValues) -> Iterator[Name]:
        return of_firing(firing, known, now)

    def rule(tables: LoadedTables, firing: Firing) -> Fired:
        return fire_one(tables, firing, now)

    fired = [Fired(True)] * len(firings)
    for n, firing in enumerate(firings if len(shards.all) > 1 else ()):
        if firing.jobs and (error := await limit_elsewhere(shards, firing.jobs)):
            fired[n] = Fired(False, error=error)
    left = [n for n, one in enumerate(fired) if one.stands]
    if firings and len(shards.all) == 1 and plain.all_plain(firings):
        written = await plain.fire_plain(shards, firings, now, lambda: failpoint("fire.mid_step"))
        left = [n for n in left if n not in written]
    answers = await transact(
        shards, "fire", [firings[n] for n in left], needs, rule, now, before=lambda: failpoint("fire.mid_step")
    )
    for n, answer in zip(left, answers, strict=True):
        fired[n] = answer
    return fired


async def _drop(shards: Shards, names: Sequence[str]) -> list[str]:
    """Deletes these schedules. Returns the names of those that existed."""

    async def propose(numbers: Sequence[int], lock: str) -> list[Proposal[bool]]:
        snapshot = Snapshot()
        await fetch(shards, snapshot, [Name("schedule", names[n]) for n in numbers])
        units = [_gone(shards.first.base, names[n], *snapshot.schedules[names[n]]) for n in numbers]
        return [Proposal([n], [bool(unit.commands)], unit) for n, unit in zip(numbers, units, strict=True)]

    gone = await contend(shards, "drop_schedules", len(names), propose)
    return [name for name, there in zip(names, gone, strict=True) if there]


def _gone(base: str, name: str, text: bytes | None, row: Schedule | None) -> Unit:
    """The deletion of a schedule, also of one that cannot be decoded; empty if there is none."""
    if text is None:
        return Unit((), ())
    waited_on = None if row is None else row.waits_on
    commands = [*schedule_commands(base, name, True, waited_on, None), ("DEL", f"{base}:ticks:{name}")]
    return Unit([has(f"{base}:schedule", name, text)], commands)


async def _named_schedules(shard: Shard, names: Collection[str], limit: int, after: str | None) -> list[Schedule]:
    wanted = [name for name in sorted(set(names)) if after is None or name > after]
    found: list[Schedule] = []
    for start in range(0, len(wanted), MAX_ROWS):
        texts = await shard.call("HMGET", f"{shard.base}:schedule", *wanted[start : start + MAX_ROWS])
        pairs = [(name, text) for name, text in zip(wanted[start:], texts, strict=False) if text is not None]
        found += readable("schedule", pairs, _schedule)
        if len(found) >= limit:
            break
    return found[:limit]


async def schedules_by_name(shard: Shard, limit: int, after: str | None) -> list[Schedule]:
    """All schedules in order of name, after the name `after`, at most `limit`."""
    found: list[Schedule] = []
    while len(found) < limit:
        wanted = min(limit - len(found), MAX_ROWS)
        low = b"-" if after is None else b"(" + after.encode()
        pairs = await _page(shard, low, wanted)
        found += readable("schedule", [(name, text) for name, text in pairs if text is not None], _schedule)
        if len(pairs) < wanted:
            break
        after = pairs[-1][0].decode()
    return found


async def _page(shard: Shard, low: bytes, wanted: int) -> list[tuple[bytes, bytes | None]]:
    """The next names in the index, each with its record. An incomplete index is repaired first."""
    whole, names, texts = await shard.script("page", [low, wanted])
    for _ in range(0 if whole else MAX_REPAIRS):
        await repair_index(shard)
        whole, names, texts = await shard.script("page", [low, wanted])
        if whole:
            break
    return list(zip(names, texts, strict=True))


async def repair_index(shard: Shard) -> None:
    """Makes the index by name match the schedules: releases without this index do not maintain it."""
    keys, names = await shard.multi([("HKEYS", f"{shard.base}:schedule"), ("ZRANGE", f"{shard.base}:schedules", 0, -1)])
    odd = sorted({*keys} ^ {*names})
    for start in range(0, len(odd), MAX_NAMES):
        await shard.script("names", odd[start : start + MAX_NAMES])
