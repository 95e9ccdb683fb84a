"""The tables of the PostgreSQL store: which version they are, and stepping them up and down."""

from __future__ import annotations

import re
from importlib.resources import files

from ..errors import BadInput, SchemaMismatch
from .postgres_pool import Session


def _steps() -> dict[tuple[str, int], str]:
    """The numbered steps of postgres.sql."""
    text = files("mainspring.stores").joinpath("postgres.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- (up|down) (\d+)\n", text, flags=re.MULTILINE)[1:]
    return {
        (way, int(number)): re.sub(r"--.*", "", body)
        for way, number, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


STEPS = _steps()
NEWEST = max(number for _, number in STEPS)


_MADE = re.compile(
    r"(?P<made>CREATE (?:UNIQUE )?INDEX mainspring_(?P<name>\w+) ON (?:ONLY )?mainspring_(?P<table>\w+)[^;]*)"
    r"|DROP INDEX (?:IF EXISTS )?mainspring_(?P<gone>\w+)|DROP TABLE (?:IF EXISTS )?mainspring_(?P<without>\w+)"
)


def indexes() -> dict[str, str]:
    """The indexes of the newest schema by name, less the prefix, with the statements that make them."""
    made: dict[str, tuple[str, str]] = {}
    for number in range(1, NEWEST + 1):
        for found in _MADE.finditer(STEPS["up", number]):
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


async def _there(db: Session) -> bool:
    return bool(await db.value(_THERE, db.place.schema, f"{db.place.prefix}schema"))


async def version(db: Session) -> int:
    """0: there are no tables."""
    if not await _there(db):
        return 0
    return int(await db.value("SELECT version FROM mainspring_schema") or 0)


async def migrate(db: Session, target: int | None, *, only_up: bool = False) -> list[int]:
    """Steps the schema to `target`, inside the caller's transaction; returns the versions it passed through."""
    target = NEWEST if target is None else target
    if not 0 <= target <= NEWEST:
        raise BadInput(f"there is no schema version {target}; this release knows 0 to {NEWEST}")
    # One at a time: whoever comes second finds nothing left to do.
    await db.run("SELECT pg_advisory_xact_lock($1, -1)", db.place.lock)
    at = await version(db)
    _check(at)
    if at == target or (only_up and at > target):
        return []
    await _prepare(db)
    passed: list[int] = []
    while at != target:
        way, number, after = ("up", at + 1, at + 1) if at < target else ("down", at, at - 1)
        await db.run(STEPS[way, number])
        at = after
        passed.append(at)
    await db.run("DELETE FROM mainspring_schema")
    await db.run("INSERT INTO mainspring_schema VALUES ($1)", at)
    return passed


async def current(db: Session) -> bool:
    """Whether this release can use the tables as they are; if only another one can, it says so."""
    at = await version(db)
    _check(at)
    return at == NEWEST


def _check(at: int) -> None:
    if at > NEWEST:
        raise SchemaMismatch(f"the database has schema {at}, this release knows {NEWEST} at most: upgrade mainspring")


async def _prepare(db: Session) -> None:
    # Asked first: who may use a schema that is there need not be one who may make it.
    if not await db.value("SELECT 1 FROM pg_namespace WHERE nspname = $1", db.place.schema):
        await db.run(f'CREATE SCHEMA "{db.place.schema}"')
    if not await _there(db):
        await db.run("CREATE TABLE mainspring_schema (version integer NOT NULL)")
