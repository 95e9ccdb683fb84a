"""The memory store's verbs of limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...records.limit import LimitGroup, LimitUse, Recount, StoredLimit, limit_key_of
from .handle import MemoryHandle


class MemoryLimits(MemoryHandle):
    """The verbs set_limits, limits, limit_groups and recount_limits."""

    async def set_limits(self, limits: Sequence[StoredLimit], *, removed: Collection[str] = (), now: datetime) -> None:
        with self._locked():
            rows = self._tables.limits.rows
            rows.update({limit.name: limit for limit in limits})
            for name in removed:
                rows.pop(name, None)
        self._new.wake_all()

    async def limits(self) -> list[LimitUse]:
        with self._locked():
            table = self._tables.limits
            return [table.use(limit) for _, limit in sorted(table.rows.items())]

    async def limit_groups(
        self, name: str, *, key: str | None = None, limit: int, count_up_to: int = 10_000
    ) -> list[LimitGroup]:
        with self._locked():
            limit_key = None if key is None else limit_key_of(name, key)
            return self._tables.limits.groups_of(name, limit_key, count_up_to)[:limit]

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        """The tables of groups are indexes of the jobs, so there is nothing to compare."""
        with self._locked():
            self._tables.limits.forget_idle(now)
            return Recount((), None)
