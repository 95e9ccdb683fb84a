"""The memory store's verbs on schedules and leader terms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...clock import Clock
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ..rules.fire import fire_one
from .handle import MemoryHandle
from .term_table import TermTable


class MemorySchedules(MemoryHandle):
    """The verbs on schedules and leader terms."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._terms = TermTable()

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        with self._locked():
            return self._tables.schedules.due(now, limit, computed)

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        with self._locked():
            fired = [fire_one(self._tables, firing, now) for firing in firings]
            if self._tables.flow_changes.noted:
                self._settle()
        self._new.wake_all()
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        with self._locked():
            return self._tables.schedules.drop(names)

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        with self._locked():
            return self._tables.schedules.schedules(names, limit, after)

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        with self._locked():
            return self._tables.schedules.ticks(name, limit, before)

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        with self._locked():
            answer = self._terms.acquire(name, holder, until, now)
        if answer.holder is None:
            self._new.wake_all()
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        with self._locked():
            return self._terms.held(now)
