"""Connections to PostgreSQL: a few, shared, each call bounded; the server's trouble as ours."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import asyncpg

from ...config import Durability
from ...errors import ShuttingDown, StoreError, StoreUnavailable
from ...survived_errors import SurvivedErrors
from .connector import PostgresConnector, shut_socket
from .stalled import StallDetector
from .url import PostgresUrl

_warm_up_errors = SurvivedErrors("warm_up", "connections are made when they are needed")
T = TypeVar("T")

MAX_CONNECTIONS = 10
# Stands between texts that are sent as one: in no id, lease or number.
SEPARATOR = "\x1f"
# Of arrays the driver knows only those of texts; for any other it asks the server, some 10 ms on each new connection.
BIGINT_ARRAY = "text[]::bigint[]"
# Seconds between tries to reach a server that is away: the first and the longest.
MIN_RECONNECT_SECONDS, MAX_RECONNECT_SECONDS = 0.1, 2.0
READ_TIMEOUT_SECONDS = 5
# A deadlock, a lock not given in time, a serialization failure: nothing was written, so the verb is played again.
RETRIED_SQLSTATES, MAX_TRIES = ("40001", "40P01", "55P03"), 5
# Not an answer of the server's: whatever comes from this connection later belongs to no call. The driver is confused by
# a connection that the server has ended, and that is not closed yet.
CONNECTION_LOST = (OSError, asyncpg.InternalClientError)
# The classes of what passes: connections, resources, an operator's intervention, a lock, a server that only reads.
TRANSIENT_SQLSTATES = ("08", "53", "57", "40", "55P03", "25006", "XX000")
SETTINGS = {
    "application_name": "mainspring",
    "statement_timeout": "30000",
    "lock_timeout": "10000",
    # Less than that, so that who waits for a lock outlives a holder who was stopped or cut off in the middle of a step.
    "idle_in_transaction_session_timeout": "5000",
    # A generic plan guesses the size of an array and may scan the table for each batch.
    "plan_cache_mode": "force_custom_plan",
    # Nor is there a statement that should read a whole table where an index leads to the rows: what the planner knows
    # of a table that is filled and emptied all day is never true.
    "enable_seqscan": "off",
    "jit": "off",
    "timezone": "UTC",
}
# For the few statements of a job's way, which are written so that one plan is right for any values, whatever the tables
# held when it was made: along the indexes, in their order. Planning a claim took 1 ms each time.
HOT_SETTINGS = {**SETTINGS, "plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off", "enable_sort": "off"}

# Where an index has the order asked for, a page is to be read along it, whatever the planner thinks of the filter.
READ_SETTINGS = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = {1000 * READ_TIMEOUT_SECONDS}; SET LOCAL enable_sort = off;
    SET LOCAL work_mem = '32MB'; SET LOCAL max_parallel_workers_per_gather = 0"""


