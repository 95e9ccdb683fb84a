"""A pool of connections to PostgreSQL: calls have a time limit, are retried after deadlocks, and raise StoreError."""

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

# Calls that one event loop has under way at most.
MAX_CONNECTIONS = 10
# Separates ids that are sent as one text; it occurs in no id, lease or number.
SEPARATOR = "\x1f"
# Numbers are sent as an array of texts: for any other array type the driver queries the server, 10 ms per connection.
BIGINT_ARRAY = "text[]::bigint[]"
# A connection that rests for longer is closed: a server has some hundred. One stays, so that a claim need not wait.
IDLE_SECONDS = 15.0
# First pause between attempts to reach a server that is away; it doubles with each failure.
MIN_RECONNECT_SECONDS = 0.1
MAX_RECONNECT_SECONDS = 2.0
# Time limit of a statement in `Pool.read`.
READ_TIMEOUT_SECONDS = 5
# Serialization failure, deadlock, lock timeout: nothing was written, so the verb runs again.
RETRIED_SQLSTATES = ("40001", "40P01", "55P03")
MAX_TRIES = 5
# Errors that are no answer of the server: whatever this connection receives later belongs to no call. asyncpg raises
# InternalClientError for a connection that the server has ended and that is not closed yet.
CONNECTION_LOST = (OSError, asyncpg.InternalClientError)
# SQLSTATE classes of transient errors: connection, resources, operator intervention, lock, read-only server.
TRANSIENT_SQLSTATES = ("08", "53", "57", "40", "55P03", "25006", "XX000")
SETTINGS = {
    "application_name": "mainspring",
    "statement_timeout": "30000",
    "lock_timeout": "10000",
    # Less than lock_timeout, so that a waiter survives a holder that was stopped or cut off inside a transaction.
    "idle_in_transaction_session_timeout": "5000",
    # A generic plan guesses the size of an array, and may scan the table for each batch.
    "plan_cache_mode": "force_custom_plan",
    # No statement should scan a whole table where an index leads to the rows, but the planner's statistics of a table
    # that is filled and emptied all day are never right.
    "enable_seqscan": "off",
    "jit": "off",
    "timezone": "UTC",
}
# For the few hot statements (insert, claim, finish). They are written so that one plan, along the indexes in their
# order, is right for all values and all table contents. Planning a claim takes 1 ms, so its plan is kept.
HOT_SETTINGS = {**SETTINGS, "plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off", "enable_sort": "off"}

