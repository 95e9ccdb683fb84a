"""The memory store's verbs for operators: jobs, queues and workers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ...ids import JobId, WorkerId
from ...records.job import Action
from ...records.query import Changed, Filter, Updates
from ...records.worker import WorkerCommands
from ..rules.change import change
from .handle import MemoryHandle


class MemoryOperators(MemoryHandle):
    """The verbs of operators."""

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        with self._locked():
            matching = self._tables.jobs.matching(which, now)
            chosen = [job for job in matching if after is None or job.id > after][:limit]
            done, refused = change(self._tables, action, chosen, now, reason, update)
            if self._tables.flow_changes.noted:
                self._settle()
        self._new.wake_all()
        self._final.wake_all()
        return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)

    async def pause_queue(self, name: str, paused: bool) -> None:
        with self._locked():
            (self._paused.add if paused else self._paused.discard)(name)
        self._new.wake_all()

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        with self._locked():
            return self._tables.workers.set_commands(workers, commands, now, seen)
