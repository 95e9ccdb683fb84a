"""A link: one process's way to the store, which may be slow, lossy or cut. The store itself is never at fault."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, cast

from mainspring.errors import StoreUnavailable
from mainspring.store import Keeper, Store

from .host import Host
from .ledger import Ledger

Verb = Callable[[], Awaitable[Any]]

# What is kept for the service has no part in a plan: how often somebody looks at it must not change what a seed means.
# Nor has what workers count to keep it: the depth of queues, and the job in each that is due first.
SERVES = "serves"
SERVICE = frozenset({"queues", *(name for name in vars(Keeper) if not name.startswith("_"))})

# Seconds after which a caller gives up a request that has not arrived.
DEADLINE = 5.0
# The least and the most a message takes on a good day, in seconds.
NEAR, FAR = 0.0005, 0.05


class Link:
    """A store for one host. A call may fail before the store hears of it, after it was done, or long before it is done.

    Messages under way belong to the world: neither a crash nor a freeze of their sender stops them.
    """

    def __init__(self, host: Host, ledger: Ledger, chance: Random) -> None:
        self._host = host
        self._ledger = ledger
        self._chance = chance
        self._given_up: list[asyncio.Task[None]] = []
        self.far = FAR
        """The most a message takes now."""
        self.loss = 0.0
        """The share of calls that fail now: half of them before they are done, half after."""
        self.cut = False
        self.hangs = False
        """Calls over a cut link fail after the deadline; otherwise at once."""
        self.ambush: str | None = None
        """Where in its next firing the process crashes."""
        self.crash: Callable[[], None] = host.crash

    @property
    def good(self) -> bool:
        return self.far == FAR and not self.loss and not self.cut

    def heal(self) -> None:
        self.far, self.loss, self.cut = FAR, 0.0, False

    def clear(self) -> None:
        """Healthy, and nothing old is under way."""
        self.heal()
        self.ambush = None
        for message in self._given_up:
            message.cancel()

    def store(self) -> Store:
        return cast(Store, self)

    def beside(self) -> Store:
        return self.store()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ledger, name)
        if not inspect.iscoroutinefunction(verb):
            return verb
        return lambda *args, **given: self._call(_part(name, given), lambda: verb(*args, **given))

    async def _call(self, name: str, verb: Verb) -> Any:
        await self._host.awake()
        if name == SERVES:
            return await verb()
        if name == "fire" and self.ambush is not None and not self.cut:
            return await self._crashing(self.ambush, verb)
        fails = self._chance.random() < self.loss
        arrives = not fails or self._chance.random() < 0.5
        there, back = self._chance.uniform(NEAR, self.far), self._chance.uniform(NEAR, self.far)
        if there > DEADLINE:
            self._given_up.append(asyncio.create_task(self._arrive(there, name, verb)))
            await self._host.world.sleep(DEADLINE)
            return await self._fail(name, "no answer in time")
        await self._host.world.sleep(there)
        if self.cut or not arrives:
            return await self._fail(name, "the store was not reached")
        answer = await self._do(name, verb)
        await self._host.world.sleep(back)
        if self.cut or fails:
            return await self._fail(name, "the reply was lost")
        await self._host.awake()
        return answer

    async def _crashing(self, point: str, verb: Verb) -> Any:
        self.ambush = None
        self._ledger.crashes(self._host.name, f"crashes at a firing, {point}")
        answer = None if point == "before" else await self._do("fire", verb)
        if point == "after":
            self._host.clock.call_later(0, self.crash)
        else:
            self.crash()
        await self._host.awake()
        return answer

    async def _arrive(self, seconds: float, name: str, verb: Verb) -> None:
        await self._host.world.sleep(seconds)
        if not self.cut:
            await self._do(name, verb)

    async def _do(self, name: str, verb: Verb) -> Any:
        self._ledger.by = (self._host.name, name)
        return await verb()

    async def _fail(self, name: str, why: str) -> None:
        if self.cut and self.hangs:
            await self._host.world.sleep(DEADLINE)
        await self._host.awake()
        raise StoreUnavailable(f"{name}: {why}")


def _part(name: str, given: Mapping[str, Any]) -> str:
    """The verb as the plan knows it."""
    return SERVES if name in SERVICE or (name == "jobs" and given.get("sort") == "due") else name
