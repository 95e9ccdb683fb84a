"""Jobs into the PostgreSQL store in the caller's own transaction, through whatever driver that has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from ...errors import BadInput, MainspringError, StoreError, StoreUnavailable
from ...records.job import Enqueued, NewJob
from ...sync import is_sync_caller, run_blocking
from ..caller_connection import DJANGO, Loan, awaited, borrowed, borrowed_async, itself, kinds
from . import enqueue
from .jobs import Holders, lock_keys
from .notifier import notice, soon
from .pool import AGAIN, PASSING, Pool, Session, translated
from .url import PostgresUrl

_ASYNCPG = ("asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy")
_TAKES = "a connection of asyncpg or psycopg 3, a Session or Connection of SQLAlchemy over one of them, or Django's"

# Which database this is, and on which server: neither name nor address says so behind a pooler.
_WHERE = """SELECT (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    to_regclass('mainspring_jobs')::oid::bigint, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"""
_LOOK = f"{_WHERE}, current_setting('transaction_isolation')"
_TAKEN = """DO $$BEGIN RAISE EXCEPTION 'a key was taken after this transaction had begun to read'
    USING ERRCODE = 'serialization_failure', HINT = 'Roll back and try again.'; END$$"""


class Within:
    """Jobs that are there, and wake somebody, with the caller's commit and not before."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._where: tuple[Any, ...] = ()

    async def enqueue(self, within: Any, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        place = self.pool.place
        loan = await _lent(within)
        db = _session(loan, place, within)
        try:
            isolation = await self._meet(db)
            if isolation != "read committed" and enqueue.keyed(jobs):
                await self._see(db, jobs)
            answers = await enqueue.enqueue(db, jobs, now)
            if any(soon(job.run_at, now) for job in jobs):
                await notice(place.channel, "within new")(db)  # goes out with the caller's commit, or not at all
        except Exception as error:
            if (told := _told(error, loan)) is error:
                raise
            raise told from error
        return answers

    async def _meet(self, db: Session) -> str:
        """The isolation of the caller's transaction, which is on the store's own database."""
        *where, isolation = await db.row(_LOOK)
        if tuple(where) != self._where:
            # Ours is asked for anew, as the server may have been started anew.
            self._where = tuple(await self.pool.call(lambda own: own.row(_WHERE)))
            if tuple(where) != self._where:
                raise BadInput(f"within= needs a connection to {db.place.shown}, where the jobs are")
        return str(isolation)

    async def _see(self, db: Session, jobs: Sequence[NewJob]) -> None:
        """A transaction that reads an old snapshot must not give away a key that was taken since."""
        await lock_keys(db, jobs)
        seen = await Holders.of(db, jobs)
        true = await self.pool.call(lambda own: Holders.of(own, jobs))
        known = {job.id for job in seen.all()}
        if any(job.id not in known for job in true.all()):
            await db.run(_TAKEN)


async def _lent(within: Any) -> Loan:
    # Some stand for another one in each thread, others in each task.
    thing = await run_blocking(lambda: itself(within)) if is_sync_caller() else itself(within)
    name = type(thing).__name__
    if is_sync_caller() and awaited(thing):
        raise BadInput(f"within= got an {name} that is awaited: leave out .sync, and await enqueue()")
    if DJANGO in kinds(thing) and not is_sync_caller():
        raise BadInput("within= got Django's connection, which is not awaited: enqueue with .sync there")
    return await borrowed_async(thing) if awaited(thing) else await run_blocking(lambda: borrowed(thing))


def _session(loan: Loan, place: PostgresUrl, within: Any) -> Session:
    """The connection at work for us; refuses what has no transaction to be within."""
    connection = loan.connection
    known = kinds(connection)
    if known & set(_ASYNCPG):
        return _checked(Session(connection, place), connection.is_closed(), connection.is_in_transaction())
    for kind, made in (("psycopg.Connection", PlainSession), ("psycopg.AsyncConnection", AwaitedSession)):
        if kind in known:
            idle = connection.pgconn.transaction_status == 0
            return _checked(made(connection, place), connection.closed, not (idle and connection.autocommit))
    over = "" if connection is within else f" over {type(connection).__module__.partition('.')[0]}"
    raise BadInput(f"within= takes {_TAKES}; got {type(within).__name__}{over}")


def _checked(db: Session, closed: bool, begun: bool) -> Session:
    if closed:
        raise BadInput("within= got a connection that is closed")
    if not begun:
        raise BadInput(
            "within= needs an open transaction, and this connection commits by itself: "
            "enqueue inside `with connection.transaction():` (`async with` where it is awaited)"
        )
    return db


def _told(error: Exception, loan: Loan) -> Exception:
    """What the caller may retry as the caller's library says it; the rest as ours."""
    code = getattr(error, "sqlstate", None) or ""
    if code in AGAIN:
        return loan.words(error)
    if isinstance(error, MainspringError | asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
        return translated(error, "PostgreSQL")
    if not kinds(error) & {"psycopg.Error"}:
        return error
    lost = code.startswith(PASSING) if code else "psycopg.OperationalError" in kinds(error)
    text = f"PostgreSQL: {error} ({type(error).__name__}{f', {code}' if code else ''})"
    return StoreUnavailable(f"{text}; try again") if lost else StoreError(text)


class _Psycopg(Session):
    """Statements as they are, `$1` and all; not prepared, as what is prepared outlives the transaction."""

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


class PlainSession(_Psycopg):
    async def rows(self, sql: str, *values: Any) -> list[Any]:
        return await run_blocking(lambda: self._rows(self.place.sql(sql), values))

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with self._cursor("RawCursor") as cursor:
            cursor.execute(sql, _sent(values), prepare=False)
            return cursor.fetchall() if cursor.description else []


class AwaitedSession(_Psycopg):
    async def rows(self, sql: str, *values: Any) -> list[Any]:
        async with self._cursor("AsyncRawCursor") as cursor:
            await cursor.execute(self.place.sql(sql), _sent(values), prepare=False)
            return await cursor.fetchall() if cursor.description else []


def _sent(values: Sequence[Any]) -> list[Any]:
    """psycopg takes a tuple for a record, where an array is meant."""
    return [list(value) if isinstance(value, tuple) else value for value in values]
