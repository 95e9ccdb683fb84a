"""The callers of within=: a transaction of every library, behind one interface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import asyncpg
import django
import django.conf
import psycopg
from django.db import connection as django_connection
from django.db import connections, transaction
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from mainspring import Handle, Mainspring, NewJob, Task


def site(alias: str, **database: Any) -> None:
    """Django, with this database."""
    if not django.conf.settings.configured:
        django.conf.settings.configure(DATABASES={"default": {}})
        django.setup()
    connections.settings[alias] = {**database}
    connections.configure_settings(connections.settings)


class Caller:
    """An async caller. `within` is what it passes to enqueue."""

    within: Any

    def __init__(self, port: int, database: str = "postgres") -> None:
        self.port, self.database = port, database
        self.dsn = f"postgresql://tests@127.0.0.1:{port}/{database}"
        self.url = f"postgresql+{{}}://tests@127.0.0.1:{port}/{database}"

    async def open(self, isolation: str | None = None) -> None:
        raise NotImplementedError

    async def begin(self) -> None:
        """Begins a transaction, if the library does not begin one by itself."""

    async def run(self, sql: str) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def rollback(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def savepoint(self) -> None:
        await self.run("SAVEPOINT here")

    async def back(self) -> None:
        """Rolls back to the savepoint."""
        await self.run("ROLLBACK TO SAVEPOINT here")

    async def enqueue(self, task: Task[Any, Any], *args: Any, **options: Any) -> str:
        return (await task.using(within=self.within, **options).enqueue(*args)).id

    async def many(self, app: Mainspring, jobs: Iterable[NewJob]) -> list[str]:
        handles: list[Handle[Any]] = await app.enqueue_many(jobs, within=self.within)
        return [handle.id for handle in handles]


class Asyncpg(Caller):
    async def open(self, isolation: str | None = None) -> None:
        self.within = await asyncpg.connect(self.dsn, ssl=False)
        self._isolation = isolation

    async def begin(self) -> None:
        isolation = self._isolation and self._isolation.lower().replace(" ", "_")
        self._transaction = self.within.transaction(isolation=isolation)
        await self._transaction.start()

    async def run(self, sql: str) -> None:
        await self.within.execute(sql)

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def close(self) -> None:
        await self.within.close()


class AsyncpgPool(Asyncpg):
    async def open(self, isolation: str | None = None) -> None:
        self._pool = await asyncpg.create_pool(self.dsn, ssl=False, min_size=1)
        self.within = await self._pool.acquire()
        self._isolation = isolation

    async def close(self) -> None:
        await self._pool.release(self.within)
        await self._pool.close()


class PsycopgAsync(Caller):
    async def open(self, isolation: str | None = None) -> None:
        self.within = await psycopg.AsyncConnection.connect(self.dsn)
        await self.within.set_autocommit(isolation == "AUTOCOMMIT")
        if isolation not in (None, "AUTOCOMMIT"):
            await self.within.set_isolation_level(psycopg.IsolationLevel[isolation.replace(" ", "_")])

    async def run(self, sql: str) -> None:
        await self.within.execute(sql)

    async def commit(self) -> None:
        await self.within.commit()

    async def rollback(self) -> None:
        await self.within.rollback()

    async def close(self) -> None:
        await self.within.close()


class AlchemyAsync(Caller):
    driver = "asyncpg"

    async def open(self, isolation: str | None = None) -> None:
        options = {"isolation_level": isolation} if isolation else {}
        self._engine = create_async_engine(self.url.format(self.driver), **options)
        self.within = self.made()

    def made(self) -> Any:
        return AsyncSession(self._engine)

    async def run(self, sql: str) -> None:
        await self.within.execute(text(sql))

    async def savepoint(self) -> None:
        self._nested = await self.within.begin_nested()

    async def back(self) -> None:
        await self._nested.rollback()

    async def commit(self) -> None:
        await self.within.commit()

    async def rollback(self) -> None:
        await self.within.rollback()

    async def close(self) -> None:
        await self.within.close()
        await self._engine.dispose()


class AlchemyAsyncPsycopg(AlchemyAsync):
    driver = "psycopg"


class AlchemyAsyncScoped(AlchemyAsync):
    def made(self) -> Any:
        return async_scoped_session(async_sessionmaker(self._engine), asyncio.current_task)


class AlchemyAsyncConnection(AlchemyAsync):
    async def open(self, isolation: str | None = None) -> None:
        await super().open(isolation)
        self.within = await self._engine.connect()

    def made(self) -> Any:
        return None


class AlchemyAsyncConnectionPsycopg(AlchemyAsyncConnection):
    driver = "psycopg"


class Plain(Caller):
    """A synchronous caller: everything it does runs in one thread of its own."""

    def __init__(self, port: int, database: str = "postgres") -> None:
        super().__init__(port, database)
        self._thread = ThreadPoolExecutor(1)  # it ends with this object

    async def here(self, act: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act, *args)

    async def open(self, isolation: str | None = None) -> None:
        await self.here(self._open, isolation)

    async def close(self) -> None:
        await self.here(self._close)

    async def run(self, sql: str) -> None:
        await self.here(self._run, sql)

    async def commit(self) -> None:
        await self.here(self.within.commit)

    async def rollback(self) -> None:
        await self.here(self.within.rollback)

    async def enqueue(self, task: Task[Any, Any], *args: Any, **options: Any) -> str:
        id: str = (await self.here(lambda: task.sync.using(within=self.within, **options).enqueue(*args))).id
        return id

    async def many(self, app: Mainspring, jobs: Iterable[NewJob]) -> list[str]:
        return [handle.id for handle in await self.here(lambda: app.sync.enqueue_many(jobs, within=self.within))]

    def _open(self, isolation: str | None) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        self.within.close()

    def _run(self, sql: str) -> None:
        self.within.execute(sql)


class Psycopg(Plain):
    def _open(self, isolation: str | None) -> None:
        self.within = psycopg.connect(self.dsn, row_factory=psycopg.rows.dict_row)
        self.within.autocommit = isolation == "AUTOCOMMIT"
        if isolation not in (None, "AUTOCOMMIT"):
            self.within.isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_")]


class Alchemy(Plain):
    def _open(self, isolation: str | None) -> None:
        options = {"isolation_level": isolation} if isolation else {}
        self._engine = create_engine(self.url.format("psycopg"), **options)
        self.within = self.made()

    def made(self) -> Any:
        return Session(self._engine)

    def _run(self, sql: str) -> None:
        self.within.execute(text(sql))

    async def savepoint(self) -> None:
        self._nested = await self.here(self.within.begin_nested)

    async def back(self) -> None:
        await self.here(self._nested.rollback)

    def _close(self) -> None:
        self.within.close()
        self._engine.dispose()


class AlchemyScoped(Alchemy):
    def made(self) -> Any:
        return scoped_session(sessionmaker(self._engine))


class AlchemyConnection(Alchemy):
    def made(self) -> Any:
        return self._engine.connect()


class Django(Plain):
    within = django_connection

    def _open(self, isolation: str | None) -> None:
        level = {"isolation_level": psycopg.IsolationLevel[isolation.replace(" ", "_")]} if isolation else {}
        site("default", ENGINE="django.db.backends.postgresql", NAME=self.database, USER="tests", HOST="127.0.0.1",
             PORT=str(self.port), OPTIONS=level)  # fmt: skip
        self._blocks = ExitStack()

    async def begin(self) -> None:
        await self.here(self._blocks.enter_context, transaction.atomic())

    def _run(self, sql: str) -> None:
        with django_connection.cursor() as cursor:
            cursor.execute(sql)

    async def savepoint(self) -> None:
        # Django 6.1 has another name for it.
        self._savepoint = await self.here(getattr(transaction, "savepoint_create", None) or transaction.savepoint)

    async def back(self) -> None:
        await self.here(transaction.savepoint_rollback, self._savepoint)

    async def commit(self) -> None:
        await self.here(self._blocks.close)

    async def rollback(self) -> None:
        await self.here(transaction.set_rollback, True)
        await self.here(self._blocks.close)

    def _close(self) -> None:
        django_connection.close()
        del connections["default"]


class Awaiting(Plain):
    """Has a synchronous connection, and awaits enqueue."""

    async def enqueue(self, task: Task[Any, Any], *args: Any, **options: Any) -> str:
        return await Caller.enqueue(self, task, *args, **options)

    async def many(self, app: Mainspring, jobs: Iterable[NewJob]) -> list[str]:
        return await Caller.many(self, app, jobs)


class PsycopgAwaiting(Awaiting, Psycopg):
    pass


class AlchemyAwaiting(Awaiting, Alchemy):
    pass


CALLERS: list[type[Caller]] = [
    Asyncpg, AsyncpgPool, Psycopg, PsycopgAwaiting, PsycopgAsync, Alchemy, AlchemyAwaiting, AlchemyScoped,
    AlchemyConnection, AlchemyAsync, AlchemyAsyncPsycopg, AlchemyAsyncScoped, AlchemyAsyncConnection,
    AlchemyAsyncConnectionPsycopg, Django,
]  # fmt: skip
