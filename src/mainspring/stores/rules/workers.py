"""The rows of workers: until when each is alive, and operators' commands for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from ...ids import WorkerId
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow

# A worker that has been silent for longer is forgotten: the next beat of any worker deletes its row.
SILENT_WORKER_RETENTION = timedelta(days=1)


def next_commands(known: WorkerCommands, orders: WorkerCommands, seen: WorkerCommands | None) -> WorkerCommands | None:
    """A worker's commands after new ones. None if its commands are no longer those in `seen`: nothing changes then."""
    if seen is not None and known != seen:
        return None
    return replace(orders, stopped=known.stopped or orders.stopped)


class WorkerTable:
    """Every worker's row by its id; a silent worker stays until SILENT_WORKER_RETENTION is over."""

    def __init__(self, rows: Mapping[WorkerId, WorkerRow] | None = None) -> None:
        self._rows = dict(rows or {})

    def row(self, worker: WorkerId) -> WorkerRow | None:
        return self._rows.get(worker)

    def alive(self, worker: WorkerId, now: datetime) -> bool:
        row = self._rows.get(worker)
        return row is not None and row.until > now

    def live(self, now: datetime) -> list[WorkerRow]:
        return [row for _, row in sorted(self._rows.items()) if row.until > now]

    def beat(self, worker: WorkerInfo, until: datetime, now: datetime) -> WorkerCommands:
        """Writes the worker's row, or deletes it if the worker leaves (`until` is past). Returns its commands."""
        for id in [id for id, row in self._rows.items() if row.until <= now - SILENT_WORKER_RETENTION]:
            del self._rows[id]
        known = self._rows.get(worker.id)
        orders = known.orders if known else WorkerCommands()
        if until > now:
            if known is None or worker.beats >= known.info.beats:
                self._rows[worker.id] = WorkerRow(worker, until, orders)
        else:
            self._rows.pop(worker.id, None)
        return orders

    def set_commands(
        self, workers: Collection[WorkerId] | None, orders: WorkerCommands, now: datetime, seen: WorkerCommands | None
    ) -> list[WorkerId]:
        found = [id for id in sorted(self._rows) if self.alive(id, now) and (workers is None or id in workers)]
        given = {id: new for id in found if (new := next_commands(self._rows[id].orders, orders, seen)) is not None}
        for id, new in given.items():
            self._rows[id] = replace(self._rows[id], orders=new)
        return list(given)
