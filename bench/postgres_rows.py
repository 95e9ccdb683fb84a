"""Millions of rows in Mainspring's tables, each like one the store wrote itself."""

from __future__ import annotations

import time
from collections.abc import Mapping

from .harness import Lab
from .processes import MAINSPRING

QUEUES, TASKS = 5, 20
DAYS = 30
# Row i is of millisecond $1 + i * $2, and so is its id, as the store mints them: UUIDv7.
_MS = "($1::bigint + i * $2::bigint)"
_HEX = f"lpad(to_hex({_MS}), 12, '0')"
_ID = f"left({_HEX}, 8) || '-' || right({_HEX}, 4) || '-7000-8000-' || lpad(to_hex(i), 12, '0')"
_AT = f"1000 * {_MS}"
# A few of them are hard to find.
_NAMES = {
    "queue": f"CASE WHEN i % 100000 = 5 THEN 'rare' ELSE 'queue' || i % {QUEUES} END",
    "task": f"CASE WHEN i % 100000 = 5 THEN 'rare' ELSE 'task' || i % {TASKS} END",
}
_TAGS = "CASE WHEN i % 1000 = 0 THEN ARRAY['rare'] END"
_COLUMNS = """SELECT attname FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""

SAME = {"id": _ID, "queue": "'default'", "task": "'noop'", "run_at": _AT, "created_at": _AT}
OTHER = {**SAME, **_NAMES, "tags": _TAGS}
FUTURE = {**SAME, "run_at": f"{_AT} + 86400000000"}
_DEAD = "i % 100 = 7"
FINISHED = {
    **OTHER, "started_at": _AT, "finished_at": f"{_AT} + 5000",
    "state": f"CASE WHEN {_DEAD} THEN 'dead' ELSE 'completed' END",
    "ending": f"CASE WHEN {_DEAD} THEN 'failed' ELSE 'completed' END",
    "error": f"CASE WHEN {_DEAD} THEN 'ValueError: no' END",
    "failure": f"""CASE WHEN {_DEAD} THEN '{{"type": "ValueError", "message": "no"}}' END""",
}  # fmt: skip
_TALLY = """INSERT INTO mainspring_tallies (span, at, queue, task, sums)
    SELECT $1::text, ($2::bigint / $3::bigint - k) * $3, 'queue' || t % 5, 'task' || t,
        '{"endings": {"completed": 990, "failed": 10}, "took": 5000000, "last": 1, "errors": {"ValueError: no": 10},
        "spread": {"50": 100, "51": 300, "52": 300, "53": 200, "55": 50, "60": 40, "66": 8, "70": 2}}'
    FROM generate_series(0, $4::bigint - 1) AS k, generate_series(0, $5::bigint - 1) AS t"""
_UNKNOWN = (
    "DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'mainspring%')",
    "UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE relname LIKE 'mainspring%'",
)


def build(lab: Lab, database: str, *, same: int = 0, other: int = 0, future: int = 0, finished: int = 0) -> None:
    """A database with so many jobs, once a run: due for the worker that asks, due for others, ahead, and finished."""
    if database in lab.built:
        return
    dsn = lab.postgres.fresh(database)
    with lab.fresh() as home:
        MAINSPRING.ask(home, "sample", BENCH_STORE=dsn)
    _multiply(lab, database, "mainspring_finished", finished, FINISHED)
    for rows, changes in ((same, SAME), (other, OTHER), (future, FUTURE)):
        _multiply(lab, database, "mainspring_jobs", rows, changes)
    _tally(lab, database)
    lab.postgres.rows("VACUUM ANALYZE", database=database)
    lab.postgres.rows("CHECKPOINT", database="postgres")
    lab.built.add(database)


def _multiply(lab: Lab, database: str, table: str, rows: int, changes: Mapping[str, str]) -> None:
    """The table's own row so many times, changed: history of many days, the newest of it a minute old; the
    rest, a row a millisecond."""
    if not rows:
        return
    columns = [name for (name,) in lab.postgres.rows(_COLUMNS, table, database=database)]
    values = ", ".join(changes.get(name, f"sample.{name}") for name in columns)
    step = max(1, DAYS * 86_400_000 // rows) if table == "mainspring_finished" else 1
    first = int(1000 * time.time()) - 60_000 - rows * step
    sql = f"""INSERT INTO {table} ({", ".join(columns)}) SELECT {values}
        FROM (SELECT * FROM {table} WHERE queue = 'default' ORDER BY id DESC LIMIT 1) AS sample,
            generate_series(0, {rows - 1}) AS i"""
    lab.postgres.rows(sql, first, step, database=database)


def _tally(lab: Lab, database: str) -> None:
    """Statistics as of weeks of work: three hours of minutes, four days of hours, a year of days."""
    now = int(1e6 * time.time())
    for span, seconds, spans in (("minute", 60, 180), ("hour", 3600, 96), ("day", 86_400, 400)):
        lab.postgres.rows(_TALLY, span, now, 1_000_000 * seconds, spans, TASKS, database=database)


def know(lab: Lab, database: str, *, analysed: bool) -> None:
    """What the planner knows of the tables: as after autovacuum, or nothing, and nothing to come."""
    lab.postgres.set("autovacuum", "on" if analysed else "off")
    for sql in ("ANALYZE",) if analysed else _UNKNOWN:
        lab.postgres.rows(sql, database=database)
