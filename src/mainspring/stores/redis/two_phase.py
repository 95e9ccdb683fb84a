"""Writing units whose conditions still hold: in one home by one script, over several homes by a two-phase commit.

Over several homes each promises its share, one of them decides, and all of them write it. A process that meets a
promise asks the home that decides, and settles it: an owner that dies in the middle leaves everything to be written or
nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple, TypeVar

from ...errors import StoreError
from .connection import Word
from .index import Arguments
from .shard import Shard, Shards

T = TypeVar("T")
Operator = Literal["=", "-", "~", "!"]


class Condition(NamedTuple):
    """What has to hold for a unit to be written, as share.lua tests it."""

    key: str
    field: str | bytes
    operator: Operator
    value: bytes = b""


class Unit(NamedTuple):
    """Commands that are written together if all conditions hold."""

    conditions: Sequence[Condition]
    commands: Sequence[Arguments]


# Seconds after which a step that was not decided is given up by whoever meets it, and until it is looked at again.
PATIENCE, AGAIN = 3, 0.005
# Steps that are settled with each beat.
SWEPT = 100
# Words that one script gets: the server does nothing else while it runs. A larger unit has a script of its own.
MAX_WORDS = 10_000
# Words of a unit beyond which it is written in pieces, as a step of many shares.
MAX_UNIT_WORDS = 60_000
# Seconds after which the pieces of a step are marked as still wanted; below PATIENCE.
KEEP_SECONDS = 1.0

Shares = dict[str, list[Word]]
"""For each base what its home has to do with a unit."""


def has(key: str, field: str | bytes, value: bytes | None) -> Condition:
    """The field of the hash has that value; None: there is no such field."""
    return Condition(key, field, "-") if value is None else Condition(key, field, "=", value)


def has_members(key: str, members: Sequence[str]) -> Condition:
    """The set has exactly these members."""
    return Condition(key, str(len(members)), "~", "".join(f"\0{member}\0" for member in members).encode())


def lacks_member(key: str, member: str) -> Condition:
    return Condition(key, member, "!")


async def commit_one(homes: Shards, unit: Unit, word: str = "") -> bool:
    """Whether it was written."""
    return (await commit(homes, [unit], word))[0]


async def commit(homes: Shards, units: Sequence[Unit], word: str = "", lock: str = "") -> list[bool]:
    """For each unit whether it was written; where one was, the word is published. `lock` is a step of our own."""
    written = [True] * len(units)
    local: dict[str, list[tuple[int, list[Word]]]] = {}
    across: list[tuple[int, Shares]] = []
    for n, unit in enumerate(units):
        shares = _shares(unit) if unit.commands else {}
        if sum(map(len, shares.values())) > MAX_UNIT_WORDS:
            written[n] = await asyncio.shield(asyncio.ensure_future(_in_pieces(homes, shares, word, lock)))
        elif len(shares) == 1:
            ((base, words),) = shares.items()
            local.setdefault(base, []).append((n, words))
        elif shares:
            across.append((n, shares))
    scripts = [(homes.named(base), lot) for base, some in local.items() for lot in _lots(some, len)]
    answers = await asyncio.gather(*(_commit(homes, home, lot, word, lock) for home, lot in scripts))
    for (_, lot), done in zip(scripts, answers, strict=True):
        for (n, _), whether in zip(lot, done, strict=True):
            written[n] = whether
    for some in _lots(across, lambda shares: sum(map(len, shares.values()))):
        steps = [_step(homes, shares, word) for _, shares in some]
        done = await asyncio.shield(asyncio.ensure_future(_together(homes, steps, lock)))
        for (n, _), whether in zip(some, done, strict=True):
            written[n] = whether
    return written


def _shares(unit: Unit) -> Shares:
    read: Shares = {}
    written: Shares = {}
    for condition in unit.conditions:
        read.setdefault(_base(condition.key), []).extend(condition)
    for command in unit.commands:
        words = written.setdefault(_base(str(command[1])), [])
        words.append(len(command))
        words += command
    bases = dict.fromkeys([*written, *read])
    return {base: [len(read.get(base, ())) // 4, *read.get(base, ()), *written.get(base, ())] for base in bases}


def _base(key: str) -> str:
    return key[: key.index("}") + 1]


def _lots(numbered: Sequence[tuple[int, T]], size: Callable[[T], int]) -> Iterator[list[tuple[int, T]]]:
    """In order, of at most MAX_WORDS each where that can be."""
    lot, words = list[tuple[int, T]](), 0
    for n, one in numbered:
        if lot and words + size(one) > MAX_WORDS:
            yield lot
            lot, words = [], 0
        lot.append((n, one))
        words += size(one)
    if lot:
        yield lot


async def _commit(
    homes: Shards, home: Shard, lot: Sequence[tuple[int, list[Word]]], word: str, lock: str
) -> list[bool]:  # fmt: skip
    words: list[Word] = [lock, word]
    for _, unit in lot:
        words.append(len(unit))
        words += unit
    return await _answered(homes, home, await home.script("commit", words))


async def _answered(homes: Shards, home: Shard, answers: Sequence[int | bytes]) -> list[bool]:
    """For each whether it was done; the steps that were in the way are settled first if that can be."""
    for step in {answer for answer in answers if isinstance(answer, bytes)}:
        await settle(homes, home, step.decode())
    return [answer == 1 for answer in answers]


# over several homes


class Step(NamedTuple):
    id: str
    bases: list[str]
    """The first one decides."""
    shares: Shares


def _step(homes: Shards, shares: Shares, word: str) -> Step:
    bases = [home.base for home in homes.all if home.base in shares]  # all take them in one order
    for base, words in shares.items():
        if word and len(words) > 1 + 4 * int(words[0]):
            words += (3, "PUBLISH", base, word)
    return Step(_new_id(bases[0]), bases, shares)


def _new_id(base: str) -> str:
    return f"{base} {os.urandom(10).hex()}"


async def _together(homes: Shards, steps: Sequence[Step], lock: str) -> list[bool]:
    """For each step whether it was written. The number of ways to the servers is that of homes and three."""
    left = {step.id: step for step in steps}
    promised: dict[str, list[Shard]] = {id: [] for id in left}
    try:
        for home in homes.all:
            some = [step for step in left.values() if home.base in step.shares]
            for step, done in zip(some, await _promise(homes, home, some, promised, lock), strict=True):
                if not done:
                    del left[step.id]
        for step in await _decided(homes, left.values()):
            del promised[step.id]
    finally:
        for id, those in promised.items():
            left.pop(id, None)
            for home in those:
                with suppress(StoreError):  # a process that meets it will ask
                    await settle(homes, home, id, patience=-1)
    await _write(homes, left.values())
    return [step.id in left for step in steps]


async def _promise(
    homes: Shards, home: Shard, steps: Sequence[Step], promised: dict[str, list[Shard]], lock: str
) -> list[bool]:
    if not steps:
        return []
    words: list[Word] = [lock]
    for step in steps:
        promised[step.id].append(home)
        words += (1 + len(step.shares[home.base]), step.id, *step.shares[home.base])
    return await _answered(homes, home, await home.script("promise", words))


async def _decided(homes: Shards, steps: Iterable[Step]) -> list[Step]:
    """Those that are to be written, whatever happens to us."""
    led: dict[Shard, list[Step]] = {}
    for step in steps:
        led.setdefault(homes.named(step.bases[0]), []).append(step)

    async def begin(home: Shard) -> list[int]:
        pairs = [word for step in led[home] for word in (step.id, " ".join(step.bases))]
        answers: list[int] = await home.script("settle", ["begin", *pairs])
        return answers

    answers = await homes.each(begin, led) if led else []
    pairs = [pair for some, done in zip(led.values(), answers, strict=True) for pair in zip(some, done, strict=True)]
    return [step for step, done in pairs if done]


async def _write(homes: Shards, steps: Iterable[Step]) -> None:
    shares: dict[Shard, list[str]] = {}
    led: dict[Shard, list[str]] = {}
    for step in steps:
        led.setdefault(homes.named(step.bases[0]), []).append(step.id)
        for base in step.bases[1:]:
            shares.setdefault(homes.named(base), []).append(step.id)
    if shares:
        await homes.each(lambda home: home.script("settle", ["write", *shares[home]]), shares)
    if led:
        await homes.each(lambda home: home.script("settle", ["done", *led[home]]), led)


# in pieces


class Piece(NamedTuple):
    id: str
    home: Shard
    words: list[Word]


async def _in_pieces(homes: Shards, shares: Shares, word: str, lock: str) -> bool:
    """Whether it was written: the same as a step, but of several shares in a home, none of them long.

    Each piece is a step of its own with the same leader, and they are decided together. What is decided is written
    piece by piece: others may see the first while the last is on its way, and end it if its owner does not.
    """
    those = [home for home in homes.all if home.base in shares]
    leader, stem = those[0], _new_id(those[0].base)
    split = [(home, some) for home in those for some in _split(shares[home.base], home, word)]
    pieces = [Piece(f"{stem}-{n}", home, some) for n, (home, some) in enumerate(split)]
    promised, decided = list[Piece](), False
    try:
        decided = await _promise_all(homes, leader, pieces, promised, lock) and await _begin_all(leader, pieces)
    finally:
        for piece in () if decided else promised:
            with suppress(StoreError):  # a process that meets it will ask
                await settle(homes, piece.home, piece.id, patience=-1)
    if decided:
        for piece in pieces:
            await piece.home.script("settle", ["write", piece.id])
        ids = [piece.id for piece in pieces]
        await leader.script("settle", ["write", *ids])  # the tokens
        await leader.script("settle", ["done", *ids])
    return decided


async def _promise_all(homes: Shards, leader: Shard, pieces: Sequence[Piece], promised: list[Piece], lock: str) -> bool:
    loop = asyncio.get_running_loop()
    kept = loop.time()
    for piece in pieces:
        promised.append(piece)
        if piece.home is not leader:  # a token: who meets the piece asks the leader whether it is wanted
            await leader.script("promise", [lock, 2, piece.id, 0])
        words = [lock, 1 + len(piece.words), piece.id, *piece.words]
        if not (await _answered(homes, piece.home, await piece.home.script("promise", words)))[0]:
            return False
        if loop.time() - kept > KEEP_SECONDS:
            await leader.script("settle", ["keep", *(one.id for one in promised)])
            kept = loop.time()
    return True


async def _begin_all(leader: Shard, pieces: Sequence[Piece]) -> bool:
    pairs = [word for piece in pieces for word in (piece.id, f"{leader.base} {piece.home.base} {leader.base}")]
    return bool(await leader.script("settle", ["begin all", *pairs]))


def _split(words: list[Word], home: Shard, word: str) -> Iterator[list[Word]]:
    """Conditions first, then commands in their order, as units of at most MAX_WORDS where that can be."""
    end, step = 1 + 4 * int(words[0]), MAX_WORDS // 4 * 4
    for at in range(1, end, step):
        some = words[at : min(at + step, end)]
        yield [len(some) // 4, *some]
    piece, at = list[Word](), end
    while at < len(words):
        size = 1 + int(words[at])
        if piece and len(piece) + size > MAX_WORDS:
            yield [0, *piece]
            piece = []
        piece += words[at : at + size]
        at += size
    if word:
        piece += (3, "PUBLISH", home.base, word)
    if piece:
        yield [0, *piece]


async def settle(homes: Shards, home: Shard, step: str, patience: int | None = None) -> None:
    """Ends a step that this home has promised its share of, as was decided; a young one is left to its owner."""
    leader = homes.named(step.split(" ")[0])
    seconds = PATIENCE if patience is None else patience
    verdict = (await leader.script("settle", ["ask", seconds, step])).decode()
    if verdict == "wait":
        await asyncio.sleep(AGAIN)
    elif home is not leader or verdict == "write":
        await home.script("settle", [verdict, step])


async def sweep(homes: Shards) -> None:
    """Ends the steps whose owners are gone."""
    await homes.each(lambda home: _sweep(homes, home))


async def _sweep(homes: Shards, home: Shard) -> None:
    base = home.base
    (now, _), steps, decided = await home.many([
        ("TIME",), ("ZRANGE", f"{base}:promised", 0, SWEPT, "WITHSCORES"), ("HGETALL", f"{base}:decided"),
    ])  # fmt: skip
    for step, at in zip(steps[::2], steps[1::2], strict=True):
        if int(now) - float(at) > PATIENCE:
            await settle(homes, home, step.decode())
    for step, bases in zip(decided[::2], decided[1::2], strict=True):
        for other in bases.decode().split(" ")[1:]:
            await homes.named(other).script("settle", ["write", step])
        await home.script("settle", ["done", step])


# locks


@asynccontextmanager
async def locked(homes: Shards, conditions: Iterable[Condition]) -> AsyncIterator[str]:
    """A step that has locked these fields, so that others wait; nothing if one of them is locked already.

    Correctness does not rest on it: conditions are tested all the same, and a lock ends PATIENCE seconds after its
    owner has died. It gives a writer its turn that has lost too many races.
    """
    shares = _shares(Unit(list(conditions), ()))
    bases = [home.base for home in homes.all if home.base in shares]
    step, taken, ours = _new_id(bases[0]), list[Shard](), True
    try:
        for home in map(homes.named, bases):
            taken.append(home)
            (ours,) = await _answered(homes, home, [await home.script("lock", [step, *shares[home.base]])])
            if not ours:
                break
        yield step if ours else ""
    finally:
        for home in taken:
            with suppress(StoreError):  # it ends by itself
                await home.script("settle", ["drop", step])
