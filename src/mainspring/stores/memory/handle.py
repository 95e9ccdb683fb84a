"""What every verb of the memory store uses: its tables, its lock, and the wake-ups of waiters."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from datetime import datetime

from ...clock import Clock, SystemClock
from ...errors import ShuttingDown
from ...store import Capabilities
from ..broadcast import Broadcast
from ..rules.flows import settle_flows
from .tables import MemoryTables


class MemoryHandle:
    """One lock makes every verb atomic, in any thread or event loop."""

    capabilities = Capabilities(store="the memory store", in_process=True, flows=True, limits=True, carries_on=True)

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._closed = False
        self._tables = MemoryTables()
        self._paused: set[str] = set()
        # Until when a reader watches the feed: each beat tells it.
        self._watched: datetime | None = None
        self._new, self._final = Broadcast(self._clock), Broadcast(self._clock)

    def _locked(self) -> AbstractContextManager[object]:
        """The store's lock. Raises ShuttingDown if the store is closed."""
        if self._closed:
            self._check()
        return self._lock

    def _settle(self) -> None:
        """Applies what a verb did to the jobs of flows. Called under the lock."""
        for _ in settle_flows(self._tables):
            raise AssertionError("memory has every value at hand")

    def _check(self) -> None:
        if self._closed:
            raise ShuttingDown("the memory store is closed")
