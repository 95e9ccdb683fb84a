"""Word between the processes that share a Redis store: something came, something ended."""

from __future__ import annotations

import asyncio
import random
from typing import Literal

from ...clock import Clock
from ...errors import StoreError
from ..bell import Bell
from .epoch import Epoch
from .home import Homes

Word = Literal["new", "final"]

# Seconds until a lost connection is made anew, the first time and at most.
SOONEST, LATEST = 0.1, 10.0
# Seconds of silence after which it is asked whether anybody is there, and in which there must be an answer.
PROBE, ECHO = 30.0, 5.0


class Kin:
    """What the handles of one process on one store share."""

    def __init__(self, clock: Clock) -> None:
        self._bells: dict[str, Bell] = {"new": Bell(clock), "final": Bell(clock)}
        self.ears: set[object] = set()
        self.epoch = Epoch()

    def bell(self, word: Word) -> Bell:
        return self._bells[word]

    def ring(self, *words: str) -> None:
        for word in words:
            self._bells[word].ring()


class Ear:
    """Listens as well as it can."""

    def __init__(self, homes: Homes, kin: Kin) -> None:
        self._homes, self._kin = homes, kin
        self._listening: asyncio.Task[None] | None = None
        self.trouble = ""

    def listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def close(self) -> None:
        while self._listening is not None and not self._listening.done():
            self._listening.cancel()  # which the driver may swallow while it connects
            await asyncio.wait([self._listening], timeout=0.1)
        self.forget()

    def forget(self) -> None:
        self._turn(False)

    async def _listen(self) -> None:
        wait, me = SOONEST, asyncio.current_task()
        while True:
            try:
                await self._attend()
            except Exception as error:
                if me is not None and me.cancelling():  # and the driver failed while it tidied up
                    raise asyncio.CancelledError from error
                self._homes.route.doubt()
                wait = SOONEST if self in self._kin.ears else min(2 * wait, LATEST)
                self._turn(False, str(error) or type(error).__name__)
            await asyncio.sleep(random.uniform(wait / 2, wait))

    async def _attend(self) -> None:
        listener = await self._homes.first.listener()
        try:
            await listener.subscribe(*(home.base for home in self._homes.all))
            self._turn(True)
            while True:
                message = await listener.get_message(timeout=PROBE)
                if message is None:
                    await listener.ping()
                    message = await listener.get_message(timeout=ECHO)
                if message is None:
                    raise StoreError("the listening connection says nothing any more")
                if message["type"] == "message":
                    self._kin.ring(*message["data"].decode().split())
        finally:
            await listener.aclose()

    def _turn(self, hears: bool, trouble: str = "") -> None:
        """Whoever waits learns of either: what was said meanwhile was not heard, and from now on looks by itself."""
        self.trouble = trouble
        if hears or self in self._kin.ears:
            (self._kin.ears.add if hears else self._kin.ears.discard)(self)
            self._kin.ring("new", "final")
