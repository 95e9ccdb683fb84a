"""Reads and writes flows, their plans and the jobs of their steps in the SQLite file, inside the open transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from ...clock import micros
from ...ids import JobId, WorkerId
from ...records.flow import MAX_CANCELLED_JOBS, MAX_RETRIED_JOBS, Flow
from ...records.job import Job, NewJob
from ...records.step import MAX_INDEX, MAX_POSITION
from ...records.unreadable import unreadable_record
from ..graph_cache import GraphCache, decode_graphs, graph_of
from ..rows import COLUMNS, job_of
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .batch import CHUNK_ROWS, chunks, flatten, value_lists
from .file import FLOWS_VERSION
from .lists import fetch_whole_rows

if TYPE_CHECKING:
    from ...flow.graph import Graph

_encode = msgspec.json.Encoder().encode


@cache
def _flow_decoder() -> msgspec.json.Decoder[Flow]:
    """Made when the first flow is read."""
    return msgspec.json.Decoder(Flow)


# reading

_FLOWS = "SELECT id, body FROM mainspring_flows WHERE id IN (SELECT value FROM json_each(?))"
# All rows as one text: row by row, the writing thread would give up the interpreter lock for each. A row has no line
# break, and its own id.
_FLOW_LINES = f"SELECT group_concat(body, char(10)) FROM ({_FLOWS})"
_PLANS = "SELECT flow, body FROM mainspring_plans WHERE flow IN (SELECT value FROM json_each(?))"
_COLUMNS = ", ".join(f"job.{name}" for name in COLUMNS.split(", "))
_STEP_JOBS = f"""SELECT {_COLUMNS} FROM mainspring_steps step CROSS JOIN mainspring_jobs job ON job.id = step.job_id
    WHERE step.flow = :flow AND step.position BETWEEN :first AND :last {{}} ORDER BY step.position LIMIT :limit"""
_ALL = _STEP_JOBS.format("")
_UNFINISHED = _STEP_JOBS.format("AND job.state IN ('pending', 'running', 'waiting', 'paused')")
_FAILED = _STEP_JOBS.format("AND job.state IN ('dead', 'cancelled', 'expired')")


def read_flows(db: sqlite3.Connection, ids: Collection[JobId]) -> dict[JobId, Flow]:
    """The rows of these flows that can be decoded."""
    asked, decode = (_encode(list(ids)).decode(),), _flow_decoder().decode
    try:
        lines = db.execute(_FLOW_LINES, asked).fetchone()[0]
        return {} if lines is None else {flow.id: flow for flow in map(decode, lines.split("\n"))}
    except (sqlite3.OperationalError, msgspec.DecodeError):
        return _readable_flows(db, asked)


def _readable_flows(db: sqlite3.Connection, asked: tuple[str]) -> dict[JobId, Flow]:
    found: dict[JobId, Flow] = {}
    decode = _flow_decoder().decode
    for id, body in db.execute(_FLOWS, asked).fetchall():
        try:
            found[id] = decode(body)
        except msgspec.DecodeError as error:
            unreadable_record("flow", id, error)
    return found


def read_flow_ids(db: sqlite3.Connection, ids: Collection[JobId]) -> set[JobId]:
    """Which of these flows are stored."""
    sql = "SELECT id FROM mainspring_flows WHERE id IN (SELECT value FROM json_each(?))"
    return {id for (id,) in db.execute(sql, (_encode(list(ids)).decode(),))}


def read_graphs(db: sqlite3.Connection, flows: Mapping[JobId, Flow], cache: GraphCache | None) -> dict[JobId, Graph]:
    """The graphs of these flows' plans."""
    known = {} if cache is None else {id: cache.get(flow) for id, flow in flows.items()}
    found = {id: graph for id, graph in known.items() if graph is not None}
    if missing := [id for id in flows if id not in found]:
        found.update(decode_graphs(db.execute(_PLANS, (_encode(missing).decode(),)).fetchall(), cache))
    return found


def add_flows(db: sqlite3.Connection, tables: LoadedTables, ids: Collection[JobId], cache: GraphCache | None) -> None:
    """Adds these flows with their graphs."""
    flows = read_flows(db, ids)
    graphs = read_graphs(db, flows, cache) if flows else {}
    for id in ids:
        graph = graph_of(flow := flows.get(id), graphs)
        tables.add_flow(id, None if graph is None else flow, graph)


def step_jobs(db: sqlite3.Connection, flow: JobId, first: int, last: int, limit: int, sql: str = _ALL) -> list[Job]:
    values = {"flow": flow, "first": first, "last": last, "limit": limit}
    return [job_of(row) for row in fetch_whole_rows(db, sql, values)]


