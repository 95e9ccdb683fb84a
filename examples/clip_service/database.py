"""Connections to the database that the settings name."""

import sqlite3
from functools import cache

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.orm import Session

from .settings import settings
from .tables import Table

# Options of the URL that are for Mainspring's store, not for the driver.
STORE_OPTIONS = ("schema", "prefix", "listen", "pooler")


def session() -> Session:
    """`with session() as db:` reads; `with session() as db, db.begin():` writes, in one transaction."""
    return Session(engine())


def engine() -> Engine:
    return _engine(settings().url)


@cache
def _engine(url: str) -> Engine:
    driver = driver_url(url)
    if driver.get_backend_name() == "sqlite":
        # Seconds that a write waits while another connection writes.
        made = create_engine(driver, connect_args={"timeout": 30})
        event.listen(made, "connect", _set_up_sqlite)
        return made
    return create_engine(driver, pool_pre_ping=True)


def _set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """Readers do not wait for a writer, as in the job store; a commit that loses its power is rolled back whole."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def driver_url(url: str) -> URL:
    """The URL as SQLAlchemy takes it: psycopg for PostgreSQL, without the options of the job store."""
    parsed = make_url(url).difference_update_query(STORE_OPTIONS)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def create_tables() -> None:
    Table.metadata.create_all(engine())
