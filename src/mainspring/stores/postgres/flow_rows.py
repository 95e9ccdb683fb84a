"""Locks, reads and writes flows, their plans and the jobs of their steps, inside a transaction.

Flows are locked after schedules and before jobs, in order of their ids. What ends, cancels or retries the job of a
step holds the lock of its flow, so the jobs of one flow have no other order to keep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import asyncpg
import msgspec

from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import MAX_CANCELLED_JOBS, MAX_RETRIED_JOBS, Flow
from ...records.job import Job, NewJob, State
from ...records.step import MAX_INDEX, MAX_POSITION
from ...records.unreadable import unreadable_record
from ..graph_cache import GraphCache, decode_graphs, graph_of
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .flow_latch import RAISE_LATCH
from .item_counts import CountedTables, add_counted, lock_counts, write_counts
from .pool import BIGINT_ARRAY, SEPARATOR, Session

# The graphs of all stores of this process: flows have unique ids.
_GRAPHS = GraphCache()
_encode = msgspec.json.Encoder().encode
_decode_flow = msgspec.json.Decoder(Flow).decode

_LOCK_FLOWS = "SELECT id, body FROM mainspring_flows WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
_PLANS = "SELECT flow, body FROM mainspring_plans WHERE flow = ANY($1)"


async def add_flows(db: Session, tables: CountedTables, ids: Collection[JobId]) -> None:
    """Locks these flows, and adds them with their graphs."""
    flows = await add_counted(db, tables, decode_flows(await db.rows(_LOCK_FLOWS, list(ids))))
    graphs = await _read_graphs(db, flows)
    for id in ids:
        graph = graph_of(flow := flows.get(id), graphs)
        tables.add_flow(id, None if graph is None else flow, graph)


async def lock_flows(db: Session, ids: Collection[JobId]) -> None:
    """Locks these flows, for a caller that locks jobs next."""
    if ids:
        await db.rows(_LOCK_FLOWS, list(ids))
        await lock_counts(db, ids)


# The flows above these jobs, in which they are steps, directly or not; and below: those that they are, with the flows
# in these. Without them a change would lock a flow after jobs, and two changes of flows in flows would wait for each
# other: in a test of five connections, 9 of 1,200 transactions; with them 1. OFFSET 0 makes the planner look each up.
FAMILIES = """WITH RECURSIVE above AS (
        SELECT flow AS id FROM mainspring_steps WHERE job_id = ANY($1)
        UNION SELECT step.flow FROM above CROSS JOIN LATERAL (
            SELECT flow FROM mainspring_steps WHERE job_id = above.id OFFSET 0) AS step),
    below AS (
        SELECT id FROM mainspring_flows WHERE id = ANY($1)
        UNION SELECT flow.id FROM below CROSS JOIN LATERAL (
            SELECT job_id FROM mainspring_steps WHERE flow = below.id OFFSET 0) AS step
        CROSS JOIN LATERAL (SELECT id FROM mainspring_flows WHERE id = step.job_id OFFSET 0) AS flow)
    SELECT id FROM above UNION ALL SELECT id FROM below"""


async def lock_families(db: Session, ids: Sequence[JobId]) -> None:
    """Locks every flow that a change of these jobs may concern, before any of the jobs."""
    await lock_flows(db, [id for (id,) in await db.rows(FAMILIES, ids)])


def decode_flows(rows: Sequence[Sequence[str]]) -> dict[JobId, Flow]:
    """The flows of the rows that can be decoded."""
    found: dict[JobId, Flow] = {}
    for id, body in rows:
        try:
            found[id] = _decode_flow(body)
        except msgspec.DecodeError as error:
            unreadable_record("flow", id, error)
    return found


async def _read_graphs(db: Session, flows: Mapping[JobId, Flow]) -> dict[JobId, Graph]:
    found = {id: graph for id, flow in flows.items() if (graph := _GRAPHS.get(flow)) is not None}
    if missing := [id for id, flow in flows.items() if flow.planned and id not in found]:
        found.update(decode_graphs([(*row,) for row in await db.rows(_PLANS, missing)], _GRAPHS))
    return found


# The first jobs of each of these parts of flows, by position. The inner join is written as a lookup of each job: the
# planner may not know how few steps a flow has.
_STEPS = f"""SELECT part.n, found.id, found.state
    FROM unnest($1::text[], $2::{BIGINT_ARRAY}, $3::{BIGINT_ARRAY})
        WITH ORDINALITY AS part (flow, first, last, n)
    CROSS JOIN LATERAL (
        SELECT step.position, job.id, job.state FROM mainspring_steps AS step CROSS JOIN LATERAL ({{}}) AS job
        WHERE step.flow = part.flow AND step.position >= part.first AND step.position <= part.last
        ORDER BY step.position LIMIT $4) AS found
    ORDER BY part.n, found.position"""
_JOB = "SELECT id, state FROM mainspring_jobs WHERE id = step.job_id"
_ENDED_JOB = "SELECT id, state FROM mainspring_finished WHERE id = step.job_id"
UNFINISHED_STEPS = _STEPS.format(_JOB)
FAILED_STEPS = _STEPS.format(f"{_ENDED_JOB} AND state IN ('dead', 'cancelled', 'expired')")
ALL_STEPS = _STEPS.format(f"{_JOB} UNION ALL {_ENDED_JOB}")

StepIds = dict[Name, list[JobId]]


async def find_steps(db: Session, names: Sequence[Name]) -> tuple[StepIds, list[JobId]]:
    """The ids of the jobs that these names of one kind mean, and of those that are flows and wait for their own steps.

    Of one flow there are no more than a rule changes, and one that says that there are more.
    """
    kind = names[0].kind
    sql, limit = {
        "unfinished_steps": (UNFINISHED_STEPS, MAX_CANCELLED_JOBS + 1),
        "failed_steps": (FAILED_STEPS, MAX_RETRIED_JOBS),
        "all_steps": (ALL_STEPS, MAX_CANCELLED_JOBS + 1),
    }[kind]
    flows, first, last = zip(*map(_part, names), strict=True)
    found: StepIds = {name: [] for name in names}
    counts, waiting = dict.fromkeys(flows, 0), list[JobId]()
    for n, id, state in await db.rows(sql, list(flows), list(first), list(last), limit):
        if counts[flows[n - 1]] < limit:
            counts[flows[n - 1]] += 1
            found[names[n - 1]].append(id)
            waiting += [id] if state == State.WAITING.value else []
    return found, waiting


def _part(name: Name) -> tuple[JobId, str, str]:
    """The flow, and the first and the last position."""
    flow, _, first = name.name.partition(" ")
    return (flow, first, str(int(first) | MAX_INDEX)) if first else (flow, "0", str(MAX_POSITION))


# writing

_WRITE_PLANS = """INSERT INTO mainspring_plans (flow, body) SELECT * FROM unnest($1::text[], $2::text[])
    ON CONFLICT (flow) DO UPDATE SET body = excluded.body"""
_WRITE = f"""INSERT INTO mainspring_flows (id, body)
    SELECT * FROM unnest(string_to_array($1, '{SEPARATOR}'), $2::text[])
    ON CONFLICT (id) DO UPDATE SET body = excluded.body"""
# A row that was not there when its job was read: nothing was locked. If it is now, the verb runs again.
_ADD = f"""INSERT INTO mainspring_flows (id, body)
    SELECT * FROM unnest(string_to_array($1, '{SEPARATOR}'), $2::text[]) ON CONFLICT DO NOTHING RETURNING id"""
_ADD_JOBS = f"""INSERT INTO mainspring_steps (flow, position, job_id)
    SELECT * FROM unnest(string_to_array($1, '{SEPARATOR}'), string_to_array($2, '{SEPARATOR}')::bigint[],
        string_to_array($3, '{SEPARATOR}')) ON CONFLICT DO NOTHING"""
_DROP_JOBS = "DELETE FROM mainspring_steps WHERE job_id = ANY($1)"


async def write_flows(db: Session, tables: CountedTables) -> dict[JobId, int]:
    """Writes the flows that a rule has changed, and plans that are new or have grown. Returns the size of each of these
    plans."""
    plans = {id: _encode(plan).decode() for id, plan in tables.plans}
    if plans:
        await db.run(_WRITE_PLANS, list(plans), list(plans.values()))
        # Again, if a migration has lowered it since: it found no flow before it let this transaction insert one.
        await db.run(RAISE_LATCH)
    changed, new = tables.changed_flows(), tables.new_flows()
    if not plans and any(id in new and flow is not None and not flow.planned for id, flow in changed.items()):
        await db.run(RAISE_LATCH)
    texts = {id: _encode(flow).decode() for id, flow in changed.items() if flow is not None}
    if added := {id: text for id, text in texts.items() if id in new}:
        await _add_rows(db, added)
    if kept := {id: text for id, text in texts.items() if id not in new}:
        await db.run(_WRITE, SEPARATOR.join(kept), list(kept.values()))
    if gone := [id for id, flow in changed.items() if flow is None]:
        await db.run("DELETE FROM mainspring_flows WHERE id = ANY($1)", gone)
        await db.run("DELETE FROM mainspring_plans WHERE flow = ANY($1)", gone)
    await write_counts(db, tables, [flow for flow in changed.values() if flow is not None], gone)
    return {id: len(text) for id, text in plans.items()}


async def _add_rows(db: Session, texts: Mapping[JobId, str]) -> None:
    """Adds rows of new flows. A signal and the plan of its flow may come at the same time: both add the row."""
    if len(await db.rows(_ADD, SEPARATOR.join(texts), list(texts.values()))) < len(texts):
        raise asyncpg.SerializationError("another transaction has stored the flow meanwhile")


def keep_graphs(tables: LoadedTables, sizes: Mapping[JobId, int]) -> None:
    """Keeps the graphs of plans that have been committed, so that the first end of a step need not read them."""
    for id, size in sizes.items():
        _GRAPHS.put(id, tables.graph(id), size)


async def add_flow_jobs(db: Session, jobs: Sequence[NewJob | Job]) -> None:
    """Records which steps these jobs belong to."""
    rows = [(job.step.flow, str(job.step.position), job.id) for job in jobs if job.step is not None]
    if rows:
        await db.run(_ADD_JOBS, *map(SEPARATOR.join, zip(*rows, strict=True)))


async def drop_flow_jobs(db: Session, jobs: Sequence[Job]) -> None:
    if gone := [job.id for job in jobs if job.step is not None]:
        await db.run(_DROP_JOBS, gone)
