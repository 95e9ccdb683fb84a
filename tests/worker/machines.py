"""Machines of one test: each has its own wall clock and can be frozen; they share one time and one store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from mainspring import Mainspring
from mainspring.clock import Timer
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, Recorder, VirtualClock


class MachineClock:
    """A view of the virtual clock: `wrong` is added to its instants; while it is frozen no timer fires."""

    real = False

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._held_back: list[Callable[[], object]] = []
        self.wrong = timedelta(0)
        self.frozen = False

    def now(self) -> datetime:
        return self._clock.now() + self.wrong

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def outside(self, *, task: bool = False) -> AbstractContextManager[None]:
        return self._clock.outside(task=task)

    async def sleep(self, seconds: float) -> None:
        await VirtualClock.sleep(self, seconds)  # type: ignore[arg-type]

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        timer = self._clock.call_later(seconds, lambda: self._held_back.append(go) if self.frozen else go())
        cancelled = False

        def go() -> None:
            if not cancelled:
                act()

        class Cancel:
            def cancel(self) -> None:
                nonlocal cancelled
                cancelled = True
                timer.cancel()

        return Cancel()

    def thaw(self) -> None:
        self.frozen = False
        held_back, self._held_back = self._held_back, []
        for act in held_back:
            act()


class Machine:
    """One process: an app with its own clock and its own way to the store, which can fail."""

    def __init__(self, store: Any, clock: VirtualClock, **settings: Any) -> None:
        self.clock = MachineClock(clock)
        self.faults = Faults()
        self.app = Mainspring(FaultStore(store, self.faults), clock=self.clock, **settings)  # type: ignore[arg-type]
        self.recorder = Recorder(self.app)


def machines(count: int, url: str, clock: VirtualClock, **settings: Any) -> list[Machine]:
    """All share one memory store; of a file each opens its own handle."""
    shared = open_store(url, clock=clock, durability="relaxed")
    rest = count - 1
    stores = [shared] * rest if url == "memory://" else [open_store(url, clock=clock) for _ in range(rest)]
    return [Machine(store, clock, **settings) for store in (shared, *stores)]
