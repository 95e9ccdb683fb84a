"""The verbs of the SQLite store that read flows."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from ...ids import JobId
from ...records.flow import FlowWithPlan
from ...records.job import Job
from .flow_rows import read_flows, read_graphs, step_jobs
from .handle import SqliteHandle


class SqliteFlows(SqliteHandle):
    """The verbs flows and step_jobs."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        return await self._read(lambda db: _flows(db, ids))

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        return await self._read(lambda db: step_jobs(db, flow, first, last, limit))


def _flows(db: sqlite3.Connection, ids: Collection[JobId]) -> list[FlowWithPlan]:
    rows = read_flows(db, ids)
    graphs = read_graphs(db, rows, None)
    return [FlowWithPlan(rows[id], graphs[id].plan) for id in sorted(rows) if id in graphs]
