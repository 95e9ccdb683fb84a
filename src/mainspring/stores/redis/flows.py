"""The verbs of flows of the Redis store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ...ids import JobId, WorkerId
from ...records.flow import FlowRequest, FlowWithPlan, GiveSignal
from ...records.job import Job
from ...records.query import Refusal
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name, of_flow_request
from .attempts import Attempts
from .flow_rows import StepRange
from .handle import RedisHandle
from .job_reads import read_if
from .reads import fetch
from .releases import older_workers
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import transact
from .two_phase import flow_locks, resolve, transactions_in


class RedisFlows(RedisHandle):
    """The verbs flows, step_jobs and change_flow."""

    async def flows(self, ids: Collection[JobId]) -> list[FlowWithPlan]:
        shards, snapshot = self._open(), Snapshot()
        with self._clock.outside():
            await fetch(shards, snapshot, [Name("flow", id) for id in dict.fromkeys(ids)])
        found = ((row.flow, row.graph) for _, row in sorted(snapshot.flows.items()))
        return [FlowWithPlan(flow, graph.plan) for flow, graph in found if flow is not None and graph is not None]

    async def step_jobs(self, flow: JobId, *, first: int, last: int, limit: int) -> list[Job]:
        shards = self._open()
        with self._clock.outside():
            return await _step_jobs(shards, StepRange(flow, first, last, limit))

    async def change_flow(self, id: JobId, request: FlowRequest, *, now: datetime) -> Refusal | None:
        shards = self._open()
        with self._clock.outside():
            older = await older_workers(shards, now) if isinstance(request, GiveSignal) else []
            (refusal,) = await transact(
                shards,
                "change_flow",
                [id],
                of_flow_request,
                lambda tables, id: _change_flow(tables, id, request, now, older),
                now,
            )
        self._wakeups.notify("new", "final")
        return refusal


def _change_flow(
    tables: LoadedTables, id: JobId, request: FlowRequest, now: datetime, older: Sequence[WorkerId]
) -> Refusal | None:
    from ..rules.flow_requests import change_flow

    tables.older_workers = older
    return change_flow(tables, id, request, now)


async def _step_jobs(shards: Shards, wanted: StepRange) -> list[Job]:
    entries = await shards.each(lambda shard: _entries(shards, shard, wanted))
    first = sorted((entry, shard) for shard, some in enumerate(entries) for entry in some)[: wanted.limit]
    found: dict[JobId, Job] = {}
    for n, shard in enumerate(shards.all):
        if shorts := [entry[8:] for entry, where in first if where == n]:
            found |= {job.id: job for job in await read_if(shard, shorts)}
    order = {job.id: job.step.position if job.step is not None else 0 for job in found.values()}
    return sorted(found.values(), key=lambda job: order[job.id])


async def _entries(shards: Shards, shard: Shard, wanted: StepRange) -> list[bytes]:
    """The entries of one shard. A transaction that changes the flow is resolved first: another shard may show already
    what follows from the end of a step."""
    attempts = Attempts(shards, "reading steps")
    while True:
        *sets, locks = await shard.multi([*wanted.commands(shard), flow_locks(shard, [wanted.flow])])
        if not (rivals := transactions_in(locks)):
            return [entry for some in sets for entry in some]
        for transaction in rivals:
            await resolve(shards, shard, transaction)
        await attempts.pause()
