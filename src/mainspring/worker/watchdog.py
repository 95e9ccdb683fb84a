"""Watchdog: reports loops of a worker that make no progress, and store calls that do not return."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ..clock import Clock
from ..errors import MainspringError
from ..ids import WorkerId
from ..store import Store

_logger = logging.getLogger("mainspring")
# Limit of one store call: longer than any store takes to give up by itself.
CALL_SECONDS = 60.0
# Limits of loops whose calls may have much to do.
LONG_CALL_SECONDS: Mapping[str, float] = {"prune": 600.0}


class Watchdog:
    """Records when each loop last made progress and which store calls are open. A loop that has not started is not
    overdue; nor is one that repeats calls because the store fails."""

    def __init__(self, clock: Clock, bounds: Mapping[str, float]) -> None:
        """`bounds`: for each loop, the seconds within which it must make progress."""
        self.clock = clock
        self._bounds = bounds
        self._marked: dict[str, float] = {}
        self.calls: dict[object, tuple[str, str, float]] = {}
        """Open calls: loop, verb and when each began, by a token of its own."""

    def mark(self, loop: str, rest: float = 0.0) -> None:
        """Records progress of the loop, which may then rest for `rest` seconds beyond its bound."""
        self._marked[loop] = self.clock.monotonic() + rest

    @contextmanager
    def call(self, loop: str, verb: str, rest: float = 0.0) -> Iterator[None]:
        """Watches a store call, which may take `rest` seconds beyond its bound."""
        token = object()
        self.calls[token] = loop, verb, self.clock.monotonic() + rest
        try:
            yield
        finally:
            del self.calls[token]

    def store(self, store: Store, loop: str) -> Store:
        """The store for use by that loop, with its calls watched."""
        return cast(Store, WatchedStore(store, self, loop))

    def overdue(self) -> list[str]:
        """A sentence for each loop that makes no progress, or has waited for the store, for longer than its bound."""
        now = self.clock.monotonic()
        still = {loop: now - self._marked[loop] for loop in self._bounds if loop in self._marked}
        turns = [
            f"its {loop} loop has made no progress for {seconds:.0f} s"
            for loop, seconds in still.items()
            if seconds > self._bounds[loop]
        ]
        calls = [
            f"its {loop} loop has waited {now - began:.0f} s for the store to answer {verb}"
            for loop, verb, began in list(self.calls.values())
            if now - began > LONG_CALL_SECONDS.get(loop, CALL_SECONDS)
        ]
        return turns + calls


_VERBS = frozenset(name for name in dir(Store) if inspect.iscoroutinefunction(getattr(Store, name)))


class WatchedStore:
    """A store whose open calls are known to a watchdog."""

    def __init__(self, store: Store, watchdog: Watchdog, loop: str) -> None:
        self._store, self._watchdog, self._loop = store, watchdog, loop

    def __getattr__(self, name: str) -> Any:
        if name not in _VERBS:
            return getattr(self._store, name)
        watched = self._watched(name)
        setattr(self, name, watched)
        return watched

    def _watched(self, name: str) -> Callable[..., Any]:
        store, calls, monotonic = self._store, self._watchdog.calls, self._watchdog.clock.monotonic
        loop, waits = self._loop, name == "wait"

        async def watched(*args: Any, **given: Any) -> Any:
            token = object()  # as in call(), for a fifth of its cost: every store call passes here
            calls[token] = loop, name, monotonic() + (_timeout(args, given) if waits else 0.0)
            try:
                return await getattr(store, name)(*args, **given)
            finally:
                del calls[token]

        return watched


def _timeout(args: Sequence[Any], given: Mapping[str, Any]) -> float:
    """How long a call may wait for changes: the second argument of `wait`."""
    return float(given["timeout"] if "timeout" in given else args[1])


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raises the first error of an exception group in place of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def log_end(worker: WorkerId, main: asyncio.Task[None]) -> None:
    """Logs the error that ends a worker at once, not when its owner stops it."""
    if main.cancelled():
        _logger.error("worker %s ended: code in its event loop has cancelled it, a job perhaps", worker)
        return
    error = main.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        # Messages of our own errors suffice; anything else is a bug, and needs its stack.
        stack = None if isinstance(error, MainspringError) else error
        _logger.error("worker %s ended by %s: %s", worker, type(error).__name__, error, exc_info=stack)
