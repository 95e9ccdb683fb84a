"""The verbs of flows of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ...ids import JobId
from ...records.flow import FlowRequest, FlowWithPlan
from ...records.job import Job
from ...records.query import Refusal
from ..graph_cache import decode_graphs
from ..rows import COLUMNS, job_of
from ..rules.read_sets import of_flow_request
from .flow_rows import decode_flows, lock_families
from .handle import PostgresHandle
from .item_counts import counted_ends, with_counted
from .pool import SEPARATOR, Session
from .tables import load, write

_FLOWS = f"""SELECT flow.id, flow.body, plan.body, (
        SELECT string_agg(position || ' ' || ended, '{SEPARATOR}') FROM mainspring_item_counts AS counts
        WHERE counts.flow = flow.id) AS counted
    FROM mainspring_flows AS flow
    JOIN mainspring_plans AS plan ON plan.flow = flow.id WHERE flow.id = ANY($1) ORDER BY flow.id"""
_COLUMNS = ", ".join(f"job.{name}" for name in COLUMNS.split(", "))
# One statement, hence one snapshot: a job that ends meanwhile moves from one table to the other.
STEP_JOBS = f"""SELECT {_COLUMNS} FROM mainspring_steps AS step
    CROSS JOIN LATERAL (SELECT {COLUMNS} FROM mainspring_jobs WHERE id = step.job_id
        UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = step.job_id) AS job
    WHERE step.flow = $1 AND step.position >= $2 AND step.position <= $3 ORDER BY step.position LIMIT $4"""


class PostgresFlows(PostgresHandle):
    """The verbs flows, step_jobs and change_flow."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        rows = await self._call(lambda db: db.rows(_FLOWS, list(ids)))
        flows = decode_flows([(id, body) for id, body, *_ in rows])
        for id, *_, counted in rows:
            if counted is not None and id in flows:
                flows[id] = with_counted(flows[id], counted_ends(id, counted))
        graphs = decode_graphs((id, plan) for id, _, plan, _ in rows)
        return [FlowWithPlan(flows[id], graphs[id].plan) for id, *_ in rows if id in flows and id in graphs]

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        rows = await self._read(lambda db: db.rows(STEP_JOBS, flow, first, last, limit))
        return [job_of(row) for row in rows]

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        self._idle = False
        refusal = await self._transact(lambda db: _change_flow(db, id, request, now))
        self._announce("new", "final")
        return refusal


async def _change_flow(db: Session, id: JobId, request: FlowRequest, now: datetime) -> Refusal | None:
    """Runs inside a transaction."""
    from ..rules.flow_requests import change_flow

    await lock_families(db, [id])
    tables = await load(db, [id], of_flow_request)
    refusal = change_flow(tables, id, request, now)
    await write(db, tables)
    return refusal
