"""One step over what lies in several homes: each promises its share, one of them decides, and all of them write it.

Whoever meets a promise that is not kept asks the home that decides, and settles it: a process that dies in the middle
leaves either everything to be written or nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress

from ...errors import StoreError
from .home import Home, Homes
from .index import Arguments
from .line import Word

Field = tuple[str, str | bytes, bytes | None]
"""A hash, one of its fields, and the value that it has to have; None: it must not be there."""

# Seconds after which a step that was not decided is given up by whoever meets it, and until it is looked at again.
PATIENCE, AGAIN = 3, 0.005
# So many are settled with each beat.
SWEPT = 100


async def commit(homes: Homes, expected: Iterable[Field], commands: Iterable[Arguments], word: str = "") -> bool:
    """Whether they were written, all together, and with them, if there is one, a word to all."""
    shares = _shares(expected, commands, word)
    if not shares:
        return True
    if len(shares) == 1:
        ((base, words),) = shares.items()
        return await _said(homes, homes.named(base), await homes.named(base).script("commit", words))
    return await asyncio.shield(asyncio.ensure_future(_together(homes, shares)))


def _shares(expected: Iterable[Field], commands: Iterable[Arguments], word: str) -> dict[str, list[Word]]:
    """For each base what share.lua is to be told."""
    read: dict[str, list[Word]] = {}
    written: dict[str, list[Word]] = {}
    for key, field, value in expected:
        read.setdefault(_base(key), []).extend((key, field, "-", "") if value is None else (key, field, "=", value))
    for command in commands:
        written.setdefault(_base(str(command[1])), []).extend((len(command), *command))
    for base, words in written.items():
        if word:
            words += (3, "PUBLISH", base, word)
    bases = dict.fromkeys([*written, *read])
    return {base: [len(read.get(base, ())) // 4, *read.get(base, ()), *written.get(base, ())] for base in bases}


def _base(key: str) -> str:
    return key[: key.index("}") + 1]


async def _together(homes: Homes, shares: dict[str, list[Word]]) -> bool:
    bases = [home.base for home in homes.all if home.base in shares]  # all take them in one order
    leader, others = homes.named(bases[0]), [homes.named(base) for base in bases[1:]]
    step = f"{leader.base} {os.urandom(10).hex()}"
    promised = list[Home]()
    try:
        for home in (leader, *others):
            promised.append(home)
            if not await _said(homes, home, await home.script("promise", [step, *shares[home.base]])):
                return False
        if not await leader.script("settle", [step, "begin", " ".join(bases)]):
            return False
        promised.clear()
    finally:
        for home in promised:
            with suppress(StoreError):  # whoever meets it will ask
                await settle(homes, home, step, patience=-1)
    await homes.each(lambda home: home.script("settle", [step, "write"]), others)
    await leader.script("settle", [step, "done"])
    return True


async def _said(homes: Homes, home: Home, answer: int | bytes) -> bool:
    """Whether it was done; where another step is in the way, that one is settled first if that can be."""
    if isinstance(answer, int):
        return answer == 1
    await settle(homes, home, answer.decode())
    return False


async def settle(homes: Homes, home: Home, step: str, patience: int | None = None) -> None:
    """Ends a step that this home has promised its share of, as was decided; a young one is left to its owner."""
    leader = homes.named(step.split(" ")[0])
    seconds = PATIENCE if patience is None else patience
    verdict = (await leader.script("settle", [step, "ask", seconds])).decode()
    if verdict == "wait":
        await asyncio.sleep(AGAIN)
    elif home is not leader:
        await home.script("settle", [step, verdict])


async def sweep(homes: Homes) -> None:
    """Ends the steps whose owners are gone."""
    if len(homes.all) > 1:
        await homes.each(lambda home: _sweep(homes, home))


async def _sweep(homes: Homes, home: Home) -> None:
    base = home.base
    (now, _), steps, decided = await home.many([
        ("TIME",), ("ZRANGE", f"{base}:promised", 0, SWEPT, "WITHSCORES"), ("HGETALL", f"{base}:decided"),
    ])  # fmt: skip
    for step, at in zip(steps[::2], steps[1::2], strict=True):
        if int(now) - float(at) > PATIENCE:
            await settle(homes, home, step.decode())
    for step, bases in zip(decided[::2], decided[1::2], strict=True):
        for other in bases.decode().split(" ")[1:]:
            await homes.named(other).script("settle", [step, "write"])
        await home.script("settle", [step, "done"])
