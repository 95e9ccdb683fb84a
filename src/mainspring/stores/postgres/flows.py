"""The verbs of flows of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...clock import instant
from ...ids import JobId, WorkerId
from ...records.flow import FlowRequest, FlowWithPlan, GiveSignal
from ...records.job import Job
from ...records.query import Refusal
from ...records.run import Checkpoint
from ..graph_cache import decode_graphs, graph_of
from ..rows import COLUMNS, job_of
from ..rules.read_sets import of_flow_request, of_signal
from .flow_latch import PostgresFlowLatch
from .flow_rows import decode_flows, lock_families
from .item_counts import counted_ends, with_counted
from .pool import SEPARATOR, Session
from .tables import load, write

_FLOWS = f"""SELECT flow.id, flow.body, plan.body, (
        SELECT string_agg(position || ' ' || ended, '{SEPARATOR}') FROM mainspring_item_counts AS counts
        WHERE counts.flow = flow.id) AS counted
    FROM mainspring_flows AS flow
    LEFT JOIN mainspring_plans AS plan ON plan.flow = flow.id WHERE flow.id = ANY($1) ORDER BY flow.id"""
_COLUMNS = ", ".join(f"job.{name}" for name in COLUMNS.split(", "))
# One statement, hence one snapshot: a job that ends meanwhile moves from one table to the other.
STEP_JOBS = f"""SELECT {_COLUMNS} FROM mainspring_steps AS step
    CROSS JOIN LATERAL (SELECT {COLUMNS} FROM mainspring_jobs WHERE id = step.job_id
        UNION ALL SELECT {COLUMNS} FROM mainspring_finished WHERE id = step.job_id) AS job
    WHERE step.flow = $1 AND step.position >= $2 AND step.position <= $3 ORDER BY step.position LIMIT $4"""

_CHECKPOINTS = "SELECT n, name, at, value FROM mainspring_checkpoints WHERE job_id = $1 AND n > $2 ORDER BY n LIMIT $3"


class PostgresFlows(PostgresFlowLatch):
    """The verbs flows, step_jobs, checkpoints and change_flow."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        rows = await self._call(lambda db: db.rows(_FLOWS, list(ids)))
        flows = decode_flows([(id, body) for id, body, *_ in rows])
        for id, *_, counted in rows:
            if counted is not None and id in flows:
                flows[id] = with_counted(flows[id], counted_ends(id, counted))
        graphs = decode_graphs((id, plan) for id, _, plan, _ in rows if plan is not None)
        found = [(flows[id], graph_of(flows[id], graphs)) for id, *_ in rows if id in flows]
        return [FlowWithPlan(flow, graph.plan) for flow, graph in found if graph is not None]

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        rows = await self._read(lambda db: db.rows(STEP_JOBS, flow, first, last, limit))
        return [job_of(row) for row in rows]

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        rows = await self._call(lambda db: db.rows(_CHECKPOINTS, job_id, after, limit))
        return [Checkpoint(n, name, instant(at), value) for n, name, at, value in rows]

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        self._idle = False
        if isinstance(request, GiveSignal):
            refusal = await self._give(id, request, now)
        else:
            refusal = await self._transact(lambda db: _change_flow(db, id, request, now))
        self._announce("new", "final")
        return refusal

    async def _give(self, id: JobId, request: GiveSignal, now: datetime) -> Refusal | None:
        """Older workers are looked for only before a row is made: they are shut out while there is one."""
        try:
            return await self._transact(lambda db: _give_signal(db, id, request, now, None))
        except _NoRow:
            older = await self._older_workers(now)
            return await self._transact(lambda db: _give_signal(db, id, request, now, older))


class _NoRow(Exception):
    """The job has no row in which a signal could be kept."""


async def _give_signal(
    db: Session, id: JobId, request: GiveSignal, now: datetime, older_workers: Sequence[WorkerId] | None
) -> Refusal | None:
    """Runs inside a transaction. It cancels no steps, and so locks no other flows. If there is no row, `older_workers`
    has to be known."""
    from ..rules.flow_requests import change_flow

    tables = await load(db, [id], of_signal)
    if tables.flow(id) is None and older_workers is None:
        raise _NoRow
    tables.older_workers = older_workers or ()
    refusal = change_flow(tables, id, request, now)
    await write(db, tables)
    return refusal


async def _change_flow(db: Session, id: JobId, request: FlowRequest, now: datetime) -> Refusal | None:
    """Runs inside a transaction."""
    from ..rules.flow_requests import change_flow

    await lock_families(db, [id])
    tables = await load(db, [id], of_flow_request)
    refusal = change_flow(tables, id, request, now)
    await write(db, tables)
    return refusal
