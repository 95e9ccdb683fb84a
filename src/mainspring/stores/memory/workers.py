"""The memory store's table of workers: until when each is alive, and operators' commands for it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from msgspec.structs import replace

from ...ids import WorkerId
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow
from ..rules import SILENT_WORKER_RETENTION, next_commands


class WorkerTable(dict[WorkerId, WorkerRow]):
    """Every worker's row by its id; a silent worker stays until SILENT_WORKER_RETENTION is over."""

    def alive(self, worker: WorkerId, now: datetime) -> bool:
        row = self.get(worker)
        return row is not None and row.until > now

    def live(self, now: datetime) -> list[WorkerRow]:
        return [row for _, row in sorted(self.items()) if row.until > now]

    def beat(self, worker: WorkerInfo, until: datetime, now: datetime) -> WorkerCommands:
        """Writes the worker's row, or deletes it if the worker leaves (`until` is past). Returns its commands."""
        for id in [id for id, row in self.items() if row.until <= now - SILENT_WORKER_RETENTION]:
            del self[id]
        known = self.get(worker.id)
        orders = known.orders if known else WorkerCommands()
        if until > now:
            if known is None or worker.beats >= known.info.beats:
                self[worker.id] = WorkerRow(worker, until, orders)
        else:
            self.pop(worker.id, None)
        return orders

    def set_commands(
        self, workers: Collection[WorkerId] | None, orders: WorkerCommands, now: datetime, seen: WorkerCommands | None
    ) -> list[WorkerId]:
        found = [id for id in sorted(self) if self.alive(id, now) and (workers is None or id in workers)]
        given = {id: new for id in found if (new := next_commands(self[id].orders, orders, seen)) is not None}
        for id, new in given.items():
            self[id] = replace(self[id], orders=new)
        return list(given)
