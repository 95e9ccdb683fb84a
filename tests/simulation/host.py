"""A host: a process with a clock of its own, which can freeze or crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from .loop import TrueClock


class Host:
    """A process that can be frozen. All it does waits for its clock or for its link, so both stop while it is frozen.

    A crash is a freeze that never ends: nothing is cleaned up, and messages already sent still arrive.
    """

    def __init__(self, name: str, world: TrueClock, *, skew: float = 0.0, drift: float = 0.0) -> None:
        self.name = name
        self.world = world
        self.clock = HostClock(self, skew, drift)
        self.dead = False
        self.woke_at = -1.0
        """True time of the last thaw."""
        self._until = 0.0
        self._going = asyncio.Event()
        self._going.set()
        self._held: list[HostTimer] = []

    @property
    def frozen(self) -> bool:
        return not self._going.is_set()

    def freeze(self) -> None:
        self._going.clear()

    def freeze_for(self, seconds: float) -> None:
        """Freezes for `seconds`, and at least until the end of any earlier freeze."""
        self._until = max(self._until, self.world.monotonic() + seconds)
        self.freeze()

    @property
    def may_thaw(self) -> bool:
        return self.world.monotonic() >= self._until

    def crash(self) -> None:
        self.dead = True
        self.freeze()

    def thaw(self) -> None:
        """Goes on: timers that came due meanwhile fire now, in order."""
        if self.frozen and not self.dead:
            self.woke_at = self.world.monotonic()
            self._going.set()
            held, self._held = self._held, []
            for timer in held:
                timer.fire()

    async def awake(self) -> None:
        await self._going.wait()

    def due(self, timer: HostTimer) -> None:
        if self.frozen:
            self._held.append(timer)
        else:
            timer.fire()


class HostTimer:
    """A timer that does not fire while its host is frozen."""

    __slots__ = ("_act", "_handle")

    def __init__(self, host: Host, seconds: float, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act
        self._handle = host.world.call_later(seconds, lambda: host.due(self))

    def fire(self) -> None:
        if self._act is not None:
            self._act()

    def cancel(self) -> None:
        self._act = None
        self._handle.cancel()


class HostClock:
    """A wrong clock: off by `skew` seconds at first, and faster than true time by the factor `1 + drift`."""

    real = False

    def __init__(self, host: Host, skew: float, drift: float) -> None:
        self._host = host
        self._world = host.world
        self._skew = timedelta(seconds=skew)
        self._drift = drift

    def now(self) -> datetime:
        ahead = self._drift * self._world.monotonic()
        return self._world.now() + self._skew + timedelta(seconds=ahead)

    def monotonic(self) -> float:
        return self._world.monotonic() * (1 + self._drift)

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, act: Callable[[], object]) -> HostTimer:
        return HostTimer(self._host, seconds / (1 + self._drift), act)

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return self._world.outside(task=task)
