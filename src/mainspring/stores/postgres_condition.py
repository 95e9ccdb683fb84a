"""How a PostgreSQL server is, as far as jobs are concerned: its release, settings, and what holds it up."""

from __future__ import annotations

from ..finding import Finding, size
from .postgres_pool import Session

MINIMUM = 130000
# A transaction open for so long keeps the rows of finished jobs from being cleared away, and claims get slower.
LONG = 600.0

_CONDITION = """SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
    current_setting('synchronous_commit'), current_setting('fsync'),
    (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()),
    pg_total_relation_size($1::regclass),
    (SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree($2::regclass))"""


async def condition(db: Session) -> list[Finding]:
    """Looks only."""
    names = [db.place.sql(name) for name in ("mainspring_jobs", "mainspring_finished")]
    number, text, commit, sync, oldest, hot, finished = await db.row(_CONDITION, *names)
    return [
        release(number, text),
        commits(commit, sync),
        transactions(oldest or 0.0),
        Finding("tables", "ok", f"unfinished jobs {size(hot)}, finished ones {size(finished)}"),
    ]


def release(number: int, text: str) -> Finding:
    if number >= MINIMUM:
        return Finding("PostgreSQL", "ok", text)
    return Finding("PostgreSQL", "bad", f"{text} is too old", "use PostgreSQL 13 or newer")


def commits(commit: str, sync: str) -> Finding:
    if sync == "off":
        return Finding("commits", "bad", "fsync is off: a power loss may destroy the database", "set fsync = on")
    if commit != "off":
        return Finding("commits", "ok", f"synchronous_commit {commit}: what was acknowledged survives a power loss")
    text = "synchronous_commit off: a crash of the server may take the last commits"
    return Finding("commits", "warn", text, "durability='full', and synchronous_commit = on in the server's settings")


def transactions(seconds: float) -> Finding:
    if seconds < LONG:
        return Finding("oldest transaction", "ok", f"{seconds:.0f} s")
    text = f"open for {seconds:.0f} s: rows of ended jobs cannot be cleared away, claims get slower"
    return Finding("oldest transaction", "warn", text, "find it in pg_stat_activity by xact_start, and end it")
