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
from .connector import PostgresConnector, hang_up
from .stalled import StallDetector
from .url import PostgresUrl

_cold = SurvivedErrors("warm_up", "connections are made when they are needed")
T = TypeVar("T")

SIZE = 10
# Stands between texts that are sent as one: in no id, lease or number.
SEPARATOR = "\x1f"
# Of arrays the driver knows only those of texts; for any other it asks the server, some 10 ms on each new connection.
NUMBERS = "text[]::bigint[]"
# Seconds between tries to reach a server that is away: the first and the longest.
SOONEST, LATEST = 0.1, 2.0
LOOK_SECONDS = 5
# A deadlock, a lock not given in time, a serialization failure: nothing was written, so the verb is played again.
AGAIN, TRIES = ("40001", "40P01", "55P03"), 5
# Not an answer of the server's: whatever comes from this connection later belongs to no call. The driver is confused by
# a connection that the server has ended, and that is not closed yet.
LOST = (OSError, asyncpg.InternalClientError)
# The classes of what passes: connections, resources, an operator's intervention, a lock, a server that only reads.
PASSING = ("08", "53", "57", "40", "55P03", "25006", "XX000")
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
HOT = {**SETTINGS, "plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off", "enable_sort": "off"}

# Where an index has the order asked for, a page is to be read along it, whatever the planner thinks of the filter.
LOOK = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = {1000 * LOOK_SECONDS}; SET LOCAL enable_sort = off;
    SET LOCAL work_mem = '32MB'; SET LOCAL max_parallel_workers_per_gather = 0"""


class Session:
    """One connection at work for one verb; statements name tables as postgres.sql does."""

    def __init__(self, connection: Any, place: PostgresUrl, doubt: StallDetector | None = None) -> None:
        self.connection, self.place = connection, place  # Any: asyncpg's own types are not for every release
        self._doubt = doubt

    async def rows(self, sql: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._answer(self.connection.fetch(self.place.sql(sql), *values))
        return found

    async def row(self, sql: str, *values: Any) -> Any:
        return await self._answer(self.connection.fetchrow(self.place.sql(sql), *values))

    async def value(self, sql: str, *values: Any) -> Any:
        return await self._answer(self.connection.fetchval(self.place.sql(sql), *values))

    async def run(self, sql: str, *values: Any) -> None:
        await self._answer(self.connection.execute(self.place.sql(sql), *values))

    async def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """The statement for each row, sent together."""
        # Of no rows the driver makes a transaction without an end, which the next verb would find.
        if some := list(rows):
            await self._answer(self.connection.executemany(self.place.sql(sql), some))

    async def copy(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        schema, name = self.place.names(table)
        copied = self.connection.copy_records_to_table(name, schema_name=schema, columns=columns, records=rows)
        await self._answer(copied)

    async def _answer(self, answer: Awaitable[T]) -> T:
        if self._doubt is None:
            return await answer
        self._doubt.begin(self.connection)
        try:
            return await answer
        finally:
            self._doubt.end(self.connection)


Verb = Callable[[Session], Awaitable[T]]


class Pool:
    """Connections of one event loop, SIZE of them at work at most. What a verb leaves half done goes with its own."""

    def __init__(self, place: PostgresUrl, durability: Durability = "full") -> None:
        self.place, self.loop, self.pid = place, asyncio.get_running_loop(), os.getpid()
        # In full, the server's own setting counts: it may be stricter than ours would be.
        more = {} if durability == "full" else {"synchronous_commit": "off"}
        self.route = PostgresConnector(place.dsn, {**SETTINGS, **more}, place.pooler)
        self._hot = PostgresConnector(place.dsn, {**HOT, **more}, place.pooler)
        self._hot_begin = PostgresConnector(place.dsn, {**HOT, **more}, "transaction").begin
        self._ear = self.route if place.listen is None else PostgresConnector(place.listen, SETTINGS)
        self._idle: dict[PostgresConnector, list[Any]] = {self.route: [], self._hot: []}
        self._room = asyncio.Semaphore(SIZE)
        self._doubt = StallDetector(self.route.connect)
        self._closed = False
        self._failures = 0
        self._trying: asyncio.Task[None] | None = None

    async def listener(self) -> Any:
        """A connection of the caller's own, to listen at."""
        return await self._made(self._ear)

    async def call(self, verb: Verb[T]) -> T:
        """The answer of a verb that is one statement."""
        return await self._call(verb, whole=False)

    async def hot(self, verb: Verb[T]) -> T:
        """The same, of a statement written for the HOT settings."""
        if self.route.pooled:
            return await self._call(verb, whole=False, begin=self._hot_begin)
        return await self._call(verb, whole=False, route=self._hot)

    async def warm(self, number: int) -> None:
        """So many connections for a job's way are ready, if the server has them."""
        with _cold.survive(StoreUnavailable):
            while not self.route.pooled and len(self._idle[self._hot]) < number and not self._closed:
                self._rest(await self._made(self._hot), self._hot)

    async def step(self, verb: Verb[T]) -> T:
        """The answer of a verb of several statements, once all of them are committed."""
        return await self._call(verb, whole=True)

    async def look(self, verb: Verb[T]) -> T:
        """The answer of a verb that only reads, for people: all of its statements see one state of the tables, and
        none takes long."""

        async def seen(db: Session) -> T:
            await db.run(LOOK)
            try:
                return await verb(db)
            except asyncpg.QueryCanceledError as error:
                text = f"a list took more than {LOOK_SECONDS} s on the server: narrow the filter, or try again"
                raise StoreUnavailable(text) from error

        return await self._call(seen, whole=True)

    async def _call(
        self, verb: Verb[T], whole: bool, route: PostgresConnector | None = None, begin: str | None = None
    ) -> T:
        for tries in range(1, TRIES + 1):
            try:
                return await self._once(verb, whole, route or self.route, begin)
            except asyncpg.PostgresError as error:
                # A statement prepared before the schema was changed under it was not run either.
                outdated = isinstance(error, asyncpg.InvalidCachedStatementError)
                if not (_code(error) in AGAIN or outdated) or tries == TRIES:
                    raise translated(error, "PostgreSQL") from error
            except (*LOST, asyncpg.InterfaceError) as error:
                raise translated(error, "PostgreSQL") from error
            await asyncio.sleep(random.uniform(0, 0.01 * 2**tries))
        raise AssertionError  # the last try returns or raises

    async def _once(self, verb: Verb[T], whole: bool, route: PostgresConnector, begin: str | None = None) -> T:
        await self._reached()
        async with self._room:
            if self._closed:
                raise ShuttingDown(f"the store {self.place.shown} is closed")
            connection = self._rested(route) or await self._made(route)
            try:
                answer = await self._played(Session(connection, self.place, self._doubt), verb, whole, begin)
            except LOST:
                connection.terminate()
                raise
            except Exception:
                await self._undo(connection, route)
                raise
            except BaseException:
                connection.terminate()  # cancelled: what the server makes of the statement under way is unknown
                raise
            self._rest(connection, route)
            return answer

    async def _played(self, db: Session, verb: Verb[T], whole: bool, begin: str | None) -> T:
        # Behind a pooler our settings last for a transaction: there each verb is one.
        if not (whole or self.route.pooled):
            return await verb(db)
        await db.run(begin or self.route.begin)
        answer = await verb(db)
        await db.run("COMMIT")
        return answer

    # connections

    async def _reached(self) -> None:
        """While the server is away one tries for all who ask, ever less often, and fails for all of them."""
        while self._failures and not self._closed and not self._rests():
            if self._trying is None:
                self._trying = self.loop.create_task(self._try_again())
            trying = self._trying
            await asyncio.wait([trying])
            if not trying.cancelled() and (error := trying.exception()) is not None:
                raise error

    def _rests(self) -> bool:
        return any(not connection.is_closed() for idle in self._idle.values() for connection in idle)

    async def _try_again(self) -> None:
        try:
            await asyncio.sleep(min(SOONEST * 2 ** min(self._failures, 10), LATEST) * random.uniform(0.5, 1))
            self._rest(await self._made(self.route), self.route)
        except StoreUnavailable:
            self._failures += 1
            raise
        finally:
            self._trying = None

    async def _made(self, route: PostgresConnector) -> Any:
        try:
            connection = await route.connect()
        except Exception as error:
            known = translated(error, f"cannot connect to {self.place.shown}")
            if route in self._idle:
                self._failures = max(1, self._failures) if isinstance(known, StoreUnavailable) else 0
            raise known from error
        if route in self._idle:
            self._failures = 0
        return connection

    def _rested(self, route: PostgresConnector) -> Any:
        while self._idle[route]:
            if not (connection := self._idle[route].pop()).is_closed():
                return connection
        return None

    def _rest(self, connection: Any, route: PostgresConnector) -> None:
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle[route].append(connection)

    async def _undo(self, connection: Any, route: PostgresConnector) -> None:
        try:
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
        except Exception:
            connection.terminate()
        else:
            self._rest(connection, route)

    async def close(self) -> None:
        self._closed = True
        if self._trying is not None:
            self._trying.cancel()
        self._doubt.close()
        for connection in self._forgotten():
            try:
                await connection.close(timeout=2)
            except Exception:
                connection.terminate()

    def forget(self) -> None:
        """Its event loop is gone, or this is a child of its process: the sockets go with their objects."""
        self._closed = True
        for connection in self._forgotten():
            if self.pid == os.getpid():
                hang_up(connection)

    def _forgotten(self) -> list[Any]:
        idle = [connection for route in self._idle.values() for connection in route]
        self._idle = {route: [] for route in self._idle}
        return idle


def _code(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def translated(error: Exception, what: str) -> Exception:
    """The server's and the driver's errors as ours; everything else as it is."""
    if isinstance(error, asyncpg.PostgresError):
        code = _code(error)
        text = f"{what}: {error} ({type(error).__name__}, {code})"
        if code == "53300":
            text += "; it has no connection left: raise max_connections, run fewer processes or use a pooler"
        return StoreUnavailable(f"{text}; try again") if code.startswith(PASSING) else StoreError(text)
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
