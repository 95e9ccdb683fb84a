"""A task's own transaction in the SQLite file, and the end of its run in the same commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

from ..config import Durability
from ..errors import BadInput
from ..job import JobId, Lease, Report
from ..outcome import Outcome
from . import sqlite_file, sqlite_finish
from .lane import translated

_inside: ContextVar[SqliteTransaction | None] = ContextVar("mainspring_sqlite_transaction", default=None)


class SqliteTransaction:
    """Nobody else writes to the file meanwhile."""

    def __init__(self, connection: sqlite3.Connection, told: Callable[[Outcome], object]) -> None:
        self.connection = connection
        self.open = True
        self._told = told

    async def holds(self, id: JobId, lease: Lease) -> bool:
        sql = "SELECT 1 FROM mainspring_jobs WHERE id = ? AND lease = ? AND state = 'running'"
        return self.connection.execute(sql, (id, lease)).fetchone() is not None

    async def commit(self, outcome: Outcome, reports: Sequence[Report]) -> bool:
        if not self.connection.in_transaction:
            raise BadInput("ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block")
        try:
            accepted = await asyncio.to_thread(self._commit, outcome, reports)
        except sqlite3.Error as error:
            raise translated(error) from error
        if accepted:
            self._told(outcome)
        return accepted

    def _commit(self, outcome: Outcome, reports: Sequence[Report]) -> bool:
        sqlite_finish.report(self.connection, reports)
        if not sqlite_finish.finish(self.connection, [(outcome, sqlite_finish.ended_row(outcome))]):
            return False
        self.connection.execute("COMMIT")
        return True


@asynccontextmanager
async def transaction(
    path: str, durability: Durability, told: Callable[[Outcome], object]
) -> AsyncIterator[SqliteTransaction]:
    begun = SqliteTransaction(await _begun(path, durability), told)
    _inside.set(begun)
    try:
        yield begun
    finally:
        begun.open = False
        _inside.set(None)
        begun.connection.close()  # rolls back what is still open


async def _begun(path: str, durability: Durability) -> sqlite3.Connection:
    """A connection that has the file for itself; others may have it for a while yet."""
    beginning = asyncio.ensure_future(asyncio.to_thread(_begin, path, durability))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(_end)
        raise


def _end(beginning: asyncio.Future[sqlite3.Connection]) -> None:
    if beginning.exception() is None:
        beginning.result().close()


def _begin(path: str, durability: Durability) -> sqlite3.Connection:
    connection = sqlite_file.connect(path, durability)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        connection.close()
        raise translated(error) from error
    return connection


def refuse_inside() -> None:
    """A write beside a transaction of the same task would wait for an end that waits for it."""
    begun = _inside.get()
    if begun is not None and begun.open:
        raise BadInput(
            "inside ctx.transaction() nothing else can write to the file: enqueue with within=connection, "
            "and do the rest before or after the block"
        )