# Settings of `Pool.transact_in_order`.
ORDER_SETTINGS = "SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"
# Settings of `Pool.read`. A page is read along an index with its order, whatever the planner thinks of the filter.
READ_SETTINGS = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = {1000 * READ_TIMEOUT_SECONDS}; SET LOCAL enable_sort = off;
    SET LOCAL work_mem = '32MB'; SET LOCAL max_parallel_workers_per_gather = 0"""


class Session:
    """A connection while it runs one verb. Statements name tables mainspring_…, see PostgresUrl.sql."""

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
        """Runs the statement for each row; all are sent together."""
        # Without rows, the driver would leave a transaction open for the next verb.
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
    """The connections of one event loop, at most MAX_CONNECTIONS busy. One whose verb is left half done is closed."""

    def __init__(self, url: PostgresUrl, durability: Durability = "full") -> None:
        self.url, self.loop, self.pid = url, asyncio.get_running_loop(), os.getpid()
        # With full durability the server's own setting counts: it may be stricter than ours would be.
        more = {} if durability == "full" else {"synchronous_commit": "off"}
        self.connector = PostgresConnector(url.dsn, {**SETTINGS, **more}, url.pooler)
        self._hot = PostgresConnector(url.dsn, {**HOT_SETTINGS, **more}, url.pooler)
        self._hot_begin = PostgresConnector(url.dsn, {**HOT_SETTINGS, **more}, "transaction").begin
        self._listener = self.connector if url.listen is None else PostgresConnector(url.listen, SETTINGS)
        # Each with the time from which on it rests, the last one last.
        self._idle: dict[PostgresConnector, list[tuple[Any, float]]] = {self.connector: [], self._hot: []}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_closing: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._stalls = StallDetector(self.connector.connect)
        self._closed = False
        self._failures = 0
        self._reconnecting: asyncio.Task[None] | None = None

    async def listener_connection(self) -> Any:
        """A new connection for LISTEN, which the caller owns."""
        return await self._connect(self._listener)

    async def call(self, verb: Verb[T]) -> T:
        """Runs a verb that is one statement, and returns its result."""
        return await self._call(verb, whole=False)

    async def hot(self, verb: Verb[T]) -> T:
        """Like `call`, for a statement that is written for HOT_SETTINGS."""
        if self.connector.pooled:
            return await self._call(verb, whole=False, begin=self._hot_begin)
        return await self._call(verb, whole=False, connector=self._hot)

    async def warm(self, number: int) -> None:
        """Opens connections with HOT_SETTINGS until `number` are idle, if the server allows it."""
        with _warm_up_errors.survive(StoreUnavailable):
            while not self.connector.pooled and len(self._idle[self._hot]) < number and not self._closed:
                self._release(await self._connect(self._hot), self._hot)

    async def transact(self, verb: Verb[T]) -> T:
        """Runs a verb of several statements in one transaction, and returns its result after the commit."""
        return await self._call(verb, whole=True)

    async def transact_in_order(self, verb: Verb[T]) -> T:
        """Like `transact`, for a verb whose statements rely on the order in which an index returns its rows."""
        return await self._call(verb, whole=True, begin=f"{self.connector.begin}; {ORDER_SETTINGS}")

    async def transact_hot(self, verb: Verb[T]) -> T:
        """Like `transact`, for statements that are written for HOT_SETTINGS."""
        if self.connector.pooled:
            return await self._call(verb, whole=True, begin=self._hot_begin)
        return await self._call(verb, whole=True, connector=self._hot)

    async def read(self, verb: Verb[T]) -> T:
        """Runs a read-only verb of lists and counts: all of its statements see one snapshot, each with a time limit.
        Raises StoreUnavailable if one takes longer."""

        async def read_snapshot(db: Session) -> T:
            try:
                return await verb(db)
            except asyncpg.QueryCanceledError as error:
                text = f"a list took more than {READ_TIMEOUT_SECONDS} s on the server: narrow the filter, or try again"
                raise StoreUnavailable(text) from error

        return await self._call(read_snapshot, whole=True, begin=f"{self.connector.begin}; {READ_SETTINGS}")

    async def _call(
        self, verb: Verb[T], whole: bool, connector: PostgresConnector | None = None, begin: str | None = None
    ) -> T:
        for tries in range(1, MAX_TRIES + 1):
            try:
                return await self._once(verb, whole, connector or self.connector, begin)
            except asyncpg.PostgresError as error:
                # A statement that was prepared before a change of the schema did not run either.
                outdated = isinstance(error, asyncpg.InvalidCachedStatementError)
                if not (_sqlstate(error) in RETRIED_SQLSTATES or outdated) or tries == MAX_TRIES:
                    raise translate_error(error, "PostgreSQL") from error
            except (*CONNECTION_LOST, asyncpg.InterfaceError) as error:
                raise translate_error(error, "PostgreSQL") from error
            await asyncio.sleep(random.uniform(0, 0.01 * 2**tries))
        raise AssertionError  # unreachable: the last try returns or raises

    async def _once(self, verb: Verb[T], whole: bool, connector: PostgresConnector, begin: str | None = None) -> T:
        await self._await_server()
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
                connection.terminate()  # cancelled: the server may or may not run the current statement
                raise
            self._release(connection, connector)
            return answer

    async def _run(self, db: Session, verb: Verb[T], whole: bool, begin: str | None) -> T:
        # Behind a pooler our settings last for one transaction, so there each verb is a transaction.
        if not (whole or self.connector.pooled):
            return await verb(db)
        await db.run(begin or self.connector.begin)
        answer = await verb(db)
        await db.run("COMMIT")
        return answer

    # connections

    async def _await_server(self) -> None:
        """While the server is away, one task reconnects for all callers, with growing pauses; if it fails, all fail."""
        while self._failures and not self._closed and not self._has_idle():
            if self._reconnecting is None:
                self._reconnecting = self.loop.create_task(self._reconnect())
            reconnecting = self._reconnecting
            await asyncio.wait([reconnecting])
            if not reconnecting.cancelled() and (error := reconnecting.exception()) is not None:
                raise error

    def _has_idle(self) -> bool:
        return any(not connection.is_closed() for idle in self._idle.values() for connection, _ in idle)

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
            if not (connection := self._idle[connector].pop()[0]).is_closed():
                return connection
        return None

    def _release(self, connection: Any, connector: PostgresConnector) -> None:
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle[connector].append((connection, self.loop.time()))
            if self._idle_timer is None:
                self._idle_timer = self.loop.call_later(IDLE_SECONDS, self._close_resting)

    def _close_resting(self) -> None:
        """Closes the connections that have rested for IDLE_SECONDS, apart from the last one for claims."""
        now, self._idle_timer = self.loop.time(), None
        resting, waits = list[Any](), list[float]()
        for connector, idle in self._idle.items():
            kept = 1 if connector is (self.connector if self.connector.pooled else self._hot) else 0
            while len(idle) > kept and idle[0][1] + IDLE_SECONDS <= now:
                resting.append(idle.pop(0)[0])
            waits += [idle[0][1] + IDLE_SECONDS - now] if len(idle) > kept else []
        if waits:
            self._idle_timer = self.loop.call_later(min(waits), self._close_resting)
        if resting:
            self._idle_closing = self.loop.create_task(_close_connections(resting))

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
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._idle_closing is not None:
            await self._idle_closing
        await _close_connections(self._take_idle())

    def abandon(self) -> None:
        """Drops all connections: their event loop is gone, or this is a forked child, which must not close them."""
        self._closed = True
        for connection in self._take_idle():
            if self.pid == os.getpid():
                shut_socket(connection)

    def _take_idle(self) -> list[Any]:
        idle = [connection for connector in self._idle.values() for connection, _ in connector]
        self._idle = {connector: [] for connector in self._idle}
        return idle


async def _close_connections(connections: Iterable[Any]) -> None:
    for connection in connections:
        try:
            await connection.close(timeout=2)
        except Exception:
            connection.terminate()


def _sqlstate(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def translate_error(error: Exception, what: str) -> Exception:
    """The server's and the driver's errors as StoreError or StoreUnavailable; any other error unchanged."""
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
