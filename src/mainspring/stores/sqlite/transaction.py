"""A task's own transaction in the SQLite file, and the end of its run in the same commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from ...config import Durability
from ...errors import BadInput
from ...ids import JobId, Lease
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...sync import WaitingThread
from . import file, finish
from .writer_thread import WriterThread, translated

_inside: ContextVar[SqliteTransaction | None] = ContextVar("mainspring_sqlite_transaction", default=None)


class SqliteTransaction:
    """Nobody else writes to the file meanwhile: the lane's thread stands aside until the task's block has ended."""

    connection: sqlite3.Connection

    def __init__(self, path: str, durability: Durability, told: Callable[[Outcome], object]) -> None:
        self._path: str = path
        self._durability: Durability = durability
        self._told = told
        self._errands = WaitingThread()
        self._begun: asyncio.Future[sqlite3.Connection] = asyncio.get_running_loop().create_future()
        self.open = True

    def hold(self) -> None:
        """In the lane's thread: begins, waits for the end, and rolls back what is not committed."""
        connection = file.connect(self._path, self._durability)
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._begun.get_loop().call_soon_threadsafe(self._hand, connection)
            self._errands.serve()
        finally:
            connection.close()

    def _hand(self, connection: sqlite3.Connection) -> None:
        if not self._begun.done():
            self._begun.set_result(connection)

    async def begin(self, lane: WriterThread) -> None:
        self._holding = asyncio.ensure_future(lane.alone(self.hold))
        # Whoever is cancelled meanwhile does not look at how it ended.
        self._holding.add_done_callback(lambda held: held.cancelled() or held.exception())
        both: list[asyncio.Future[Any]] = [self._begun, self._holding]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not self._begun.done():
            await self._holding  # could not begin, and says why
        self.connection = self._begun.result()
        _inside.set(self)

    async def holds(self, id: JobId, lease: Lease) -> bool:
        sql = "SELECT 1 FROM mainspring_jobs WHERE id = ? AND lease = ? AND state = 'running'"
        return self.connection.execute(sql, (id, lease)).fetchone() is not None

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        if not self.connection.in_transaction:
            raise BadInput("ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block")
        try:
            accepted = await self._errands.call(lambda: self._commit(outcome, reports))
        except sqlite3.Error as error:
            raise translated(error) from error
        if accepted:
            self._told(outcome)
        return accepted

    def _commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        self.connection.row_factory, self.connection.text_factory = None, str  # the task may have set others
        finish.report(self.connection, reports)
        if not finish.finish(self.connection, [(outcome, finish.ended_row(outcome))]):
            return False
        self.connection.execute("COMMIT")
        return True

    async def end(self) -> None:
        """The lane goes on, whatever becomes of whoever waits here for that."""
        self.open = False
        _inside.set(None)
        self._errands.stop()
        if self._begun.done():
            await asyncio.wait([self._holding])


@asynccontextmanager
async def transaction(
    lane: WriterThread, path: str, durability: Durability, told: Callable[[Outcome], object]
) -> AsyncIterator[SqliteTransaction]:
    begun = SqliteTransaction(path, durability, told)
    try:
        await begun.begin(lane)
        yield begun
    finally:
        await begun.end()


def refuse_inside() -> None:
    """A write beside a transaction of the same task would wait for an end that waits for it."""
    begun = _inside.get()
    if begun is not None and begun.open:
        raise BadInput(
            "inside ctx.transaction() nothing else can write to the file: enqueue with within=connection, "
            "and do the rest before or after the block"
        )
