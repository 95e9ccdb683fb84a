"""Injected faults: in store verbs and in tasks, by count, by rate or by a rule of your own."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from typing import Any, Literal, cast

from ..errors import StoreUnavailable
from ..middleware import Next
from ..store import Store
from ..task.context import Context

Moment = Literal["before", "after"]
Rule = Callable[[], bool]


class Fault(StoreUnavailable):
    """An injected failure. It is a StoreUnavailable, so callers of a store retry the call."""


class Faults:
    """Fault rules by the name of a store verb ("claim") or of a task ("send_email"). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[tuple[str, Rule, Moment, Callable[[], BaseException]]] = []
        self.injected: list[str] = []
        """The name of each fault that was raised, in order."""

    def fail(
        self,
        name: str,
        *,
        times: int = 1,
        after: int = 0,
        moment: Moment = "before",
        error: Callable[[], BaseException] | None = None,
    ) -> None:
        """Fails `times` calls, after `after` calls that pass.

        With moment="after" the call is done first, and its reply is lost.
        """
        left = iter([False] * after + [True] * times)
        self.when(name, lambda: next(left, False), moment=moment, error=error)

    def rate(
        self,
        name: str,
        share: float,
        *,
        seed: int,
        moment: Moment = "before",
        error: Callable[[], BaseException] | None = None,
    ) -> None:
        """Fails this share of the calls (0 to 1); the same calls for the same seed."""
        chance = random.Random(seed)
        self.when(name, lambda: chance.random() < share, moment=moment, error=error)

    def when(
        self, name: str, rule: Rule, *, moment: Moment = "before", error: Callable[[], BaseException] | None = None
    ) -> None:
        """Fails the calls for which `rule()` returns True; it is called once per call."""
        self._rules.append((name, rule, moment, error or (lambda: Fault(f"injected into {name}"))))

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def draw(self, name: str) -> tuple[Moment, BaseException] | None:
        with self._lock:
            for named, rule, moment, error in self._rules:
                if named == name and rule():
                    self.injected.append(name)
                    return moment, error()
        return None

    async def around(self, name: str, act: Callable[[], Any]) -> Any:
        fault = self.draw(name)
        if fault is not None and fault[0] == "before":
            raise fault[1]
        value = await act()
        if fault is not None:
            raise fault[1]
        return value

    async def middleware(self, ctx: Context, call_next: Next) -> Any:
        """Injects faults into tasks: Mainspring(..., middleware=[faults.middleware])."""
        return await self.around(ctx.job.task, lambda: call_next(ctx))


class FaultStore:
    """Wraps a store and injects faults into its verbs."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    def clone(self) -> Store:
        inner = self._store.clone()
        return cast(Store, self if inner is self._store else FaultStore(inner, self._faults))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *args, **kwargs: self._faults.around(name, lambda: value(*args, **kwargs))
