"""A task's own transaction in PostgreSQL, and the end of its run in the same commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from ...errors import BadInput
from ...ids import JobId, Lease
from ...records.outcome import Outcome
from ...records.run import RunReport
from . import finish
from . import schedules as series
from .connector import CALL_SECONDS, PostgresConnector
from .pool import SETTINGS, Pool, Session, translated
from .url import PostgresUrl

CLEAR_SECONDS = 5
# A process that is stopped or cut off lets go of what its tasks have locked.
_THEIRS = {"application_name": SETTINGS["application_name"], "idle_in_transaction_session_timeout": "60000"}
_OURS = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in SETTINGS.items() if name not in _THEIRS)
_HOLDS = "SELECT true FROM mainspring_jobs WHERE id = $1 AND lease = $2 AND state = 'running'"


class PostgresTransaction:
    def __init__(self, connection: Any, place: PostgresUrl, told: Callable[[Outcome], object]) -> None:
        self.connection = connection
        self.committed = False
        self._db = Session(connection, place)
        self._transaction = connection.transaction()  # asyncpg's own, so that the task may nest others in it
        self._told = told

    async def begin(self) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._transaction.start()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise translated(error, "PostgreSQL") from error

    async def holds(self, id: JobId, lease: Lease) -> bool:
        # Without a lock: whoever finds the worker silent must not have to wait for a run that may never go on.
        return bool(await self._db.value(_HOLDS, id, lease))

    async def commit(self, outcome: Outcome, reports: Sequence[RunReport]) -> bool:
        if not self.connection.is_in_transaction():
            raise BadInput("ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block")
        async with asyncio.timeout(CALL_SECONDS):
            await self.connection.execute(_OURS)
            if outcome.schedule is not None:  # before the job, as every verb does
                await series.lock(self._db, {outcome.schedule})
            await finish.report(self._db, reports)
            if outcome.id not in await finish.finish(self._db, [outcome]):
                return False
            await self._transaction.commit()
        self.committed = True
        self._told(outcome)
        return True

    async def clear(self) -> None:
        """Nothing of it is left, whatever the task has done to the connection."""
        async with asyncio.timeout(CLEAR_SECONDS):
            if not self.committed:
                await self._transaction.rollback()
            await self.connection.reset()


class Lender(Pool):
    """Connections for tasks, apart from the store's: tasks keep them for longer, and have settings of their own."""

    def __init__(self, place: PostgresUrl) -> None:
        super().__init__(place)
        self.route = PostgresConnector(place.dsn, _THEIRS, place.pooler, bounded=False)
        self._idle = {self.route: []}

    @asynccontextmanager
    async def begun(self, told: Callable[[Outcome], object]) -> AsyncIterator[PostgresTransaction]:
        await self._reached()
        async with self._room:
            connection = self._rested(self.route) or await self._made(self.route)
            transaction = PostgresTransaction(connection, self.place, told)
            try:
                await transaction.begin()
                yield transaction
            except Exception:
                await self._back(transaction)
                raise
            except BaseException:
                connection.terminate()  # cancelled: what the server makes of the statement under way is unknown
                raise
            await self._back(transaction)

    async def _back(self, transaction: PostgresTransaction) -> None:
        try:
            await transaction.clear()
        except Exception:
            transaction.connection.terminate()
        else:
            self._rest(transaction.connection, self.route)
