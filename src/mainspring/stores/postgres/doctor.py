"""The doctor's checks of a PostgreSQL server: release, settings, connections, old transactions, tables, listener."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ...records.finding import Finding, format_size
from ...records.job import UNREADABLE
from ...records.unreadable import record_finding
from .handle import PostgresHandle
from .pool import Session
from .schedules import unreadable_names
from .schema import indexes

# PostgreSQL 15, as server_version_num.
MIN_SERVER_VERSION = 150000
# A transaction that is open for longer keeps VACUUM from removing the rows of ended jobs, which slows claims down.
MAX_TRANSACTION_SECONDS = 600.0
# More dead rows than this, and than live ones, slow claims down; fewer are normal between two vacuums.
MAX_DEAD_ROWS = 500_000
# The share of the server's connections that may be in use.
MAX_CONNECTION_SHARE = 0.8
# Timeout of the listener's proof that notifications arrive.
LISTENER_PROOF_SECONDS = 8.0

_SERVER = """SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
    pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')"""


class PostgresDoctor(PostgresHandle):
    """The verb `diagnose`."""

    async def diagnose(self) -> list[Finding]:
        found = await self._call(_check_server)
        pooled = bool(self._open().connector.pooled)
        listens = self._listener is not None and await self._listener.is_listening(LISTENER_PROOF_SECONDS)
        trouble = self._listener.trouble if self._listener is not None else ""
        return [*found, pooler(pooled), listener(self._listener is not None, listens, trouble, pooled)]


async def _check_server(db: Session) -> list[Finding]:
    """The checks through one connection, which only read."""
    number, text, standby, commit, sync = await db.row(_SERVER)
    return [
        release(number, text, standby),
        commits(commit, sync),
        connections(*await db.row(_CONNECTIONS)),
        transactions(await db.rows(_HOLDERS), bool(await db.value(_SEES_ALL))),
        dead_rows(*await db.row(_ROWS, db.url.sql("mainspring_jobs"))),
        await _indexes(db),
        await _tables(db),
        await _records(db),
    ]


async def _records(db: Session) -> Finding:
    sql = f"SELECT id FROM mainspring_jobs WHERE parked AND lease = '{UNREADABLE}' ORDER BY id"
    return record_finding([id for (id,) in await db.rows(sql)], await unreadable_names(db))


def release(number: int, text: str, standby: bool) -> Finding:
    if number < MIN_SERVER_VERSION:
        return Finding("PostgreSQL", "bad", f"{text} is too old", "use PostgreSQL 15 or newer")
    if standby:
        return Finding("PostgreSQL", "bad", f"{text}, a standby that only reads", "connect to the primary")
    return Finding("PostgreSQL", "ok", text)


def commits(commit: str, sync: str) -> Finding:
    if sync == "off":
        return Finding("commits", "bad", "fsync is off: a power loss may destroy the database", "set fsync = on")
    if commit != "off":
        return Finding("commits", "ok", f"synchronous_commit {commit}: what was acknowledged survives a power loss")
    text = "synchronous_commit off: a crash of the server may take the last commits"
    return Finding("commits", "warn", text, "durability='full', and synchronous_commit = on in the server's settings")


# connections

_CONNECTIONS = """SELECT count(*), count(*) FILTER (WHERE application_name = 'mainspring'),
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
    FROM pg_stat_activity WHERE backend_type = 'client backend'"""


def connections(taken: int, ours: int, most: int) -> Finding:
    text = f"{taken} of {most} taken, {ours} of them by mainspring"
    if taken < MAX_CONNECTION_SHARE * most:
        return Finding("connections", "ok", text)
    return Finding("connections", "warn", text, "raise max_connections, run fewer processes, or use a pooler")


# what keeps dead rows

_HOLDERS = """SELECT * FROM (
    SELECT 'transaction' AS kind, pid::text AS name,
        concat_ws(', ', nullif(application_name, ''), usename, state) AS who,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
            AND backend_type IS DISTINCT FROM 'autovacuum worker' -- which removes dead rows
    UNION ALL
    SELECT 'prepared', gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8
        FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'slot', slot_name::text, age(xmin)::text, NULL FROM pg_replication_slots
        WHERE xmin IS NOT NULL AND NOT active
    ) AS holder ORDER BY seconds DESC NULLS FIRST LIMIT 1"""
_SEES_ALL = "SELECT pg_has_role('pg_read_all_stats', 'usage')"
_ENDED_BY = {
    "transaction": "SELECT pg_terminate_backend({}), or fix what leaves it open: idle_in_transaction_session_timeout",
    "prepared": "COMMIT PREPARED or ROLLBACK PREPARED '{}'",
    "slot": "start its standby, or SELECT pg_drop_replication_slot('{}')",
}


