"""The tables of the PostgreSQL store: which version they are, and stepping them up and down beside live workers."""

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

# How often it asks for its locks, and the seconds between, in which others get through.
MAX_LOCK_TRIES, RETRY_SECONDS = 10, 2.0
# A step may have an index to build.
MIGRATION_TIMEOUT_SECONDS = 3600


_INDEX_STATEMENT = re.compile(
    r"(?P<made>CREATE (?:UNIQUE )?INDEX mainspring_(?P<name>\w+) ON (?:ONLY )?mainspring_(?P<table>\w+)[^;]*)"
    r"|DROP INDEX (?:IF EXISTS )?mainspring_(?P<gone>\w+)|DROP TABLE (?:IF EXISTS )?mainspring_(?P<without>\w+)"
)


def indexes() -> dict[str, str]:
    """The indexes of the newest schema by name, less the prefix, with the statements that make them."""
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


# Not to_regclass(): after a wait for the lock it would answer from a cache that has not heard of the table yet.
_THERE = """SELECT true FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = $1 AND relname = $2"""


async def read_schema(db: Session, migrations: Migrations) -> Schema:
    if not await db.value(_THERE, db.url.schema, f"{db.url.prefix}schema"):
        return migrations.schema(0, 0)
    return await _read_version(db, migrations)


async def check_schema(db: Session, migrations: Migrations) -> None:
    """Raises if this release cannot work on the tables, as they are now."""
    if trouble := (await _read_version(db, migrations)).trouble:
        raise SchemaMismatch(trouble)


async def _read_version(db: Session, migrations: Migrations) -> Schema:
    version, *oldest = await db.row("SELECT * FROM mainspring_schema") or (0,)
    return migrations.schema(version, *oldest or (None,))


def is_schema_error(error: StoreError) -> bool:
    """Whether the server did not know what a statement of ours names."""
    code = getattr(error.__cause__, "sqlstate", None) or ""
    return code.startswith("42") and code != asyncpg.InsufficientPrivilegeError.sqlstate


# stepping


async def migrate(db: Session, migrations: Migrations, target: int | None, *, only_up: bool = False) -> list[int]:
    """Steps the schema to `target` in one transaction of its own; returns the versions it passed through.

    With `only_up` a later schema stays as it is, if this release can work on it.
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
    who = "; ".join(holders) or "somebody who has ended meanwhile"
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
    way = [] if schema.version == target else migrations.between(schema.version, target)
    if way:
        await run(script.body(db.url, migrations, schema.version, target), timeout=MIGRATION_TIMEOUT_SECONDS)
    await run("COMMIT")
    return [after for after, _ in way]


# who is in the way

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
    """Those who have held a lock on our tables for as long as we had waited, the longest first."""
    url = db.url
    names = [url.prefix + name for name in {*re.findall(r"mainspring_(\w+)", migrations.text), "schema"}]
    rows = await db.rows(_HOLDERS, url.schema, names, url.lock % 2**32, script.LOCK_SECONDS)
    return [_holder(*row) for row in rows]


def _holder(pid: int, user: str, program: str, state: str, seconds: float, query: str) -> str:
    said = mask_to_cut(" ".join((query or "").split()))[:80]
    return f"pid {pid} (user {user}, {program or 'no name'}, {state}, open for {seconds:.0f} s: {said})"


async def _missing_rights(db: Session, migrations: Migrations, target: int, said: str) -> str:
    schema, shown = db.url.schema, db.url.shown
    role, base = await db.row("SELECT current_user, current_database()")
    at = (await read_schema(db, migrations)).version
    grant = f'GRANT CREATE ON SCHEMA "{schema}" TO "{role}"'
    if not await db.value("SELECT true FROM pg_namespace WHERE nspname = $1", schema):
        grant = f'GRANT CREATE ON DATABASE "{base}" TO "{role}"'
    way = "up" if at < target else "down"
    options = f"--to {target} --from {at}" if way == "down" or target != migrations.newest else f"--from {at}"
    return (
        f"role {role!r} may not change the tables of {shown} from schema {at} to {target} ({said}): let their owner "
        f"run what `mainspring migrate {way} --sql {options}` prints, or `mainspring migrate {way}`"
        + (f"; or, for this role to own them: {grant}" if at == 0 else "")
    )
