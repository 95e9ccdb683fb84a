"""The verbs of flows of the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from datetime import datetime

from ...clock import micros
from ...ids import JobId
from ...records.flow import FlowRequest, FlowWithPlan, GiveSignal
from ...records.job import Job
from ...records.query import Refusal
from ...records.run import Checkpoint
from ..graph_cache import graph_of
from ..rules.read_sets import of_flow_request
from .flow_rows import older_workers, read_flows, read_graphs, step_jobs
from .handle import SqliteHandle
from .runs import read_checkpoints
from .tables import load, write


class SqliteFlows(SqliteHandle):
    """The verbs flows, step_jobs, checkpoints and change_flow."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        return await self._read(lambda db: _flows(db, ids))

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        return await self._read(lambda db: step_jobs(db, flow, first, last, limit))

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        return await self._read(lambda db: read_checkpoints(db, job_id, after, limit))

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        self._idle = False
        refusal = await self._write(lambda db: _change_flow(db, id, request, now))
        self._waiters.wake_all()
        return refusal


def _flows(db: sqlite3.Connection, ids: Collection[JobId]) -> list[FlowWithPlan]:
    rows = read_flows(db, ids)
    graphs = read_graphs(db, rows, None)
    found = [(rows[id], graph_of(rows[id], graphs)) for id in sorted(rows)]
    return [FlowWithPlan(row, graph.plan) for row, graph in found if graph is not None]


def _change_flow(db: sqlite3.Connection, id: JobId, request: FlowRequest, now: datetime) -> Refusal | None:
    from ..rules.flow_requests import change_flow

    tables = load(db, [id], of_flow_request)
    if isinstance(request, GiveSignal):
        tables.older_workers = older_workers(db, micros(now))
    refusal = change_flow(tables, id, request, now)
    write(db, tables)
    return refusal