def add_step_jobs(db: sqlite3.Connection, tables: LoadedTables, name: Name) -> None:
    flow, _, first = name.name.partition(" ")
    match name.kind:
        case "unfinished_steps":
            found = step_jobs(db, flow, int(first), int(first) | MAX_INDEX, MAX_CANCELLED_JOBS + 1, _UNFINISHED)
        case "failed_steps":
            found = step_jobs(db, flow, 0, MAX_POSITION, MAX_RETRIED_JOBS, _FAILED)
        case _:
            found = step_jobs(db, flow, 0, MAX_POSITION, MAX_CANCELLED_JOBS + 1)
    tables.add_step_jobs(name, found)


# writing

_WRITE = {
    size: f"""INSERT INTO mainspring_flows (id, body) VALUES {value_lists(size, 2)}
        ON CONFLICT (id) DO UPDATE SET body = excluded.body"""
    for size in CHUNK_ROWS
}
_WRITE_PLAN = """INSERT INTO mainspring_plans (flow, body) VALUES (?, ?)
    ON CONFLICT (flow) DO UPDATE SET body = excluded.body"""
_ADD_STEPS = {size: f"INSERT OR IGNORE INTO mainspring_steps VALUES {value_lists(size, 3)}" for size in CHUNK_ROWS}


def write_flows(db: sqlite3.Connection, tables: LoadedTables) -> None:
    """Writes the flows that a rule has changed, and plans that are new or have grown."""
    if tables.plans:
        require_releases_with_flows(db)
        plans = [(id, _encode(plan).decode()) for id, plan in tables.plans]
        db.executemany(_WRITE_PLAN, plans)
    if not (changed := tables.changed_flows()):
        return
    if any(flow is not None and not flow.planned for flow in changed.values()):
        require_releases_with_flows(db)
    for chunk in chunks([(id, _encode(flow).decode()) for id, flow in changed.items() if flow is not None]):
        db.execute(_WRITE[len(chunk)], flatten(chunk))
    for id in (id for id, flow in changed.items() if flow is None):
        db.execute("DELETE FROM mainspring_flows WHERE id = ?", (id,))
        db.execute("DELETE FROM mainspring_plans WHERE flow = ?", (id,))


_WAKE = """UPDATE mainspring_jobs AS job SET state = 'pending', run_at = woken.value
    FROM json_each(?) AS woken WHERE job.id = woken.key AND +job.state = 'waiting'"""


def wake_flows(db: sqlite3.Connection, tables: LoadedTables) -> None:
    """Makes the jobs of flows due that a rule has woken without reading them."""
    if tables.woken:
        woken = _encode({id: micros(at) for id, at in tables.woken.items()}).decode()
        db.execute(_WAKE, (woken,))
        wake_limited(db, woken)
        tables.woken.clear()


def wake_limited(db: sqlite3.Connection, woken: str) -> None:
    """Follows those of these jobs that have a limit."""
    sql = "SELECT 1 FROM mainspring_limited WHERE job_id IN (SELECT key FROM json_each(?)) LIMIT 1"
    if db.execute(sql, (woken,)).fetchone():
        from .limited_jobs import wake_entries

        wake_entries(db, woken)


def add_flow_jobs(db: sqlite3.Connection, jobs: Sequence[NewJob | Job]) -> None:
    """Records which steps these jobs belong to."""
    rows = [(job.step.flow, job.step.position, job.id) for job in jobs if job.step is not None]
    for chunk in chunks(rows):
        db.execute(_ADD_STEPS[len(chunk)], flatten(chunk))


def drop_flow_job(db: sqlite3.Connection, job: Job) -> None:
    if job.step is not None:
        key = (job.step.flow, job.step.position)
        db.execute("DELETE FROM mainspring_steps WHERE flow = ? AND position = ?", key)


def require_releases_with_flows(db: sqlite3.Connection) -> None:
    """Shuts older releases out once a flow is stored: their next beat fails with SchemaMismatch."""
    sql = "UPDATE mainspring_schema SET oldest = ? WHERE oldest < ?"
    db.execute(sql, (FLOWS_VERSION, FLOWS_VERSION))


_OLDER_WORKERS = """SELECT id, CASE WHEN json_valid(info) THEN json_extract(info, '$.schema') END AS known
    FROM mainspring_workers WHERE until > ? AND typeof(known) = 'integer' AND known BETWEEN 1 AND ? ORDER BY id"""


def older_workers(db: sqlite3.Connection, now: int) -> list[WorkerId]:
    """The live workers that would end the steps of a flow without moving it."""
    return [id for id, _ in db.execute(_OLDER_WORKERS, (now, FLOWS_VERSION - 1))]
