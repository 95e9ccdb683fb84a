"""Reads the schema version of the PostgreSQL store, and migrates its tables while workers are live."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence

import asyncpg

from ...errors import SchemaMismatch, StoreError, StoreUnavailable
from ...mask import mask_to_cut
from ...records.schema import Schema
from ..migrations import Migrations, load_migrations
from . import script
from .pool import Session

MIGRATIONS = load_migrations("postgres/tables.sql")

# A migration that does not get its locks is tried this often.
MAX_LOCK_TRIES = 10
# Longest pause between two tries, in which other transactions go on.
RETRY_SECONDS = 2.0
# A migration may have to build an index.
MIGRATION_TIMEOUT_SECONDS = 3600


_INDEX_STATEMENT = re.compile(
    r"(?P<made>CREATE (?:UNIQUE )?INDEX mainspring_(?P<name>\w+) ON (?:ONLY )?mainspring_(?P<table>\w+)[^;]*)"
    r"|DROP INDEX (?:IF EXISTS )?mainspring_(?P<gone>\w+)|DROP TABLE (?:IF EXISTS )?mainspring_(?P<without>\w+)"
)


def indexes() -> dict[str, str]:
    """The statements that create the indexes of the newest schema, by the index's name without prefix."""
    made: dict[str, tuple[str, str]] = {}
    for _, body in MIGRATIONS.between(0, MIGRATIONS.newest):
        for found in _INDEX_STATEMENT.finditer(body):
            if found["made"]:
                made[found["name"]] = found["table"], found["made"]
            else:
                made = {
                    name: (table, sql)
                    for name, (table, sql) in made.items()
                    if name != found["gone"] and table != found["without"]
                }
    return {name: sql for name, (_, sql) in made.items()}


# Not to_regclass(): after a wait for the lock its cache may not know the table yet.
_THERE = """SELECT true FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = $1 AND relname = $2"""


async def read_schema(db: Session, migrations: Migrations) -> Schema:
    """The schema version of the store; 0 without tables."""
    if not await db.value(_THERE, db.url.schema, f"{db.url.prefix}schema"):
        return migrations.schema(0, 0)
    return await _read_version(db, migrations)


def check_schema(version: int | None, oldest: int | None, migrations: Migrations) -> None:
    """Raises SchemaMismatch if this release cannot work on tables of that version; None: there is no version."""
    if trouble := migrations.schema(version or 0, oldest).trouble:
        raise SchemaMismatch(trouble)


async def _read_version(db: Session, migrations: Migrations) -> Schema:
    version, *oldest = await db.row("SELECT * FROM mainspring_schema") or (0,)
    return migrations.schema(version, *oldest or (None,))


def is_schema_error(error: StoreError) -> bool:
    """Whether the server did not know a table, column or function that a statement names."""
    code = getattr(error.__cause__, "sqlstate", None) or ""
    return code.startswith("42") and code != asyncpg.InsufficientPrivilegeError.sqlstate


# migrating


async def migrate_schema(
    db: Session, migrations: Migrations, target: int | None, *, only_up: bool = False
) -> list[int]:
    """Migrates the schema to `target` in one transaction, and returns the versions on the way.

    With `only_up` a later schema is left as it is; raises SchemaMismatch if this release cannot work on it. Raises
    StoreUnavailable if a lock is not granted, with the transactions that hold it.
    """
    goal = migrations.target(target)
    holders: Sequence[str] = ()
    for tries in range(MAX_LOCK_TRIES):
        if tries:
            await asyncio.sleep(random.uniform(RETRY_SECONDS / 2, RETRY_SECONDS))
        try:
            return await _migrate_once(db, migrations, goal, only_up)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await db.connection.execute("ROLLBACK")
            holders = await _holders(db, migrations)
        except asyncpg.ObjectInUseError as error:
            raise StoreUnavailable(str(error)) from error
        except asyncpg.InsufficientPrivilegeError as error:
            await db.connection.execute("ROLLBACK")
            raise StoreError(await _missing_rights(db, migrations, goal, str(error))) from error
    who = "; ".join(holders) or "a transaction that has ended meanwhile"
    raise StoreUnavailable(
        f"the schema of {db.url.shown} was not changed: {MAX_LOCK_TRIES} times a lock was not given in "
        f"{script.LOCK_SECONDS:g} s. Held by {who}. End it (pg_terminate_backend), or try again later"
    )


async def _migrate_once(db: Session, migrations: Migrations, target: int, only_up: bool) -> list[int]:
    run = db.connection.execute
    await run("BEGIN")
    await run(script.transaction_limits(db.url))
    schema = await read_schema(db, migrations)
    if only_up and schema.version > target:
        target = schema.version
        if schema.trouble:
            raise SchemaMismatch(schema.trouble)
    pending = [] if schema.version == target else migrations.between(schema.version, target)
    if pending:
        await run(script.body(db.url, migrations, schema.version, target), timeout=MIGRATION_TIMEOUT_SECONDS)
    await run("COMMIT")
    return [version for version, _ in pending]


# what blocks a migration

_HOLDERS = """SELECT pid, usename, application_name, coalesce(state, '?'),
        coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8, query
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
        AND coalesce(xact_start < clock_timestamp() - make_interval(secs => $4), true)
        AND pid IN (SELECT pid FROM pg_locks LEFT JOIN pg_class ON pg_class.oid = relation
            LEFT JOIN pg_namespace AS space ON space.oid = relnamespace
            WHERE granted AND ((nspname = $1 AND relname = ANY($2))
                OR (locktype = 'advisory' AND classid::bigint = $3 AND objid = 4294967295 AND objsubid = 2)))
    ORDER BY xact_start LIMIT 3"""


async def _holders(db: Session, migrations: Migrations) -> list[str]:
    """Describes the transactions that have held a lock on our tables for the whole wait, the oldest first."""
    url = db.url
    names = [url.prefix + name for name in {*re.findall(r"mainspring_(\w+)", migrations.text), "schema"}]
    rows = await db.rows(_HOLDERS, url.schema, names, url.lock % 2**32, script.LOCK_SECONDS)
    return [_holder(*row) for row in rows]


def _holder(pid: int, user: str, program: str, state: str, seconds: float, query: str) -> str:
    statement = mask_to_cut(" ".join((query or "").split()))[:80]
    return f"pid {pid} (user {user}, {program or 'no name'}, {state}, open for {seconds:.0f} s: {statement})"


async def _missing_rights(db: Session, migrations: Migrations, target: int, reason: str) -> str:
    """The message for a role without the rights to migrate."""
    schema, shown = db.url.schema, db.url.shown
    role, base = await db.row("SELECT current_user, current_database()")
    at = (await read_schema(db, migrations)).version
    grant = f'GRANT CREATE ON SCHEMA "{schema}" TO "{role}"'
    if not await db.value("SELECT true FROM pg_namespace WHERE nspname = $1", schema):
        grant = f'GRANT CREATE ON DATABASE "{base}" TO "{role}"'
    direction = "up" if at < target else "down"
    options = f"--to {target} --from {at}" if direction == "down" or target != migrations.newest else f"--from {at}"
    return (
        f"role {role!r} may not change the tables of {shown} from schema {at} to {target} ({reason}): let their owner "
        f"run what `mainspring migrate {direction} --sql {options}` prints, or `mainspring migrate {direction}`"
        + (f"; or, for this role to own them: {grant}" if at == 0 else "")
    )