def transactions(holders: Sequence[Any], sees_all: bool) -> Finding:
    """A finding on the oldest transaction or slot that keeps dead rows."""
    about, unseen = "oldest transaction", "" if sees_all else "; those of other users show with pg_read_all_stats"
    if not holders:
        return Finding(about, "ok", f"none is open{unseen}")
    kind, name, who, seconds = holders[0]
    if seconds is not None and seconds < MAX_TRANSACTION_SECONDS:
        return Finding(about, "ok", f"{seconds:.0f} s{unseen}")
    long = "" if seconds is None else f" is open for {seconds:.0f} s"
    what = {
        "transaction": f"process {name} ({who}){long}",
        "prepared": f"prepared transaction '{name}' of {who}{long}",
        "slot": f"replication slot '{name}' is not in use and {who} transactions behind",
    }[kind]
    text = f"{what}: rows of ended jobs cannot be cleared away, and claims get slower"
    return Finding(about, "warn", text, _ENDED_BY[kind].format(name))


_ROWS = """SELECT n_live_tup, n_dead_tup, greatest(last_vacuum, last_autovacuum), current_setting('autovacuum'),
    clock_timestamp() FROM pg_stat_user_tables WHERE relid = $1::regclass"""


def dead_rows(live: int, dead: int, cleared: datetime | None, auto: str, now: datetime) -> Finding:
    when = "never cleared" if cleared is None else f"cleared {timedelta(seconds=(now - cleared).seconds)} ago"
    if cleared is not None and now - cleared >= timedelta(days=1):
        when = f"cleared {(now - cleared).days} days ago"
    text = f"{dead:,} beside {live:,} live ones, {when}"
    if auto == "off":
        return Finding("dead rows", "warn", f"{text}; autovacuum is off", "set autovacuum = on: the store needs it")
    if dead < MAX_DEAD_ROWS or dead < live:
        return Finding("dead rows", "ok", text)
    remedy = "end what keeps them (oldest transaction), then VACUUM the table of unfinished jobs"
    return Finding("dead rows", "warn", f"{text}: claims get slower", remedy)


# indexes and tables

_INDEXES = """SELECT relname, indisvalid AND indisready FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    JOIN pg_namespace AS space ON space.oid = relnamespace WHERE nspname = $1"""


async def _indexes(db: Session) -> Finding:
    made = {f"{db.url.prefix}{name}": db.url.sql(sql) for name, sql in indexes().items()}
    valid = dict(await db.rows(_INDEXES, db.url.schema))
    missing, broken = sorted(made.keys() - valid), sorted(name for name in made.keys() & valid if not valid[name])
    if missing:
        remedy = "; ".join(" ".join(made[name].split()) for name in missing)
        return Finding("indexes", "bad", f"missing: {', '.join(missing)}", remedy)
    if broken:
        remedy = "; ".join(f'REINDEX INDEX CONCURRENTLY "{db.url.schema}"."{name}"' for name in broken)
        return Finding("indexes", "bad", f"invalid: {', '.join(broken)}", remedy)
    return Finding("indexes", "ok", f"all {len(made)} are there")


# A partitioned table has no size of its own.
_SIZE = """SELECT coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint FROM (
    SELECT $1::regclass::oid AS oid UNION SELECT relid FROM pg_partition_tree($1::regclass)) AS part"""


async def _tables(db: Session) -> Finding:
    names = ("mainspring_jobs", "mainspring_finished", "mainspring_executions", "mainspring_logs")
    hot, finished, runs, lines = [format_size(await db.value(_SIZE, db.url.sql(name))) for name in names]
    return Finding(
        "tables", "ok", f"unfinished jobs {hot}, finished ones {finished}, their runs {runs}, log lines {lines}"
    )


# pooler and listener


def pooler(pooled: bool) -> Finding:
    text = "through one in transaction mode: each call is a transaction" if pooled else "none in between"
    return Finding("pooler", "ok", text)


def listener(configured: bool, listening: bool, trouble: str, pooled: bool) -> Finding:
    if not configured:
        return Finding("listener", "ok", "switched off by listen=off: workers poll")
    if listening:
        return Finding("listener", "ok", "notifications arrive")
    remedy = "look at the server's log"
    if pooled:
        remedy = "give workers a connection past the pooler: &listen=postgresql://…, or accept it: &listen=off"
    return Finding("listener", "warn", f"{trouble or 'no answer yet'}: jobs wait for the next poll", remedy)
