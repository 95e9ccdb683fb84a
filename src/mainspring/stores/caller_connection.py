"""The caller's own connection, behind whatever library it came in: its driver's, and what that library calls errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BadInput

# By name, so that no library is imported that the caller does not use.
DJANGO = "django.db.backends.base.base.BaseDatabaseWrapper"
_SESSION, _CONNECTION = "sqlalchemy.orm.session.Session", "sqlalchemy.engine.base.Connection"
_ASYNC_SESSION = "sqlalchemy.ext.asyncio.session.AsyncSession"
_ASYNC_CONNECTION = "sqlalchemy.ext.asyncio.engine.AsyncConnection"
_SCOPED = ("sqlalchemy.orm.scoping.scoped_session", "sqlalchemy.ext.asyncio.scoping.async_scoped_session")
_ASYNCPG = "asyncpg.connection.Connection"
_AWAITED = {
    _ASYNC_SESSION, _ASYNC_CONNECTION, _ASYNCPG, "asyncpg.pool.PoolConnectionProxy", "psycopg.AsyncConnection",
}  # fmt: skip

Words = Callable[[Exception], Exception]


class Loan:
    """A driver's connection; `words` says its errors as the caller's library does."""

    def __init__(self, connection: Any, words: Words = lambda error: error) -> None:
        self.connection, self.words = connection, words


def kinds(thing: Any) -> set[str]:
    """The full names of its class and of all that one inherits from."""
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__}


def awaited(thing: Any) -> bool:
    return bool(kinds(thing) & _AWAITED)


def itself(thing: Any) -> Any:
    """Of what stands for another thing in this thread or context, that thing."""
    if kinds(thing) & set(_SCOPED):
        return thing()
    if "django.utils.connection.ConnectionProxy" in kinds(thing):
        from django.db import connections

        return connections[thing.alias]
    return thing


def borrowed(thing: Any) -> Loan:
    """Of a library that does not await; may talk to the server."""
    known = kinds(thing)
    if DJANGO in known:
        return _of_django(thing)
    if known & {_SESSION, _CONNECTION}:
        connection = thing.connection() if _SESSION in known else thing
        if not connection.in_transaction():
            connection.begin()  # it commits nothing of a transaction that it has not begun itself
        return Loan(connection.connection.driver_connection, _in_words_of_sqlalchemy)
    return Loan(thing)


async def borrowed_async(thing: Any) -> Loan:
    known = kinds(thing)
    if not known & {_ASYNC_SESSION, _ASYNC_CONNECTION}:
        return Loan(thing)
    connection = await thing.connection() if _ASYNC_SESSION in known else thing
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if _ASYNCPG in kinds(driver) and not driver.is_in_transaction():
        await connection.exec_driver_sql("SELECT 1")  # with which SQLAlchemy begins there
    return Loan(driver, _in_words_of_sqlalchemy)


def _in_words_of_sqlalchemy(error: Exception) -> Exception:
    from sqlalchemy import exc

    kind = exc.OperationalError if "psycopg.OperationalError" in kinds(error) else exc.DBAPIError
    return kind("Mainspring's enqueue", None, error)


def _of_django(wrapper: Any) -> Loan:
    wrapper.validate_thread_sharing()
    if wrapper.connection is None or wrapper.get_autocommit():
        raise BadInput("within= needs an open transaction: with transaction.atomic(): …")
    wrapper.validate_no_broken_transaction()

    def words(error: Exception) -> Exception:
        try:
            with wrapper.wrap_database_errors:
                raise error
        except Exception as wrapped:
            return wrapped

    return Loan(wrapper.connection, words)
