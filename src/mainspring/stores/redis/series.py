"""Schedules in Redis, their ticks, and who leads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import cast

import msgspec

from ...clock import instant, micros
from ...failpoint import failpoint
from ...schedule import Due, Fired, Firing, Leadership, Schedule, Tick
from ..memory import fire as memory
from ..rules import led
from . import plain
from .diff import schedule_moves
from .home import Home, Homes
from .index import Arguments
from .reads import fetch, of_firing
from .snapshot import Name, Snapshot
from .step import Unit, has
from .tables import Tables
from .transact import Proposal, contend, contend_one, transact

_schedule = msgspec.json.Decoder(Schedule).decode
_tick = msgspec.json.Decoder(Tick).decode
_leadership = msgspec.json.Decoder(Leadership).decode
_encode = msgspec.json.Encoder().encode
# Schedules that are read at a time, and names that are compared with the index at a time.
MAX_ROWS, MAX_NAMES = 1_000, 1_000
# Schedules that are not due yet of which the first is looked for at a time: those computed elsewhere are passed over.
AHEAD_ROWS = 4
# Repairs of the index by name in one call: another release may write beside us.
MAX_REPAIRS = 3


async def due(home: Home, now: datetime, limit: int, computed: Collection[str]) -> Due:
    """By due_at and name, which is the order of the set: one round trip, and more past what is computed elsewhere."""
    found, seen, passed, ahead = list[Schedule](), 0, 0, AHEAD_ROWS
    while True:
        wanted = min(limit - len(found), MAX_ROWS)
        rows, later = await home.script("due", [micros(now), seen, wanted, passed, ahead])
        found += [row for row, _ in _mine(rows, computed)]
        seen += len(rows) // 2
        if len(found) == limit:
            return Due(found, now)
        if len(rows) == 2 * wanted:
            continue
        for _, at in _mine(later, computed):
            return Due(found, at)
        if len(later) < 2 * ahead:
            return Due(found, None)
        passed, ahead = passed + ahead, min(2 * ahead, MAX_ROWS)


def _mine(pairs: Sequence[bytes | None], computed: Collection[str]) -> Iterator[tuple[Schedule, datetime]]:
    """Those that are not computed elsewhere, and when each is due."""
    for text, score in zip(pairs[::2], pairs[1::2], strict=True):
        row = None if text is None else _schedule(text)
        if row is not None and row.due_at is not None and (not row.spec.computed or row.name in computed):
            yield row, instant(int(float(score or 0)))


async def fire(homes: Homes, firings: Sequence[Firing], now: datetime) -> list[Fired]:
    """Each for itself, but for those that have something to do with each other."""

    def rule(tables: Tables, firing: Firing) -> Fired:
        return memory.fire_one(tables.jobs, tables.ledger, firing, now)

    fired = [Fired(True)] * len(firings)
    left = list(range(len(firings)))
    if firings and len(homes.all) == 1 and plain.all_plain(firings):
        written = await plain.fire(homes, firings, now, lambda: failpoint("fire.mid_step"))
        left = [n for n in left if n not in written]
    answers = await transact(
        homes, "fire", [firings[n] for n in left], of_firing, rule, now, before=lambda: failpoint("fire.mid_step")
    )
    for n, answer in zip(left, answers, strict=True):
        fired[n] = answer
    return fired


async def drop(homes: Homes, names: Collection[str]) -> list[str]:
    wanted, found, base = sorted(set(names)), list[str](), homes.first.base
    for start in range(0, len(wanted), MAX_ROWS):
        some = wanted[start : start + MAX_ROWS]

        async def propose(numbers: Sequence[int], lock: str, some: Sequence[str] = some) -> list[Proposal[bool]]:
            snapshot = Snapshot()
            await fetch(homes, snapshot, [Name("schedule", some[n]) for n in numbers])
            units = [_gone(base, some[n], *snapshot.schedules[some[n]]) for n in numbers]
            return [Proposal([n], [bool(unit.commands)], unit) for n, unit in zip(numbers, units, strict=True)]

        gone = await contend(homes, "drop_schedules", len(some), propose)
        found += [name for name, there in zip(some, gone, strict=True) if there]
    return found


def _gone(base: str, name: str, text: bytes | None, row: Schedule | None) -> Unit:
    """Nothing to write if there is none."""
    if row is None:
        return Unit((), ())
    commands = [*schedule_moves(base, name, True, row.waits_on, None), ("DEL", f"{base}:ticks:{name}")]
    return Unit([has(f"{base}:schedule", name, text)], commands)


async def schedules(home: Home, names: Collection[str] | None, limit: int, after: str | None) -> list[Schedule]:
    if names is None:
        return await _by_name(home, limit, after)
    wanted = [name for name in sorted(set(names)) if after is None or name > after]
    found: list[Schedule] = []
    for start in range(0, len(wanted), MAX_ROWS):
        texts = await home.call("HMGET", f"{home.base}:schedule", *wanted[start : start + MAX_ROWS])
        found += [_schedule(text) for text in texts if text is not None]
        if len(found) >= limit:
            break
    return found[:limit]


async def _by_name(home: Home, limit: int, after: str | None) -> list[Schedule]:
    found: list[Schedule] = []
    while len(found) < limit:
        wanted = min(limit - len(found), MAX_ROWS)
        low = b"-" if after is None else b"(" + after.encode()
        texts = await _page(home, low, wanted)
        rows = [_schedule(text) for text in texts if text is not None]
        found += rows
        if len(texts) < wanted or not rows:
            break
        after = rows[-1].name
    return found


async def _page(home: Home, low: bytes, wanted: int) -> list[bytes | None]:
    """The next ones in the index, which is repaired first if it is not whole."""
    for _ in range(MAX_REPAIRS):
        whole, texts = await home.script("page", [low, wanted])
        if whole:
            return cast(list[bytes | None], texts)
        await repair_index(home)
    _, texts = await home.script("page", [low, wanted])
    return cast(list[bytes | None], texts)


async def repair_index(home: Home) -> None:
    """Brings the index by name in line with the schedules: a release before it had one leaves it as it is."""
    keys, names = await home.many([("HKEYS", f"{home.base}:schedule"), ("ZRANGE", f"{home.base}:schedules", 0, -1)])
    odd = sorted({*keys} ^ {*names})
    for start in range(0, len(odd), MAX_NAMES):
        await home.script("names", odd[start : start + MAX_NAMES])


async def ticks(home: Home, name: str, limit: int, before: int | None) -> list[Tick]:
    high = "+inf" if before is None else f"({before}"
    key = f"{home.base}:ticks:{name}"
    return [_tick(text) for text in await home.call("ZREVRANGEBYSCORE", key, high, "-inf", "LIMIT", 0, limit)]


async def lead(homes: Homes, name: str, holder: str, until: datetime, now: datetime) -> Leadership:
    key = f"{homes.first.base}:leader"

    async def propose() -> tuple[Leadership, Unit]:
        text = await homes.first.call("HGET", key, name)
        answer = led(None if text is None else _leadership(text), name, holder, until, now)
        commands: list[Arguments] = [("HSET", key, name, _encode(answer))]
        if answer.holder is None:
            commands.append(("PUBLISH", homes.first.base, "new"))
        return answer, Unit([has(key, name, text)], commands)

    return await contend_one(homes, "lead", propose)


async def leaders(home: Home, now: datetime) -> list[Leadership]:
    found = map(_leadership, await home.call("HVALS", f"{home.base}:leader"))
    return sorted((one for one in found if one.holder is not None and one.until > now), key=lambda one: one.name)
