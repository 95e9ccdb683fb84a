"""The memory store: the Store contract as plain Python, lost with the process."""

from __future__ import annotations

from datetime import datetime

from ...errors import BadInput
from ...records.finding import Finding
from ...records.schema import Schema
from ...store import Listening, Store, Topic
from .feed import MemoryFeed
from .flows import MemoryFlows
from .jobs import MemoryJobs
from .limits import MemoryLimits
from .operators import MemoryOperators
from .queries import MemoryQueries
from .retention import MemoryRetention
from .schedules import MemorySchedules


class MemoryStore(
    MemoryJobs,
    MemoryFlows,
    MemoryLimits,
    MemorySchedules,
    MemoryOperators,
    MemoryQueries,
    MemoryRetention,
    MemoryFeed,
):
    """The executable specification of the contract."""

    async def open(self, *, migrate: bool = True) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    def clone(self) -> Store:
        return self

    async def schema(self) -> Schema:
        self._check()
        return Schema(1, 1, 1)

    async def migrate(self, target: int | None = None) -> list[int]:
        self._check()
        if target not in (None, 1):
            raise BadInput(f"the memory store has one schema, 1; cannot migrate to {target}")
        return []

    async def time(self) -> datetime:
        self._check()
        return self._clock.now()

    async def diagnose(self) -> list[Finding]:
        self._check()
        return [Finding("memory", "warn", "jobs are lost with this process", "sqlite:///jobs.db keeps them in a file")]

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._check()
        return await (self._new if topic == "claimable" else self._final).wait(timeout, seen)

    @property
    def listening(self) -> Listening:
        return "off"
