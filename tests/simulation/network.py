"""The network: a link from one process to the store, which may be slow, lossy or cut."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, cast

from mainspring.errors import StoreUnavailable
from mainspring.store import AuditStore, DocumentStore, FeedStore, Store

from .audited_store import AuditedStore
from .host import Host

Verb = Callable[[], Awaitable[Any]]

# Verbs for documents, audit, feed and queue depths bypass the faults: how often they are called must not change what a
# seed means.
BYPASS = "bypass"
BYPASS_VERBS = frozenset(
    {"overview"}
    | {name for facet in (DocumentStore, AuditStore, FeedStore) for name in vars(facet) if not name.startswith("_")}
)

# A caller gives up a request that has not arrived after this time.
DEADLINE_SECONDS = 5.0
# Delay of a message on a healthy link.
MIN_DELAY_SECONDS = 0.0005
MAX_DELAY_SECONDS = 0.05


class Link:
    """The store as one host sees it. A call may fail before it reaches the store, while it is under way, or when done.

    Messages under way arrive even if their sender crashes or freezes. The store itself never fails.
    """

    def __init__(self, host: Host, store: AuditedStore, chance: Random) -> None:
        self._host = host
        self._store = store
        self._chance = chance
        self._late_requests: list[asyncio.Task[None]] = []
        self.max_delay = MAX_DELAY_SECONDS
        """The present maximum delay of a message, in seconds."""
        self.loss = 0.0
        """Share of calls that fail: half of them before they are done, half after."""
        self.cut = False
        self.hangs = False
        """Whether calls over a cut link fail after the deadline instead of at once."""
        self.crash_point: str | None = None
        """The point of its next firing at which the process crashes; None if it does not."""
        self.crash: Callable[[], None] = host.crash

    @property
    def healthy(self) -> bool:
        return self.max_delay == MAX_DELAY_SECONDS and not self.loss and not self.cut

    def heal(self) -> None:
        self.max_delay, self.loss, self.cut = MAX_DELAY_SECONDS, 0.0, False

    def clear(self) -> None:
        """Heals the link and drops late requests."""
        self.heal()
        self.crash_point = None
        for message in self._late_requests:
            message.cancel()

    def store(self) -> Store:
        return cast(Store, self)

    def clone(self) -> Store:
        return self.store()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb
        return lambda *args, **given: self._call(_verb_name(name, args, given), lambda: verb(*args, **given))

    async def _call(self, name: str, verb: Verb) -> Any:
        await self._host.awake()
        if name == BYPASS:
            return await verb()
        if name == "fire" and self.crash_point is not None and not self.cut:
            return await self._crash_at(self.crash_point, verb)
        fails = self._chance.random() < self.loss
        arrives = not fails or self._chance.random() < 0.5
        there, back = (self._chance.uniform(MIN_DELAY_SECONDS, self.max_delay) for _ in range(2))
        if there > DEADLINE_SECONDS:
            self._late_requests.append(asyncio.create_task(self._deliver_late(there, name, verb)))
            await self._host.world.sleep(DEADLINE_SECONDS)
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

    async def _crash_at(self, point: str, verb: Verb) -> Any:
        self.crash_point = None
        self._store.note_crash(self._host.name, f"crashes at a firing, {point}")
        answer = None if point == "before" else await self._do("fire", verb)
        if point == "after":
            self._host.clock.call_later(0, self.crash)
        else:
            self.crash()
        await self._host.awake()
        return answer

    async def _deliver_late(self, seconds: float, name: str, verb: Verb) -> None:
        await self._host.world.sleep(seconds)
        if not self.cut:
            await self._do(name, verb)

    async def _do(self, name: str, verb: Verb) -> Any:
        self._store.by = (self._host.name, name)
        answer = await verb()
        self._store.verb_ended()
        return answer

    async def _fail(self, name: str, why: str) -> None:
        if self.cut and self.hangs:
            await self._host.world.sleep(DEADLINE_SECONDS)
        await self._host.awake()
        raise StoreUnavailable(f"{name}: {why}")


def _verb_name(name: str, args: Sequence[Any], given: Mapping[str, Any]) -> str:
    """The name of the verb; BYPASS for those without faults, and for `wait` without a timeout, which asks no store."""
    local = name == "wait" and not args[1]
    return BYPASS if local or name in BYPASS_VERBS or (name == "jobs" and given.get("sort") == "due") else name