class Session:
    """One connection at work for one verb; statements name tables as postgres.sql does."""

    def __init__(self, connection: Any, url: PostgresUrl, stalls: StallDetector | None = None) -> None:
        self.connection, self.url = connection, url  # Any: asyncpg's own types are not for every release
        self._stalls = stalls

    async def rows(self, sql: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._answer(self.connection.fetch(self.url.sql(sql), *values))
        return found

    async def row(self, sql: str, *values: Any) -> Any:
        return await self._answer(self.connection.fetchrow(self.url.sql(sql), *values))

    async def value(self, sql: str, *values: Any) -> Any:
        return await self._answer(self.connection.fetchval(self.url.sql(sql), *values))

    async def run(self, sql: str, *values: Any) -> None:
        await self._answer(self.connection.execute(self.url.sql(sql), *values))

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """The statement for each row, sent together."""
        # Of no rows the driver makes a transaction without an end, which the next verb would find.
        if some := list(rows):
            await self._answer(self.connection.executemany(self.url.sql(sql), some))

    async def copy(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        schema, name = self.url.names(table)
        copied = self.connection.copy_records_to_table(name, schema_name=schema, columns=columns, records=rows)
        await self._answer(copied)

    async def _answer(self, answer: Awaitable[T]) -> T:
        if self._stalls is None:
            return await answer
        self._stalls.begin(self.connection)
        try:
            return await answer
        finally:
            self._stalls.end(self.connection)


Verb = Callable[[Session], Awaitable[T]]


class Pool:
    """Connections of one event loop, SIZE of them at work at most. What a verb leaves half done goes with its own."""

    def __init__(self, url: PostgresUrl, durability: Durability = "full") -> None:
        self.url, self.loop, self.pid = url, asyncio.get_running_loop(), os.getpid()
        # In full, the server's own setting counts: it may be stricter than ours would be.
        more = {} if durability == "full" else {"synchronous_commit": "off"}
        self.connector = PostgresConnector(url.dsn, {**SETTINGS, **more}, url.pooler)
        self._hot = PostgresConnector(url.dsn, {**HOT_SETTINGS, **more}, url.pooler)
        self._hot_begin = PostgresConnector(url.dsn, {**HOT_SETTINGS, **more}, "transaction").begin
        self._listener = self.connector if url.listen is None else PostgresConnector(url.listen, SETTINGS)
        self._idle: dict[PostgresConnector, list[Any]] = {self.connector: [], self._hot: []}
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._stalls = StallDetector(self.connector.connect)
        self._closed = False
        self._failures = 0
        self._reconnecting: asyncio.Task[None] | None = None

    async def listener_connection(self) -> Any:
        """A connection of the caller's own, to listen at."""
        return await self._connect(self._listener)

    async def call(self, verb: Verb[T]) -> T:
        """The answer of a verb that is one statement."""
        return await self._call(verb, whole=False)

    async def hot(self, verb: Verb[T]) -> T:
        """The same, of a statement written for the HOT settings."""
        if self.connector.pooled:
            return await self._call(verb, whole=False, begin=self._hot_begin)
        return await self._call(verb, whole=False, connector=self._hot)

    async def warm(self, number: int) -> None:
        """So many connections for a job's way are ready, if the server has them."""
        with _warm_up_errors.survive(StoreUnavailable):
            while not self.connector.pooled and len(self._idle[self._hot]) < number and not self._closed:
                self._release(await self._connect(self._hot), self._hot)

    async def transact(self, verb: Verb[T]) -> T:
        """The answer of a verb of several statements, once all of them are committed."""
        return await self._call(verb, whole=True)

    async def read(self, verb: Verb[T]) -> T:
        """The answer of a verb that only reads, for people: all of its statements see one state of the tables, and
        none takes long."""

        async def seen(db: Session) -> T:
            await db.run(READ_SETTINGS)
            try:
                return await verb(db)
            except asyncpg.QueryCanceledError as error:
                text = f"a list took more than {READ_TIMEOUT_SECONDS} s on the server: narrow the filter, or try again"
                raise StoreUnavailable(text) from error

        return await self._call(seen, whole=True)

    async def _call(
        self, verb: Verb[T], whole: bool, connector: PostgresConnector | None = None, begin: str | None = None
    ) -> T:
        for tries in range(1, MAX_TRIES + 1):
            try:
                return await self._once(verb, whole, connector or self.connector, begin)
            except asyncpg.PostgresError as error:
                # A statement prepared before the schema was changed under it was not run either.
                outdated = isinstance(error, asyncpg.InvalidCachedStatementError)
                if not (_sqlstate(error) in RETRIED_SQLSTATES or outdated) or tries == MAX_TRIES:
                    raise translate_error(error, "PostgreSQL") from error
            except (*CONNECTION_LOST, asyncpg.InterfaceError) as error:
                raise translate_error(error, "PostgreSQL") from error
            await asyncio.sleep(random.uniform(0, 0.01 * 2**tries))
        raise AssertionError  # the last try returns or raises

    async def _once(self, verb: Verb[T], whole: bool, connector: PostgresConnector, begin: str | None = None) -> T:
        await self._wait_for_server()
        async with self._slots:
            if self._closed:
                raise ShuttingDown(f"the store {self.url.shown} is closed")
            connection = self._pop_idle(connector) or await self._connect(connector)
            try:
                answer = await self._run(Session(connection, self.url, self._stalls), verb, whole, begin)
            except CONNECTION_LOST:
                connection.terminate()
                raise
            except Exception:
                await self._roll_back(connection, connector)
                raise
            except BaseException:
                connection.terminate()  # cancelled: what the server makes of the statement under way is unknown
                raise
            self._release(connection, connector)
            return answer

    async def _run(self, db: Session, verb: Verb[T], whole: bool, begin: str | None) -> T:
        # Behind a pooler our settings last for a transaction: there each verb is one.
        if not (whole or self.connector.pooled):
            return await verb(db)
        await db.run(begin or self.connector.begin)
        answer = await verb(db)
        await db.run("COMMIT")
        return answer

    # connections

    async def _wait_for_server(self) -> None:
        """While the server is away one tries for all who ask, ever less often, and fails for all of them."""
        while self._failures and not self._closed and not self._has_idle():
            if self._reconnecting is None:
                self._reconnecting = self.loop.create_task(self._reconnect())
            reconnecting = self._reconnecting
            await asyncio.wait([reconnecting])
            if not reconnecting.cancelled() and (error := reconnecting.exception()) is not None:
                raise error

    def _has_idle(self) -> bool:
        return any(not connection.is_closed() for idle in self._idle.values() for connection in idle)

    async def _reconnect(self) -> None:
        try:
            await asyncio.sleep(
                min(MIN_RECONNECT_SECONDS * 2 ** min(self._failures, 10), MAX_RECONNECT_SECONDS)
                * random.uniform(0.5, 1)
            )
            self._release(await self._connect(self.connector), self.connector)
        except StoreUnavailable:
            self._failures += 1
            raise
        finally:
            self._reconnecting = None

    async def _connect(self, connector: PostgresConnector) -> Any:
        try:
            connection = await connector.connect()
        except Exception as error:
            known = translate_error(error, f"cannot connect to {self.url.shown}")
            if connector in self._idle:
                self._failures = max(1, self._failures) if isinstance(known, StoreUnavailable) else 0
            raise known from error
        if connector in self._idle:
            self._failures = 0
        return connection

    def _pop_idle(self, connector: PostgresConnector) -> Any:
        while self._idle[connector]:
            if not (connection := self._idle[connector].pop()).is_closed():
                return connection
        return None

    def _release(self, connection: Any, connector: PostgresConnector) -> None:
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle[connector].append(connection)

    async def _roll_back(self, connection: Any, connector: PostgresConnector) -> None:
        try:
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
        except Exception:
            connection.terminate()
        else:
            self._release(connection, connector)

    async def close(self) -> None:
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        self._stalls.close()
        for connection in self._take_idle():
            try:
                await connection.close(timeout=2)
            except Exception:
                connection.terminate()

    def abandon(self) -> None:
        """Its event loop is gone, or this is a child of its process: the sockets go with their objects."""
        self._closed = True
        for connection in self._take_idle():
            if self.pid == os.getpid():
                shut_socket(connection)

    def _take_idle(self) -> list[Any]:
        idle = [connection for connector in self._idle.values() for connection in connector]
        self._idle = {connector: [] for connector in self._idle}
        return idle


def _sqlstate(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def translate_error(error: Exception, what: str) -> Exception:
    """The server's and the driver's errors as ours; everything else as it is."""
    if isinstance(error, asyncpg.PostgresError):
        code = _sqlstate(error)
        text = f"{what}: {error} ({type(error).__name__}, {code})"
        if code == "53300":
            text += "; it has no connection left: raise max_connections, run fewer processes or use a pooler"
        return StoreUnavailable(f"{text}; try again") if code.startswith(TRANSIENT_SQLSTATES) else StoreError(text)
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{what}: no answer in time; try again")
    if isinstance(error, asyncpg.InternalClientError):
        return StoreUnavailable(f"{what}: the connection was lost ({error}); try again")
    if isinstance(error, OSError):
        return StoreUnavailable(f"{what}: {error}; try again")
    if isinstance(error, asyncpg.InterfaceError):
        lost = "closed" in str(error) or "in progress" in str(error)
        return StoreUnavailable(f"{what}: {error}; try again") if lost else StoreError(f"{what}: {error}")
    return error
