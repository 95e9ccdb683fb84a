"""Schedules in Redis, their ticks, and who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import msgspec

from ...clock import instant
from ...failpoint import failpoint
from ...job import UnreadableRecord
from ...schedule import Due, Fired, Firing, Leadership, Schedule, Tick
from ..memory import fire as memory
from ..rules import led
from ..unreadable import decoded, readable
from .changes import schedule_moves
from .home import Home, Homes
from .index import Arguments
from .known import Known, load
from .play import play
from .step import commit

_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode
_leadership = msgspec.json.Decoder(Leadership).decode
_encode = msgspec.json.Encoder().encode
STEP = 200
# So many are fired at a time.
AT_ONCE = 10


async def due(home: Home, now: datetime, limit: int, computed: Collection[str]) -> Due:
    """By due_at and name, which is the order of the set."""
    base, found, broken, start = home.base, list[Schedule](), list[UnreadableRecord](), 0
    while True:
        entries = await home.call("ZRANGE", f"{base}:due", start, start + STEP - 1, "WITHSCORES")
        names = entries[::2]
        texts = await home.call("HMGET", f"{base}:schedule", *names) if names else []
        for name, text, score in zip(names, texts, entries[1::2], strict=True):
            some, others = decoded("schedule", [] if text is None else [(name, text)], _schedule)
            broken += others
            row = some[0] if some else None
            if row is None or row.due_at is None or (row.spec.computed and row.name not in computed):
                continue
            if row.due_at > now:
                return Due(found, instant(int(float(score))), broken)
            found.append(row)
            if len(found) == limit:
                return Due(found, now, broken)
        if len(names) < STEP:
            return Due(found, None, broken)
        start += STEP


async def fire(homes: Homes, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Each for itself: what one of them has read must not keep the others from being written."""
    fired: list[Fired] = []
    for wave in _waves(firings):
        fired += await asyncio.gather(*(_fire(homes, firing, now) for firing in wave))
    return fired


def _waves(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    """In order, but for those that have nothing to do with each other."""
    wave, met = list[Firing](), set[str]()
    for firing in firings:
        jobs = {key for job in firing.jobs for key in (job.unique_key, job.idempotency_key) if key is not None}
        names = {f"name {firing.schedule.name}", *(f"name {name}" for name, _ in firing.reads), *firing.cancel, *jobs}
        if len(wave) == AT_ONCE or names & met:
            yield wave
            wave, met = [], set()
        wave.append(firing)
        met |= names
    yield wave


async def _fire(homes: Homes, firing: Firing, now: datetime) -> Fired:
    async def prepare(known: Known) -> None:
        await load(homes, known, "schedule", {firing.schedule.name, *(name for name, _ in firing.reads)})
        await load(homes, known, "job", {*(job.id for job in firing.jobs), *firing.cancel})
        failpoint("fire.mid_step")

    return await play(homes, lambda part: memory.fire_one(part.jobs, part.ledger, firing, now), now, prepare)


async def drop(homes: Homes, names: Collection[str]) -> list[str]:
    base = homes.first.base
    while True:
        known = Known()
        if names:
            await load(homes, known, "schedule", set(names))
        found = sorted(name for name, (text, _) in known.schedules.items() if text is not None)
        commands: list[Arguments] = []
        for name in found:
            row = known.schedules[name][1]
            if row is None:  # it cannot be decoded
                commands += (("HDEL", f"{base}:schedule", name), ("ZREM", f"{base}:due", name))
            else:
                commands += schedule_moves(base, row, None)
            commands.append(("DEL", f"{base}:ticks:{name}"))
        if not commands or await commit(homes, known.expected(homes), commands):
            return found


async def schedules(home: Home, names: Collection[str] | None, limit: int, after: str | None) -> list[Schedule]:
    base = home.base
    if names is None:
        names = [name.decode() for name in await home.call("HKEYS", f"{base}:schedule")]
    wanted = [name for name in sorted(set(names)) if after is None or name > after]
    found: list[Schedule] = []
    for start in range(0, len(wanted), STEP):
        texts = await home.call("HMGET", f"{base}:schedule", *wanted[start : start + STEP])
        pairs = [(name, text) for name, text in zip(wanted[start:], texts, strict=False) if text is not None]
        found += readable("schedule", pairs, _schedule)
        if len(found) >= limit:
            break
    return found[:limit]


async def ticks(home: Home, name: str, limit: int, before: int | None) -> list[Tick]:
    high = "+inf" if before is None else f"({before}"
    key = f"{home.base}:ticks:{name}"
    texts = await home.call("ZREVRANGEBYSCORE", key, high, "-inf", "LIMIT", 0, limit)
    return readable(f"tick of schedule {name}", zip(texts, texts, strict=True), _tick)


async def lead(homes: Homes, name: str, holder: str, until: datetime, now: datetime) -> Leadership:
    base = homes.first.base
    while True:
        known = Known()
        text = await homes.first.call("HGET", f"{base}:leader", name)
        known.leaders[name] = text
        answer = led(None if text is None else _leadership(text), name, holder, until, now)
        word = "new" if answer.holder is None else ""
        if await commit(homes, known.expected(homes), [("HSET", f"{base}:leader", name, _encode(answer))], word):
            return answer


async def leaders(home: Home, now: datetime) -> list[Leadership]:
    found = map(_leadership, await home.call("HVALS", f"{home.base}:leader"))
    return sorted((one for one in found if one.holder is not None and one.until > now), key=lambda one: one.name)
