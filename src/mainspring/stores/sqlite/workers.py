"""The SQLite store's rows of workers: their beats, and operators' commands for them.

A beat repeats the rule rules.workers.WorkerTable.beat, and test_twin.py compares the two.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from datetime import datetime

import msgspec

from ...clock import instant, micros
from ...ids import WorkerId
from ...records.unreadable import readable
from ...records.worker import BeatReply, WorkerCommands, WorkerInfo, WorkerRow
from ..rows import HELD_INDEX_SQL, Row
from ..rules import SILENT_WORKER_RETENTION, next_commands
from . import file
from .feed import watched
from .handle import SqliteHandle

_encode = msgspec.json.encode
_decode_info = msgspec.json.Decoder(WorkerInfo).decode
_decode_commands = msgspec.json.Decoder(WorkerCommands).decode

_BEAT = """INSERT INTO mainspring_workers (id, until, info) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET until = iif({late}, until, excluded.until), info = iif({late}, info, excluded.info)
    RETURNING orders""".format(
    late="json_valid(info) AND json_extract(info, '$.beats') > json_extract(excluded.info, '$.beats')"
)
_RUNS_OF_WORKER = (
    f"SELECT id, lease, cancel_reason FROM mainspring_jobs WHERE {HELD_INDEX_SQL} AND state = 'running' AND worker = ?"
)
_LIVE = "SELECT id, info, until, orders FROM mainspring_workers WHERE until > :now ORDER BY id"


class SqliteWorkers(SqliteHandle):
    """The verbs beat, workers and command_workers."""

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        def beating(db: sqlite3.Connection) -> BeatReply:
            if until > now:
                file.check_schema(db, self._migrations)
                file.check_same_file(*self._file_identity)
            return _beat(db, worker, micros(until), micros(now))

        return await self._write(beating)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        rows = await self._read(lambda db: db.execute(_LIVE, {"now": micros(now)}).fetchall())
        return readable("worker", [(row[0], row) for row in rows], _worker_row)

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        return await self._write(lambda db: _set_commands(db, workers, commands, micros(now), seen))


def _worker_row(row: Row) -> WorkerRow:
    _, info, until, orders = row
    return WorkerRow(_decode_info(info), instant(until), _commands_of(orders))


def _beat(db: sqlite3.Connection, worker: WorkerInfo, until: int, now: int) -> BeatReply:
    """Extends the worker's life to `until`, or ends it. Returns its runs, their cancel reasons and its commands."""
    db.execute(
        "DELETE FROM mainspring_workers WHERE until <= ?", (now - round(SILENT_WORKER_RETENTION.total_seconds() * 1e6),)
    )
    if until > now:
        row = db.execute(_BEAT, (worker.id, until, _encode(worker).decode())).fetchone()
    else:
        row = db.execute("DELETE FROM mainspring_workers WHERE id = ? RETURNING orders", (worker.id,)).fetchone()
    runs = db.execute(_RUNS_OF_WORKER, (worker.id,)).fetchall()
    cancels = {id: reason for id, _, reason in runs if reason is not None}
    leases = {id: lease for id, lease, _ in runs}
    return BeatReply(leases, cancels, _commands_of(row and row[0]), watched_until=watched(db))


def _commands_of(text: str | None) -> WorkerCommands:
    """The commands of a worker; none if they cannot be decoded."""
    found = [] if text is None else readable("orders of worker", [("", text)], _decode_commands)
    return found[0] if found else WorkerCommands()


def _set_commands(
    db: sqlite3.Connection,
    workers: Collection[WorkerId] | None,
    orders: WorkerCommands,
    now: int,
    seen: WorkerCommands | None,
) -> list[WorkerId]:
    rows = db.execute("SELECT id, orders FROM mainspring_workers WHERE until > ? ORDER BY id", (now,)).fetchall()
    chosen = [(id, _commands_of(text)) for id, text in rows if workers is None or id in workers]
    given = {id: new for id, known in chosen if (new := next_commands(known, orders, seen)) is not None}
    pairs = [(_encode(new).decode(), id) for id, new in given.items()]
    db.executemany("UPDATE mainspring_workers SET orders = ? WHERE id = ?", pairs)
    return list(given)
