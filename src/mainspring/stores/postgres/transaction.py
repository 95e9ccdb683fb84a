"""A task's own transaction in PostgreSQL; the same commit finishes the run (`ctx.transaction()`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack

import asyncpg

from ...errors import BadInput
from ...ids import JobId, Lease
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...store import Transaction
from .connector import CALL_SECONDS, PostgresConnector
from .finish import PostgresFinish, save_reports, write_outcomes
from .flow_rows import lock_flows
from .handle import PostgresSettings
from .pool import SETTINGS, Pool, Session, translate_error
from .schedules import lock_schedules
from .url import PostgresUrl

RESET_SECONDS = 5
# If the process is stopped or cut off, the server ends the transaction and releases its locks.
_TASK_SETTINGS = {"application_name": SETTINGS["application_name"], "idle_in_transaction_session_timeout": "60000"}
_SET_STORE_SETTINGS = "; ".join(
    f"SET LOCAL {name} = '{value}'" for name, value in SETTINGS.items() if name not in _TASK_SETTINGS
)
_HOLDS = "SELECT true FROM mainspring_jobs WHERE id = $1 AND lease = $2 AND state = 'running'"


class PostgresTransaction:
    """A transaction on a connection that the task uses; `commit` also writes the outcome of its run."""

    def __init__(self, connection: Any, url: PostgresUrl, on_commit: Callable[[Outcome], object]) -> None:
        self.connection = connection
        self.committed = False
        self._db = Session(connection, url)
        self._transaction = connection.transaction()  # asyncpg's object, so that the task may nest others
        self._on_commit = on_commit

    async def begin(self) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._transaction.start()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise translate_error(error, "PostgreSQL") from error

    async def holds(self, id: JobId, lease: Lease) -> bool:
        # Without a lock: the rescue of a silent worker must not wait for a run that may never go on.
        return bool(await self._db.value(_HOLDS, id, lease))

    async def keep(self, report: RunReport) -> bool:
        self._check_open()
        async with asyncio.timeout(CALL_SECONDS):
            await self.connection.execute(_SET_STORE_SETTINGS)
            if report.id not in await save_reports(self._db, [report]):
                return False
            await self._transaction.commit()
        self.committed = True
        return True

    def _check_open(self) -> None:
        if not self.connection.is_in_transaction():
            raise BadInput("ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block")

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        self._check_open()
        async with asyncio.timeout(CALL_SECONDS):
            await self.connection.execute(_SET_STORE_SETTINGS)
            if outcome.schedule is not None:  # locked before the job, as in every verb
                await lock_schedules(self._db, {outcome.schedule})
            if outcome.step is not None:
                await lock_flows(self._db, {outcome.step.flow})
            await save_reports(self._db, reports)
            if outcome.id not in await write_outcomes(self._db, [outcome]):
                return False
            await self._transaction.commit()
        self.committed = True
        self._on_commit(outcome)
        return True

    async def reset(self) -> None:
        """Rolls back what is not committed, and resets what the task has set on the connection."""
        async with asyncio.timeout(RESET_SECONDS):
            if not self.committed:
                await self._transaction.rollback()
            await self.connection.reset()


class TaskConnections(Pool):
    """A pool of connections for tasks, which keep them longer than the store's verbs and have other settings."""

    def __init__(self, url: PostgresUrl) -> None:
        super().__init__(url)
        self.connector = PostgresConnector(url.dsn, _TASK_SETTINGS, url.pooler, bounded=False)
        self._idle = {self.connector: []}

    @asynccontextmanager
    async def begin(self, on_commit: Callable[[Outcome], object]) -> AsyncIterator[PostgresTransaction]:
        await self._await_server()
        async with self._slots:
            connection = self._pop_idle(self.connector) or await self._connect(self.connector)
            transaction = PostgresTransaction(connection, self.url, on_commit)
            try:
                await transaction.begin()
                yield transaction
            except Exception:
                await self._give_back(transaction)
                raise
            except BaseException:
                connection.terminate()  # cancelled: the server may or may not run the current statement
                raise
            await self._give_back(transaction)

    async def _give_back(self, transaction: PostgresTransaction) -> None:
        try:
            await transaction.reset()
        except Exception:
            transaction.connection.terminate()
        else:
            self._release(transaction.connection, self.connector)


class PostgresTaskTransactions(PostgresFinish):
    """The transactions of tasks, which finish runs as `finish` does."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._task_connections: TaskConnections | None = None

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        self._open()
        if self._task_connections is None:
            self._task_connections = TaskConnections(self.url)
        return self._task_connections.begin(lambda outcome: self._after_finish([outcome]))
