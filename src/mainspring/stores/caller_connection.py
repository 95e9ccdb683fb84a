"""Finds the driver's connection in a caller's asyncpg, psycopg, SQLAlchemy or Django object, for `within=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BadInput

# Class names instead of classes, so that no library is imported that the caller does not use.
DJANGO = "django.db.backends.base.base.BaseDatabaseWrapper"
_SESSION, _CONNECTION = "sqlalchemy.orm.session.Session", "sqlalchemy.engine.base.Connection"
_ASYNC_SESSION = "sqlalchemy.ext.asyncio.session.AsyncSession"
_ASYNC_CONNECTION = "sqlalchemy.ext.asyncio.engine.AsyncConnection"
_SCOPED = ("sqlalchemy.orm.scoping.scoped_session", "sqlalchemy.ext.asyncio.scoping.async_scoped_session")
_ASYNCPG = "asyncpg.connection.Connection"
_ASYNC_CLASSES = {
    _ASYNC_SESSION,
    _ASYNC_CONNECTION,
    _ASYNCPG,
    "asyncpg.pool.PoolConnectionProxy",
    "psycopg.AsyncConnection",
}

ErrorTranslator = Callable[[Exception], Exception]


class CallerConnection:
    """A driver's connection; `translate` turns its errors into those of the caller's library."""

    def __init__(self, connection: Any, translate: ErrorTranslator = lambda error: error) -> None:
        self.connection, self.translate = connection, translate


def class_names(thing: Any) -> set[str]:
    """The full names of the object's class and of its base classes."""
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__}


def is_async(thing: Any) -> bool:
    return bool(class_names(thing) & _ASYNC_CLASSES)


def unwrap_proxy(thing: Any) -> Any:
    """The object behind a proxy (scoped session, Django's `connection`) in this thread or context."""
    if class_names(thing) & set(_SCOPED):
        return thing()
    if "django.utils.connection.ConnectionProxy" in class_names(thing):
        from django.db import connections

        return connections[thing.alias]
    return thing


def driver_connection(thing: Any) -> CallerConnection:
    """The connection of a synchronous library; may talk to the server. Raises BadInput if Django is in autocommit."""
    known = class_names(thing)
    if DJANGO in known:
        return _from_django(thing)
    if known & {_SESSION, _CONNECTION}:
        connection = thing.connection() if _SESSION in known else thing
        if not connection.in_transaction():
            connection.begin()  # SQLAlchemy does not commit a transaction that it has not begun itself
        return CallerConnection(connection.connection.driver_connection, _as_sqlalchemy_error)
    return CallerConnection(thing)


async def driver_connection_async(thing: Any) -> CallerConnection:
    known = class_names(thing)
    if not known & {_ASYNC_SESSION, _ASYNC_CONNECTION}:
        return CallerConnection(thing)
    connection = await thing.connection() if _ASYNC_SESSION in known else thing
    if not connection.in_transaction():
        await connection.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if _ASYNCPG in class_names(driver) and not driver.is_in_transaction():
        await connection.exec_driver_sql("SELECT 1")  # SQLAlchemy begins the transaction with the first statement
    return CallerConnection(driver, _as_sqlalchemy_error)


def _as_sqlalchemy_error(error: Exception) -> Exception:
    from sqlalchemy import exc

    kind = exc.OperationalError if "psycopg.OperationalError" in class_names(error) else exc.DBAPIError
    return kind("Mainspring's enqueue", None, error)


def _from_django(wrapper: Any) -> CallerConnection:
    wrapper.validate_thread_sharing()
    if wrapper.connection is None or wrapper.get_autocommit():
        raise BadInput("within= needs an open transaction: with transaction.atomic(): …")
    wrapper.validate_no_broken_transaction()

    def translate(error: Exception) -> Exception:
        try:
            with wrapper.wrap_database_errors:
                raise error
        except Exception as wrapped:
            return wrapped

    return CallerConnection(wrapper.connection, translate)
