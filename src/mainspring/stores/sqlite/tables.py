"""Loads what a rule reads into memory, inside the open transaction, and writes what the rule changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from ...clock import instant
from ...failpoint import failpoint
from ...ids import JobId
from ...records.run import Execution
from ..graph_cache import GraphCache
from ..rows import executions_of
from ..rules.keys import keys_held_by
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Item, Kind, Name, Needs, ReadSet
from .circuits import circuits, write_circuits
from .flow_rows import add_flows, add_step_jobs, wake_flows, write_flows
from .job_rows import find_jobs, write_jobs
from .runs import add_executions, drop_checkpoints, read_runs
from .schedules import add_schedules, add_waiting, record_ticks, revisions, write_schedules
from .tally import count_runs

# The graphs of all files of this process: flows have unique ids. Only writing threads use it.
_GRAPHS = GraphCache()
_encode = msgspec.json.Encoder().encode


def load(
    db: sqlite3.Connection, items: Sequence[Item], needs: Needs[Item], tables: LoadedTables | None = None
) -> LoadedTables:
    """Everything that these items read. `tables` may have some of it already."""
    loaded, reads = tables or LoadedTables(flows=True), ReadSet(items, needs)
    while missing := reads.missing(loaded):
        fetch(db, loaded, missing)
    return loaded


def fetch(db: sqlite3.Connection, tables: LoadedTables, names: Iterable[Name]) -> None:
    """Adds the values of these names: one statement for each kind."""
    wake_flows(db, tables)
    wanted: dict[Kind, list[str]] = {}
    for kind, name in names:
        wanted.setdefault(kind, []).append(name)
    _fetch_jobs(db, tables, [*wanted.get("job", ()), *wanted.get("seen_job", ())], wanted.get("key", []))
    if some := [*wanted.get("fired_schedule", ()), *wanted.get("seen_schedule", ())]:
        known = revisions(db, some)
        for name in some:
            tables.add_revision(name, known.get(name, 0))
    if some := wanted.get("schedule", []):
        add_schedules(db, tables, some)
    if some := wanted.get("waiting", []):
        add_waiting(db, tables, some)
    if some := wanted.get("worker", []):
        sql = "SELECT id, until FROM mainspring_workers WHERE id IN (SELECT value FROM json_each(?))"
        found = dict(db.execute(sql, (_encode(some).decode(),)).fetchall())
        for id in some:
            tables.add_worker(id, instant(found[id]) if id in found else None)
    if "circuits" in wanted:
        tables.add_circuits({circuit.task: circuit for circuit in circuits(db)})
    if some := wanted.get("flow", []):
        add_flows(db, tables, some, _GRAPHS)
    for kind in ("unfinished_steps", "failed_steps", "all_steps"):
        for name in wanted.get(kind, ()):
            add_step_jobs(db, tables, Name(kind, name))
    if some := wanted.get("runs", []):
        runs: dict[JobId, list[Execution]] = {id: [] for id in some}
        for run in executions_of(read_runs(db, some, 0, None)):
            runs[run.job_id].append(run)
        for id in some:
            tables.add_runs(id, runs[id])


def _fetch_jobs(db: sqlite3.Connection, tables: LoadedTables, ids: Sequence[str], keys: Sequence[str]) -> None:
    if not ids and not keys:
        return
    for id in ids:
        tables.add_job(id, None)
    for key in keys:
        tables.add_holder(key, None)
    asked = set(keys)
    unique = [key[1:] for key in keys if key[0] == "u"]
    for job in find_jobs(db, ids, unique, [key[1:] for key in keys if key[0] == "i"]):
        tables.add_job(job.id, job)
        for key in asked.intersection(keys_held_by(job)):
            tables.add_holder(key, job.id)


def settle(db: sqlite3.Connection, tables: LoadedTables) -> None:
    """Applies to flows what the rules did to the jobs of their steps."""
    from ..rules.flows import settle_flows

    for names in settle_flows(tables):
        fetch(db, tables, names)


def write(db: sqlite3.Connection, tables: LoadedTables, at: str | None = None) -> None:
    """Settles the flows, and writes what the rules changed. `at` is a failpoint in the middle of it."""
    if tables.flow_changes.noted:
        settle(db, tables)
    wake_flows(db, tables)
    changed, rows = tables.changed_jobs(), tables.changed_schedules()
    write_schedules(db, rows)
    add_executions(db, tables.executions)
    if at is not None and (changed or rows):
        failpoint(at)
    write_jobs(db, changed)
    drop_checkpoints(db, tables.without_checkpoints)
    write_flows(db, tables)
    write_circuits(db, tables.changed_circuits())
    record_ticks(db, tables.ticks)
    count_runs(db, tables.counted)
