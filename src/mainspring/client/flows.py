"""RemoteFlows: app.flows over an API."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Struct

from ..codec import encode
from ..control.bulk_page import BulkPage
from ..control.checks import MAX_PAGE_ROWS, checked_id, checked_limit
from ..control.flows import MAX_SKIP_REASON_CHARACTERS, FlowJobs, Flows
from ..errors import BadFlow, BadInput
from ..flow.signal_call import check_name
from ..ids import JobId
from ..insight.flow_view import FlowCounts, FlowView, SignalView, StepState, StepView
from ..insight.why import Reason
from ..records.flow import ItemCounts
from ..records.job import Enqueued, Job, Shown
from ..records.outcome import clean
from ..records.plan import On
from ..records.query import Changed
from ..records.run import Failure
from .client import connection_of, flow_request
from .paging import PAGE_ITEMS, read_jobs
from .responses import JobItemResponse, JobResponse

if TYPE_CHECKING:
    from ..insight.flow_formats import PictureFormat
    from ..task.handle import Handle
    from ..task.options import JobOptions


class _ItemsResponse(Struct):
    total: int | None
    made: int
    dead: int
    cancelled: int
    open: int

    def to_record(self) -> ItemCounts:
        return ItemCounts(
            made=self.made,
            ended=self.made - self.open,
            dead=self.dead,
            cancelled=self.cancelled,
            closed=self.total is not None,
        )


class _StepResponse(Struct, kw_only=True):
    name: str
    task: str
    status: StepState
    skipped_because: str | None = None
    note: str | None = None
    job_id: JobId | None = None
    attempts: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    failure: Failure | None = None
    needs: tuple[str, ...] = ()
    on: On = "success"
    optional: bool = False
    items: _ItemsResponse | None = None
    signal: SignalView | None = None

    def to_record(self) -> StepView:
        return StepView(
            name=self.name,
            task=self.task,
            state=self.status,
            needs=self.needs,
            on=self.on,
            optional=self.optional,
            job_id=self.job_id,
            items=None if self.items is None else self.items.to_record(),
            skipped_because=self.skipped_because,
            note=self.note,
            failure=self.failure,
            attempts=self.attempts or 0,
            started_at=self.started_at,
            finished_at=self.finished_at,
            signal=self.signal,
        )


class _FlowResponse(Struct, kw_only=True):
    job: JobResponse
    replay_of: JobId | None = None
    planned_at: datetime | None = None
    ended_at: datetime | None = None
    deadline: datetime | None = None
    steps: builtins.list[_StepResponse]


class _FlowItemResponse(JobItemResponse):
    flow: FlowCounts | None = None


class RemoteFlows(Flows):
    async def get(self, id: JobId) -> FlowView:
        connection = await connection_of(self._engine)
        flow = await connection.call(_FlowResponse, "GET", "flows", checked_id(id))
        job = flow.job.to_record()
        if flow.planned_at is None:
            raise BadInput(f"job {job.id} ({job.task}) has no steps: it was not planned yet")
        return FlowView(
            id=job.id,
            task=job.task,
            state=job.shown(self._engine.clock.now()),
            cancel_reason=job.cancel_reason,
            steps=tuple(step.to_record() for step in flow.steps),
            began_at=flow.planned_at,
            ended_at=flow.ended_at,
            deadline=flow.deadline,
            replay_of=flow.replay_of,
        )

    async def items(self, id: JobId, step: str, *, after: int = -1, limit: int = 100) -> Sequence[Job]:
        checked_limit(limit, MAX_PAGE_ROWS)
        connection, found = await connection_of(self._engine), list[Job]()
        path = "flows", checked_id(id), "steps", step, "items"
        while len(found) < limit:
            query = {"limit": min(limit - len(found), PAGE_ITEMS), "after": after, "full": "true"}
            page = await connection.call(_ItemPage, "GET", *path, query=query)
            found += [item.job.to_record() for item in page.items]
            if page.next is None:
                break
            after = page.next
        return found

    async def list(
        self,
        tasks: Sequence[str] | None = None,
        *,
        states: Sequence[Shown] | None = None,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        brief: bool = False,
    ) -> FlowJobs:
        """The server knows which of its tasks are flows."""
        checked_limit(limit, MAX_PAGE_ROWS)
        chosen = {"task": tasks, "state": states, "order": "desc" if newest else "asc"}
        connection = await connection_of(self._engine)
        page, items = await read_jobs(connection, _FlowItemResponse, "flows", limit=limit, after=after, **chosen)
        progress = {item.job.id: item.flow for item in items if item.flow is not None}
        return FlowJobs.of(page, progress)

    async def draw(self, id: JobId, format: PictureFormat = "svg") -> str:
        file = {"svg": "graph.svg", "mermaid": "graph.mmd"}.get(format)
        if file is None:
            return await super().draw(id, format)  # raises the reason
        return (await (await connection_of(self._engine)).send("GET", "flows", checked_id(id), file)).decode()

    async def why(self, id: JobId) -> Sequence[Reason]:
        connection = await connection_of(self._engine)
        return await connection.call(builtins.list[Reason], "GET", "flows", checked_id(id), "why")

    async def enqueue(self, plan: Mapping[str, Any] | str | bytes, /, **options: Unpack[JobOptions]) -> Handle[Any]:
        """The server has the tasks, and checks the plan."""
        document = _decoded(plan)
        job, within = self._engine.flow_job(document.get("name", "flow"), options)
        if within is not None:
            self._engine.check_within()
        body = flow_request(job, document)
        made = await (await connection_of(self._engine)).call(Enqueued, "POST", "flows", body=body)
        return self._engine.handle(made, job.task)

    async def retry(self, id: JobId, **part: Unpack[BulkPage]) -> Changed:
        """The server retries all dead steps: `part` is not for an API."""
        if part:
            raise BadInput(f"{next(iter(part))}= needs the database itself: over an API all dead steps are retried")
        connection, id = await connection_of(self._engine), checked_id(id)
        await connection.send("POST", "flows", id, "retry")
        return Changed([id], {})

    async def skip(self, id: JobId, step: str, reason: str = "") -> StepView:
        connection, id = await connection_of(self._engine), checked_id(id)
        await connection.send(
            "POST", "flows", id, "skip", body={"step": step, "reason": clean(str(reason), MAX_SKIP_REASON_CHARACTERS)}
        )
        return (await self.get(id)).step(step)

    async def signal(self, id: JobId, name: str, value: Any = None, *, delivery: str | None = None) -> None:
        check_name(name)
        if delivery is not None and not (delivery.isascii() and delivery.isprintable()):
            raise BadInput(f"over an API delivery= is printable ASCII, got {delivery!r:.80}")
        connection, body = await connection_of(self._engine), {"value": msgspec.Raw(encode(value))}
        await connection.send("POST", "flows", checked_id(id), "signals", name, body=body, key=delivery)

    async def replay(
        self,
        id: JobId,
        *,
        from_: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        new_id: JobId | None = None,
    ) -> Handle[Any]:
        if new_id is not None:
            raise BadInput("new_id= needs the database itself; over an API it is the header Idempotency-Key")
        body = {"from": from_, "arguments": arguments}
        connection, id = await connection_of(self._engine), checked_id(id)
        made = await connection.call(Enqueued, "POST", "flows", id, "replay", body=body)
        return self._engine.handle(made, (await self._engine.jobs.get(id)).task if self._engine.tasks else "")


class _ItemPage(Struct):
    items: builtins.list[JobItemResponse]
    next: int | None = None


def _decoded(plan: Mapping[str, Any] | str | bytes) -> Mapping[str, Any]:
    if isinstance(plan, Mapping):
        return plan
    try:
        return msgspec.json.decode(plan, type=dict[str, Any])
    except msgspec.DecodeError as bad:
        raise BadFlow(f"the plan cannot be read: {bad}") from None
