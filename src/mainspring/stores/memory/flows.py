"""The memory store's verbs that read flows."""

from __future__ import annotations

from collections.abc import Collection

from ...ids import JobId
from ...records.flow import FlowWithPlan
from ...records.job import Job
from .handle import MemoryHandle


class MemoryFlows(MemoryHandle):
    """The verbs flows and step_jobs."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        with self._locked():
            table = self._tables.flows
            found = [row for id in sorted(set(ids)) if (row := table.rows.get(id)) is not None]
            return [FlowWithPlan(row, table.graphs[row.id].plan) for row in found]

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        with self._locked():
            return self._tables.jobs.some(self._tables.flows.jobs(flow, first, last)[:limit])
