"""The SQL script that migrates the PostgreSQL store, for this library and for psql."""

from __future__ import annotations

from ..migrations import Migrations
from .url import PostgresUrl

# Lock timeout of a migration: while it waits for a table, all other transactions wait behind it.
LOCK_SECONDS = 2.0
# The schema with which releases move flows as this one does. One without flows would end a step and move nothing;
# those before know no plan that grows, or also no signals, no task that yields, no skip and no timeout.
FLOWS_VERSION = 10
# The schema with which releases know ends that are counted beside the flow's row.
COUNTS_VERSION = 7
# The schema that has tables of flows.
_FLOW_TABLES_VERSION = 6
# The schema that has a table of checkpoints.
_CHECKPOINTS_VERSION = 9
# The schema with which releases know limits of jobs. Others would claim the jobs without them.
LIMITS_VERSION = 11


def migration_script(url: PostgresUrl, migrations: Migrations, at: int, target: int | None) -> str:
    """The whole script from one version to another, as one transaction."""
    start, goal = migrations.target(at), migrations.target(target)
    where = f"{url.schema}.{url.prefix}*"
    if start == goal:
        return f"-- {where} has schema {at}: nothing to do\n"
    head = f"-- {where}: from schema {at} to {goal}, all or nothing"
    parts = [
        head,
        "BEGIN;",
        transaction_limits(url),
        _require_version(url, at),
        body(url, migrations, at, goal),
        "COMMIT;",
    ]
    return "\n".join(parts) + "\n"


def transaction_limits(url: PostgresUrl) -> str:
    """SQL that sets timeouts and search path, and takes a lock: a second migration waits, then has nothing to do."""
    return f"""SET LOCAL lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms';
SET LOCAL statement_timeout = 0;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = "{url.schema}";
DO $$ BEGIN PERFORM pg_advisory_xact_lock({url.lock}, -1); END $$;"""


def body(url: PostgresUrl, migrations: Migrations, at: int, target: int) -> str:
    """The statements between two versions, for a transaction that has set its limits."""
    oldest = str(migrations.oldest(target))
    parts = [_GUARD.format(target=target, oldest=oldest)] if at else []
    if at >= _FLOW_TABLES_VERSION:
        parts.append(_LOCK_FLOWS if target >= min(at, FLOWS_VERSION) else _REFUSE_FLOWS.format(target=target))
    if target < _CHECKPOINTS_VERSION <= at:
        parts.append(_REFUSE_CHECKPOINTS.format(target=target))
    if target < LIMITS_VERSION <= at:
        parts.append(_REFUSE_LIMITED_JOBS.format(target=target))
    parts += [f"-- to {after}\n{text}" for after, text in migrations.between(at, target)]
    if min(at, target) >= _FLOW_TABLES_VERSION:
        limited = _OR_LIMITED_JOBS if min(at, target) >= LIMITS_VERSION else ""
        oldest = _OLDEST_WITH_FLOWS.format(oldest=oldest, limited=limited)
    parts.append(_RECORD_VERSION.format(target=target, oldest=oldest) if target else _DROP_VERSION)
    return ("" if at else _CREATE_SCHEMA.format(schema=url.schema)) + url.bare("\n".join(parts))


def _require_version(url: PostgresUrl, at: int) -> str:
    return url.bare(_REQUIRE_VERSION.format(at=at))


_REQUIRE_VERSION = """DO $$ DECLARE found integer := 0; BEGIN
    IF to_regclass('mainspring_schema') IS NOT NULL THEN SELECT version INTO found FROM mainspring_schema; END IF;
    IF found <> {at} THEN RAISE EXCEPTION 'the schema is %, these are the steps from {at}', found; END IF;
END $$;"""

# Checked first, because a role that may use an existing schema may not be allowed to create one.
_CREATE_SCHEMA = """DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{schema}') THEN CREATE SCHEMA "{schema}"; END IF;
END $$;
"""

# Fails if a live worker cannot work on the new tables; a beat that waits for the lock reads the new version. A worker
# whose record cannot be decoded is skipped with a warning.
_GUARD = """LOCK TABLE mainspring_workers IN SHARE ROW EXCLUSIVE MODE;
DO $$ DECLARE alive text; worker record; known integer; BEGIN
    FOR worker IN SELECT id, info FROM mainspring_workers
        WHERE until > extract(epoch FROM clock_timestamp()) * 1000000 ORDER BY id
    LOOP
        BEGIN
            known := worker.info::json ->> 'schema';
        EXCEPTION WHEN data_exception THEN
            known := NULL;
            RAISE WARNING 'the record of worker % cannot be decoded, and is left out', worker.id;
        END;
        IF known > 0 AND known NOT BETWEEN {oldest} AND {target} THEN
            alive := concat_ws(', ', alive, worker.id || ' (knows ' || known || ')');
        END IF;
    END LOOP;
    IF alive IS NOT NULL THEN RAISE object_in_use USING
        MESSAGE = 'workers are alive that cannot work with schema {target}: ' || alive || '; stop them first';
    END IF;
END $$;"""

# No flow may come between the look and the commit.
_LOCK_FLOWS = "LOCK TABLE mainspring_flows IN SHARE ROW EXCLUSIVE MODE;"
_REFUSE_FLOWS = f"""{_LOCK_FLOWS}
DO $$ DECLARE stored bigint; BEGIN
    SELECT count(*) INTO stored FROM mainspring_flows;
    IF stored > 0 THEN RAISE object_in_use USING
        MESSAGE = stored || ' flows are stored, which schema {{target}} cannot keep: delete their jobs first';
    END IF;
END $$;"""
# Without their checkpoints the steps of these jobs would run again.
_REFUSE_CHECKPOINTS = """LOCK TABLE mainspring_checkpoints IN SHARE ROW EXCLUSIVE MODE;
DO $$ DECLARE jobs bigint; BEGIN
    SELECT count(DISTINCT job_id) INTO jobs FROM mainspring_checkpoints;
    IF jobs > 0 THEN RAISE object_in_use USING
        MESSAGE = jobs || ' jobs have checkpoints, which schema {target} cannot keep: delete them first';
    END IF;
END $$;"""
_REFUSE_LIMITED_JOBS = """LOCK TABLE mainspring_limited IN SHARE ROW EXCLUSIVE MODE;
DO $$ DECLARE jobs bigint; BEGIN
    SELECT count(*) INTO jobs FROM mainspring_limited;
    IF jobs > 0 THEN RAISE object_in_use USING
        MESSAGE = jobs || ' unfinished jobs have a limit, which schema {target} cannot keep: end or cancel them';
    END IF;
END $$;"""
# While flows or limited jobs are stored, the releases that were shut out stay so.
_OLDEST_WITH_FLOWS = """greatest({oldest}, CASE WHEN EXISTS (SELECT 1 FROM mainspring_flows){limited}
    THEN (SELECT oldest FROM before) ELSE 0 END)"""
_OR_LIMITED_JOBS = " OR EXISTS (SELECT 1 FROM mainspring_limited)"

_RECORD_VERSION = """CREATE TABLE IF NOT EXISTS mainspring_schema (version integer NOT NULL);
ALTER TABLE mainspring_schema ADD COLUMN IF NOT EXISTS oldest integer;
WITH before AS (DELETE FROM mainspring_schema RETURNING oldest)
INSERT INTO mainspring_schema (version, oldest) SELECT {target}, {oldest};"""
_DROP_VERSION = "DROP TABLE mainspring_schema;"
