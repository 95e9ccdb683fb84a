"""Word between the processes that share a Redis store: something came, something ended."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any, Literal

from ...clock import Clock
from ...errors import StoreError
from ...survived_errors import SurvivedErrors
from ..broadcast import Broadcast
from .data_loss import DataLossDetector
from .shard import Shards

_deaf = SurvivedErrors("listener", "changes that others make are found by polling meanwhile")
Word = Literal["new", "final"]

# Seconds until a lost connection is made anew, the first time and at most.
SOONEST, LATEST = 0.1, 10.0
# Seconds of silence after which it is asked whether anybody is there, and in which there must be an answer.
PROBE, ECHO = 30.0, 5.0


class RedisWakeups:
    """What the handles of one process on one store share."""

    def __init__(self, clock: Clock) -> None:
        self._bells: dict[str, Broadcast] = {"new": Broadcast(clock), "final": Broadcast(clock)}
        self.ears: set[object] = set()
        self.epoch = DataLossDetector()

    def bell(self, word: Word) -> Broadcast:
        return self._bells[word]

    def ring(self, *words: str) -> None:
        for word in words:
            self._bells[word].wake_all()


class RedisListener:
    """Listens as well as it can."""

    def __init__(self, homes: Shards, kin: RedisWakeups) -> None:
        self._homes, self._kin = homes, kin
        self._listening: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._words = 0
        self.trouble = ""

    def listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def settled(self, timeout: float) -> bool:
        """Whether it hears, as soon as that is known."""
        self.listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        return self in self._kin.ears

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        self.forget()

    def forget(self) -> None:
        self._turn(False)

    async def _listen(self) -> None:
        wait = SOONEST
        while True:
            try:
                await self._attend()
            except Exception as error:
                _deaf(error)
                self._homes.route.doubt()
                wait = SOONEST if self in self._kin.ears else min(2 * wait, LATEST)
                self._turn(False, str(error) or type(error).__name__)
            await asyncio.sleep(random.uniform(wait / 2, wait))

    async def _attend(self) -> None:
        """Until nothing is heard any more."""
        line = await self._homes.first.listen(self._heard)
        try:
            line.tell("SUBSCRIBE", *(home.base for home in self._homes.all))
            while True:
                before = self._words
                await asyncio.wait([line.lost], timeout=PROBE)
                if self._words == before and not line.lost.done():
                    line.tell("PING")
                    await asyncio.wait([line.lost], timeout=ECHO)
                if line.lost.done() or self._words == before:
                    raise StoreError(line.lost.result() if line.lost.done() else "it says nothing any more")
        finally:
            line.close()

    def _heard(self, answer: Any) -> None:
        self._words += 1
        if not isinstance(answer, list):
            self._turn(False, str(answer))
        elif answer[0] == b"message":
            self._kin.ring(*answer[2].decode().split())
        elif answer[0] == b"subscribe" and self not in self._kin.ears:
            self._turn(True)

    def _turn(self, hears: bool, trouble: str = "") -> None:
        """Whoever waits learns of either: what was said meanwhile was not heard, and from now on looks by itself."""
        self.trouble = trouble
        self._settled.set()
        if hears or self in self._kin.ears:
            (self._kin.ears.add if hears else self._kin.ears.discard)(self)
            self._kin.ring("new", "final")
