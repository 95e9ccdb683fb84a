"""Vigil: whether a worker's loops still turn, and whether the store answers each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ..clock import Clock
from ..store import Store

# Seconds that one call of the store may take: more than any store takes until it gives up by itself.
CALL_SECONDS = 60.0
# Where one call may have much to do.
LONG_CALL_SECONDS: Mapping[str, float] = {"prune": 600.0}
# Verbs that wait for news until a timeout, which is their second argument.
_WAITS = ("wait", "wait_final")


class Watchdog:
    """Knows when each loop turned last, and which calls of the store have not returned. A loop that has not begun to
    turn is not late, and neither is one that repeats calls because the store fails."""

    def __init__(self, clock: Clock, bounds: Mapping[str, float]) -> None:
        """`bounds`: how many seconds each loop may take to turn."""
        self._clock = clock
        self._bounds = bounds
        self._turned: dict[str, float] = {}
        self._calls: dict[object, tuple[str, str, float]] = {}

    def turn(self, loop: str, rest: float = 0.0) -> None:
        """It has turned, and may rest for so many seconds beyond its bound before it turns again."""
        self._turned[loop] = self._clock.monotonic() + rest

    @contextmanager
    def call(self, loop: str, verb: str, rest: float = 0.0) -> Iterator[None]:
        """A call of the store, which may take `rest` seconds beyond its bound."""
        token = object()
        self._calls[token] = loop, verb, self._clock.monotonic() + rest
        try:
            yield
        finally:
            del self._calls[token]

    def store(self, store: Store, loop: str) -> Store:
        """The store as that loop uses it: its calls are watched."""
        return cast(Store, WatchedStore(store, self, loop))

    def late(self) -> list[str]:
        """A sentence for each loop that has stood still, or waited for the store, for longer than it may."""
        now = self._clock.monotonic()
        still = {loop: now - self._turned[loop] for loop in self._bounds if loop in self._turned}
        turns = [
            f"its {loop} loop has not turned for {seconds:.0f} s"
            for loop, seconds in still.items()
            if seconds > self._bounds[loop]
        ]
        calls = [
            f"its {loop} loop has waited {now - began:.0f} s for the store to answer {verb}"
            for loop, verb, began in list(self._calls.values())
            if now - began > LONG_CALL_SECONDS.get(loop, CALL_SECONDS)
        ]
        return turns + calls


class WatchedStore:
    """A store whose calls a vigil knows of until they return."""

    def __init__(self, store: Store, vigil: Watchdog, loop: str) -> None:
        self._store, self._vigil, self._loop = store, vigil, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return self._watched(name, value) if inspect.iscoroutinefunction(getattr(Store, name, None)) else value

    def _watched(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*args: Any, **given: Any) -> Any:
            with self._vigil.call(self._loop, name, _timeout(name, args, given)):
                return await verb(*args, **given)

        return watched


def _timeout(name: str, args: Sequence[Any], given: Mapping[str, Any]) -> float:
    if name not in _WAITS:
        return 0.0
    return float(given["timeout"] if "timeout" in given else args[1])
