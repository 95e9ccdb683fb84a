"""The PostgreSQL store's workers: their beats and commands, and the runs of silent workers.

The statements are in workers.sql.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from ...clock import instant, micros
from ...errors import StoreError
from ...ids import JobId, Lease, WorkerId
from ...records.job import Job
from ...records.unreadable import readable
from ...records.worker import BeatReply, WorkerCommands, WorkerInfo, WorkerRow
from ...survived_errors import SurvivedErrors
from ..rows import COLUMNS, Row, job_of
from ..rules import SILENT_WORKER_RETENTION, next_commands
from .beat_findings import finds_work
from .claim import set_aside
from .feed import WATCHED
from .partitions import PostgresPartitions
from .pool import Session
from .schema import check_schema
from .statement_file import read_statements
from .tally import fold_counts

_fold_errors = SurvivedErrors("tally", "the next beat sums up the runs")
_encode = msgspec.json.encode
_decode_commands = msgspec.json.Decoder(WorkerCommands).decode
_decode_runs = msgspec.json.Decoder(list[tuple[JobId, Lease, str | None]]).decode
_decode_info = msgspec.json.Decoder(WorkerInfo).decode

_SQL = read_statements("workers.sql", columns=COLUMNS, watched=WATCHED)
_BEAT = _SQL.statement("beat")
_END_WORKER = _SQL.statement("end_worker")
_ORPHANED_RUNS = _SQL.statement("orphaned_runs")
_LOCK_ORDERS = _SQL.statement("lock_orders")
_SET_ORDERS = _SQL.statement("set_orders")
_LIVE_WORKERS = _SQL.statement("live_workers")


class PostgresWorkers(PostgresPartitions):
    """The verbs on workers."""

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        silent = micros(now - SILENT_WORKER_RETENTION)
        if until <= now:
            row = await self._hot(lambda db: db.row(_END_WORKER, worker.id, silent))
            reply, has_counts = _reply_of(row), True
        else:
            values = worker.id, silent, micros(until), _encode(worker).decode(), micros(now), self._migrations.newest
            row = await self._hot(lambda db: db.row(_BEAT, *values))
            check_schema(row["version"], row["oldest"], self._migrations)
            reply, has_counts = _reply_of(row), row["counts"]
            if self._wakeups.listening:
                self._wakeups.count_workers(row["live_workers"])
                reply = replace(reply, lost=row["lost"], webhooks=row["webhooks"])
                if row["due"] or await self._hot(lambda db: finds_work(db, worker, now)):
                    self._wakeups.wake("new")
        if has_counts:
            with _fold_errors.survive(StoreError):
                await self._transact(fold_counts)
        if now >= self._create_partitions_at:
            with self._clock.outside():
                await self._create_partitions(self._open(), now, 1)  # one only, so that the next beat is not late
        return reply

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        rows = await self._call(lambda db: db.rows(_ORPHANED_RUNS, micros(now), limit))
        jobs = [job_of(row) for row in rows]
        if broken := [job.id for job in jobs if job.unreadable]:
            await self._transact(lambda db: set_aside(db, broken))
        return [job for job in jobs if not job.unreadable]

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._transact(lambda db: _set_commands(db, workers, commands, micros(now), seen))

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        rows = await self._call(lambda db: db.rows(_LIVE_WORKERS, micros(now)))
        return readable("worker", [(row[0], row) for row in rows], _worker_row)


def _reply_of(row: Any) -> BeatReply:
    """The worker's runs, their cancel reasons and its commands."""
    runs = [] if row["runs"] is None else _decode_runs(row["runs"])
    cancels = {id: reason for id, _, reason in runs if reason is not None}
    watched_until = None if row["watched"] is None else instant(row["watched"])
    commands = _commands_of(row["orders"])
    return BeatReply({id: lease for id, lease, _ in runs}, cancels, commands, watched_until=watched_until)


async def _set_commands(
    db: Session, workers: Collection[WorkerId] | None, orders: WorkerCommands, now: int, seen: WorkerCommands | None
) -> list[WorkerId]:
    """Stores commands for live workers (all if `workers` is None); returns their ids. Runs inside a transaction."""
    rows = await db.rows(_LOCK_ORDERS, now, None if workers is None else list(workers))
    given = {id: new for id, text in rows if (new := next_commands(_commands_of(text), orders, seen)) is not None}
    if given:
        await db.run(_SET_ORDERS, list(given), [_encode(new).decode() for new in given.values()])
    return sorted(given)


def _commands_of(text: str | None) -> WorkerCommands:
    """The commands of a worker; none if they cannot be decoded."""
    found = [] if text is None else readable("orders of worker", [("", text)], _decode_commands)
    return found[0] if found else WorkerCommands()


def _worker_row(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_decode_info(info), instant(until), _commands_of(orders))
