"""Groups of jobs in PostgreSQL's indexes: ready by queue, task and rank; finished by task, queue and state."""

from __future__ import annotations

from typing import Literal

Table = Literal["mainspring_jobs", "mainspring_finished"]
JOBS: Table = "mainspring_jobs"
FINISHED: Table = "mainspring_finished"
# Condition of the index mainspring_jobs_ready.
READY = "crashes < 2 AND NOT parked"


def hops(table: Table, columns: str, when: str = "true", name: str = "groups") -> str:
    """A recursive CTE of this name of all combinations of values, by hops along the index: the cost is the number of
    groups, not of jobs."""
    here = ", ".join(f"{name}.{column}" for column in columns.split(", "))
    return f"""RECURSIVE {name} AS (
        (SELECT {columns} FROM {table} WHERE {when} ORDER BY {columns} LIMIT 1)
        UNION ALL
        SELECT hop.* FROM {name} CROSS JOIN LATERAL (SELECT {columns} FROM {table}
            WHERE {when} AND ({columns}) > ({here}) ORDER BY {columns} LIMIT 1) AS hop)"""


# The columns that begin the index of each table, and the condition of the index.
GROUP_COLUMNS = {JOBS: ("queue, task, rank", READY), FINISHED: ("task, queue, state", "true")}
# The groups of each table.
GROUPS = {JOBS: hops(JOBS, *GROUP_COLUMNS[JOBS]), FINISHED: hops(FINISHED, *GROUP_COLUMNS[FINISHED])}
# SQL condition that selects the jobs of the group `one`.
GROUP = {
    JOBS: f"{READY} AND queue = one.queue AND task = one.task AND rank = one.rank",
    FINISHED: "task = one.task AND queue = one.queue AND state = one.state",
}
# Running jobs, found by their leases.
IN_OPEN_LEASE = "id = ANY(ARRAY(SELECT unnest(ids) FROM mainspring_leases))"


def shown_sql(now: str) -> str:
    """SQL for the shown state of a row; `now` is SQL for microseconds."""
    return f"""CASE WHEN state <> 'pending' THEN state WHEN expires_at <= {now} THEN 'expired'
        WHEN attempt > 0 THEN 'retrying' WHEN run_at > {now} THEN 'scheduled' ELSE 'pending' END"""
