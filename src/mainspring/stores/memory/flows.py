"""The memory store's verbs of flows."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ...ids import JobId
from ...records.flow import FlowRequest, FlowWithPlan
from ...records.job import Job
from ...records.query import Refusal
from ...records.run import Checkpoint
from .handle import MemoryHandle


class MemoryFlows(MemoryHandle):
    """The verbs flows, step_jobs, checkpoints and change_flow."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        with self._locked():
            table = self._tables.flows
            found = [row for id in sorted(set(ids)) if (row := table.rows.get(id)) is not None]
            return [FlowWithPlan(row, table.graphs[row.id].plan) for row in found]

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        with self._locked():
            return self._tables.jobs.some(self._tables.flows.jobs(flow, first, last)[:limit])

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        with self._locked():
            known = self._tables.ledger.checkpoints.get(job_id, {}).values()
            return [one for one in sorted(known, key=lambda one: one.n) if one.n > after][:limit]

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        from ..rules.flow_requests import change_flow

        with self._locked():
            refusal = change_flow(self._tables, id, request, now)
            self._settle()
        self._new.wake_all()
        return refusal
