"""Verbs as the memory store's functions do them, on a part of the data."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from ...clock import micros
from .changes import changes
from .home import Homes
from .index import Arguments
from .known import Known, load
from .part import Part, Wanted
from .step import commit

T = TypeVar("T")

# Seconds at most until a verb is played again that somebody else was quicker than: the first time, and ever.
SOONEST, LATEST = 0.0005, 0.05


async def play(
    homes: Homes,
    verb: Callable[[Part], T],
    now: datetime,
    prepare: Callable[[Known], Awaitable[None]],
    word: str = "new final",
) -> T:
    """The verb's answer, once what it changed is written. It is played as often as it asks for more than was prepared,
    or as somebody else was quicker."""
    wait = SOONEST
    while True:
        known = Known()
        await prepare(known)
        answer, commands = await _played(homes, verb, now, known)
        if not commands or await commit(homes, known.expected(homes), commands, word):
            return answer
        await asyncio.sleep(random.uniform(0, wait))
        wait = min(2 * wait, LATEST)


async def _played(homes: Homes, verb: Callable[[Part], T], now: datetime, known: Known) -> tuple[T, list[Arguments]]:
    while True:
        try:
            part = Part(known)
            answer = verb(part)
            return answer, list(changes(homes, part, micros(now)))
        except Wanted as wanted:
            await load(homes, known, wanted.kind, [wanted.name])
