"""A task's own transaction in the SQLite file; the same commit finishes the run (`ctx.transaction()`)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from ...config import Durability
from ...errors import BadInput
from ...ids import JobId, Lease
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...store import Transaction
from ...sync import WaitingThread
from . import file
from .finish import SqliteFinish, outcome_row, write_outcomes, write_reports
from .handle import current_transaction, refuse_inside_transaction
from .writer_thread import WriterThread, translate_error


class SqliteTransaction:
    """A transaction during which nothing else writes to the file: it holds the writer thread until its block ends."""

    connection: sqlite3.Connection

    def __init__(self, path: str, durability: Durability, on_commit: Callable[[Outcome], object]) -> None:
        self._path: str = path
        self._durability: Durability = durability
        self._on_commit = on_commit
        self._errands = WaitingThread()
        self._connection_ready: asyncio.Future[sqlite3.Connection] = asyncio.get_running_loop().create_future()
        self.open = True

    def hold(self) -> None:
        """Runs in the writer thread: begins, waits for the end of the block, and rolls back what is not committed."""
        connection = file.connect(self._path, self._durability)
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._connection_ready.get_loop().call_soon_threadsafe(self._deliver_connection, connection)
            self._errands.serve()
        finally:
            connection.close()

    def _deliver_connection(self, connection: sqlite3.Connection) -> None:
        if not self._connection_ready.done():
            self._connection_ready.set_result(connection)

    async def begin(self, thread: WriterThread) -> None:
        self._held_thread = asyncio.ensure_future(thread.call_exclusively(self.hold))
        # A caller that is cancelled meanwhile never reads the exception.
        self._held_thread.add_done_callback(lambda done: done.cancelled() or done.exception())
        both: list[asyncio.Future[Any]] = [self._connection_ready, self._held_thread]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not self._connection_ready.done():
            await self._held_thread  # raises why it could not begin
        self.connection = self._connection_ready.result()
        current_transaction.set(self)

    async def holds(self, id: JobId, lease: Lease) -> bool:
        sql = "SELECT 1 FROM mainspring_jobs WHERE id = ? AND lease = ? AND state = 'running'"
        return self.connection.execute(sql, (id, lease)).fetchone() is not None

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        accepted = await self._held(lambda: self._commit(outcome, reports))
        if accepted:
            self._on_commit(outcome)
        return accepted

    async def keep(self, report: RunReport) -> bool:
        return await self._held(lambda: self._keep(report))

    async def _held(self, act: Callable[[], bool]) -> bool:
        """Calls it in the thread that holds the transaction."""
        if not self.connection.in_transaction:
            raise BadInput("ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block")
        try:
            return await self._errands.call(act)
        except sqlite3.Error as error:
            raise translate_error(error) from error

    def _keep(self, report: RunReport) -> bool:
        self.connection.row_factory, self.connection.text_factory = None, str  # the task may have set others
        if report.id not in write_reports(self.connection, [report]):
            return False
        self.connection.execute("COMMIT")
        return True

    def _commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        self.connection.row_factory, self.connection.text_factory = None, str  # the task may have set others
        write_reports(self.connection, reports)
        if not write_outcomes(self.connection, [(outcome, outcome_row(outcome))]):
            return False
        self.connection.execute("COMMIT")
        return True

    async def end(self) -> None:
        """Releases the writer thread, even if the caller is cancelled here."""
        self.open = False
        current_transaction.set(None)
        self._errands.stop()
        if self._connection_ready.done():
            await asyncio.wait([self._held_thread])


class SqliteTransactions(SqliteFinish):
    """The verb transaction."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._check()
        refuse_inside_transaction()
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[SqliteTransaction]:
        transaction = SqliteTransaction(self.path, self._durability, lambda outcome: self._after_finish([outcome]))
        try:
            await transaction.begin(self._writes)
            yield transaction
        finally:
            await transaction.end()
