"""Enqueues jobs in the caller's own transaction (`within=`), through asyncpg, psycopg, SQLAlchemy or Django."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from ...errors import BadInput, MainspringError, StoreError, StoreUnavailable
from ...records.job import Enqueued, NewJob
from ...sync import is_sync_caller, run_blocking
from ..caller_connection import (
    DJANGO,
    CallerConnection,
    class_names,
    driver_connection,
    driver_connection_async,
    is_async,
    unwrap_proxy,
)
from ..rules.keys import keys_of
from .jobs import find_jobs, has_keys, lock_keys
from .notifier import may_be_due_soon, notify_in_transaction
from .pool import RETRIED_SQLSTATES, TRANSIENT_SQLSTATES, Pool, Session, Verb, translate_error
from .url import PostgresUrl

_ASYNCPG = ("asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy")
_TAKES = "a connection of asyncpg or psycopg 3, a Session or Connection of SQLAlchemy over one of them, or Django's"

# Identifies database and server: behind a pooler neither name nor address does.
_DATABASE = """SELECT (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    to_regclass('mainspring_jobs')::oid::bigint, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"""
_DATABASE_AND_ISOLATION = f"{_DATABASE}, current_setting('transaction_isolation')"
_RAISE_KEY_TAKEN = """DO $$BEGIN RAISE EXCEPTION 'a key was taken after this transaction had begun to read'
    USING ERRCODE = 'serialization_failure', HINT = 'Roll back and try again.'; END$$"""


class CallerTransactions:
    """Enqueues in callers' transactions: the jobs exist, and wake workers, with the caller's commit."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._database: tuple[Any, ...] = ()

    async def run(
        self, within: Any, jobs: Sequence[NewJob], now: datetime, enqueue: Verb[list[Enqueued]]
    ) -> list[Enqueued]:
        """Runs `enqueue`, which enqueues these jobs, in the transaction that is open on `within`."""
        url = self.pool.url
        caller = await _caller_connection(within)
        db = _session(caller, url, within)
        try:
            isolation = await self._check_database(db)
            if isolation != "read committed" and has_keys(jobs):
                await self._check_snapshot(db, jobs)
            answers = await enqueue(db)
            if any(may_be_due_soon(job, now) for job in jobs):
                notify = notify_in_transaction(
                    url.channel, "within new"
                )  # sent with the caller's commit, or not at all
                await notify(db)
        except Exception as error:
            if (translated := _translate(error, caller)) is error:
                raise
            raise translated from error
        return answers

    async def _check_database(self, db: Session) -> str:
        """The isolation level of the caller's transaction. Raises BadInput if it is in another database."""
        *found, isolation = await db.row(_DATABASE_AND_ISOLATION)
        if tuple(found) != self._database:
            # Ours is read again, because the server may have been restarted.
            self._database = tuple(await self.pool.call(lambda own: own.row(_DATABASE)))
            if tuple(found) != self._database:
                raise BadInput(f"within= needs a connection to {db.url.shown}, where the jobs are")
        return str(isolation)

    async def _check_snapshot(self, db: Session, jobs: Sequence[NewJob]) -> None:
        """Raises a serialization failure if a key was taken after the caller's snapshot, which does not show it."""
        await lock_keys(db, jobs)
        keys = [key for job in jobs for key in keys_of(job)]
        known = {job.id for job in await find_jobs(db, keys, ())}
        current = await self.pool.call(lambda own: find_jobs(own, keys, ()))
        if any(job.id not in known for job in current):
            await db.run(_RAISE_KEY_TAKEN)


async def _caller_connection(within: Any) -> CallerConnection:
    # Some proxies depend on the thread, others on the asyncio task.
    thing = await run_blocking(lambda: unwrap_proxy(within)) if is_sync_caller() else unwrap_proxy(within)
    name = type(thing).__name__
    if is_sync_caller() and is_async(thing):
        raise BadInput(f"within= got an {name} that is async: leave out .sync, and await enqueue()")
    if DJANGO in class_names(thing) and not is_sync_caller():
        raise BadInput("within= got Django's connection, which is synchronous: enqueue with .sync there")
    return (
        await driver_connection_async(thing)
        if is_async(thing)
        else await run_blocking(lambda: driver_connection(thing))
    )


def _session(caller: CallerConnection, url: PostgresUrl, within: Any) -> Session:
    """A session on the caller's connection. Raises BadInput for other types, or without a transaction."""
    connection = caller.connection
    known = class_names(connection)
    if known & set(_ASYNCPG):
        return _check_transaction(Session(connection, url), connection.is_closed(), connection.is_in_transaction())
    for kind, made in (("psycopg.Connection", PsycopgSession), ("psycopg.AsyncConnection", AsyncPsycopgSession)):
        if kind in known:
            idle = connection.pgconn.transaction_status == 0
            return _check_transaction(made(connection, url), connection.closed, not (idle and connection.autocommit))
    over = "" if connection is within else f" over {type(connection).__module__.partition('.')[0]}"
    raise BadInput(f"within= takes {_TAKES}; got {type(within).__name__}{over}")


def _check_transaction(db: Session, closed: bool, begun: bool) -> Session:
    if closed:
        raise BadInput("within= got a connection that is closed")
    if not begun:
        raise BadInput(
            "within= needs an open transaction, and this connection commits by itself: "
            "enqueue inside `with connection.transaction():` (`async with` on an async connection)"
        )
    return db


def _translate(error: Exception, caller: CallerConnection) -> Exception:
    """Errors that the caller may retry as errors of the caller's library, all others as ours."""
    code = getattr(error, "sqlstate", None) or ""
    if code in RETRIED_SQLSTATES:
        return caller.translate(error)
    if isinstance(error, MainspringError | asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
        return translate_error(error, "PostgreSQL")
    if not class_names(error) & {"psycopg.Error"}:
        return error
    lost = code.startswith(TRANSIENT_SQLSTATES) if code else "psycopg.OperationalError" in class_names(error)
    text = f"PostgreSQL: {error} ({type(error).__name__}{f', {code}' if code else ''})"
    return StoreUnavailable(f"{text}; try again") if lost else StoreError(text)


class _BasePsycopgSession(Session):
    """Runs statements with `$1` parameters in psycopg; unprepared, since a prepared one outlives the transaction."""

    def _cursor(self, kind: str) -> Any:
        import psycopg
        from psycopg.rows import tuple_row

        if not hasattr(psycopg, kind):
            raise BadInput(f"within= takes psycopg 3.2 or newer, this is {psycopg.__version__}")
        return getattr(psycopg, kind)(self.connection, row_factory=tuple_row)

    async def row(self, sql: str, *values: Any) -> Any:
        return next(iter(await self.rows(sql, *values)), None)

    async def value(self, sql: str, *values: Any) -> Any:
        return (await self.row(sql, *values) or (None,))[0]

    async def run(self, sql: str, *values: Any) -> None:
        await self.rows(sql, *values)

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            await self.rows(sql, *row)


class PsycopgSession(_BasePsycopgSession):
    async def rows(self, sql: str, *values: Any) -> list[Any]:
        return await run_blocking(lambda: self._rows(self.url.sql(sql), values))

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with self._cursor("RawCursor") as cursor:
            cursor.execute(sql, _with_lists(values), prepare=False)
            return cursor.fetchall() if cursor.description else []


class AsyncPsycopgSession(_BasePsycopgSession):
    async def rows(self, sql: str, *values: Any) -> list[Any]:
        async with self._cursor("AsyncRawCursor") as cursor:
            await cursor.execute(self.url.sql(sql), _with_lists(values), prepare=False)
            return await cursor.fetchall() if cursor.description else []


def _with_lists(values: Sequence[Any]) -> list[Any]:
    """The values with lists for tuples, which psycopg would send as records instead of arrays."""
    return [list(value) if isinstance(value, tuple) else value for value in values]
