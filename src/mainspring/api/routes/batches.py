"""/batches: begins batches, adds jobs to them, closes them, and shows how far they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from litestar import Request, Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...errors import BadInput
from ...ids import JobId
from ...insight.batch_view import BatchView
from ...insight.flow_view import StepState
from ...records.batch import BatchCounts
from ...records.flow import BATCH
from ...records.job import NewJob, Shown
from ...records.principal import Principal
from ...task.batch import Batch
from ..access.authenticate import App, Caller, allow
from ..access.redaction import redact_line, redact_mapping
from ..idempotency import job_id
from ..masked_values import restore_masked
from ..problem import Problem
from .enqueue import (
    MAX_BATCH_JOBS,
    EnqueueResult,
    EnqueueResults,
    JobRequest,
    JobUuid,
    build_from_body,
    enqueue_result,
    nth_job,
    with_caller,
)
from .field_types import Limit as SecondsOrNull
from .field_types import Name, Priority, Seconds
from .job_filters import States
from .jobs import Limit

Jobs = Annotated[list[JobRequest], Meta(min_length=1, max_length=MAX_BATCH_JOBS)]


class BatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A batch, with its first jobs. Callbacks are names of tasks of this server."""

    name: Name
    id: JobUuid | UnsetType = UNSET
    """A UUIDv7 chosen by the client, so that the same request sent twice begins one batch."""
    parent: str | UnsetType = UNSET
    """The batch that this one is a job of."""
    on_success: Name | None = None
    on_failure: Name | None = None
    on_complete: Name | None = None
    open_for: Seconds | UnsetType = UNSET
    """If it is not closed so long after its last job, it fails. Default: 10m."""
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    timeout: SecondsOrNull | UnsetType | None = UNSET
    tags: list[Name] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    jobs: Annotated[list[JobRequest], Meta(max_length=MAX_BATCH_JOBS)] = []
    close: bool = False
    """Close it: these are all jobs."""


class BatchJobsRequest(Struct, forbid_unknown_fields=True):
    jobs: Jobs


class BatchResult(Struct, frozen=True):
    """A batch that has begun."""

    id: str
    jobs: list[EnqueueResult]


class BatchItem(Struct, frozen=True, kw_only=True):
    """A batch, as it is now."""

    id: str
    name: str
    state: Shown
    open: bool
    """Whether its maker may add further jobs. Closed, its unfinished jobs still may."""
    counts: BatchCounts
    callbacks: Mapping[str, StepState]
    metadata: Mapping[str, Any]
    reason: str | None
    """Why it fails although none of its jobs may be dead, or is being cancelled."""
    created_at: datetime
    ended_at: datetime | None


class BatchItems(Struct, frozen=True):
    items: list[BatchItem]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""


@get("/batches", **allow("viewer"))
async def list_batches(
    app: App,
    states: States = None,
    order: FromQuery[Literal["asc", "desc"] | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
) -> BatchItems:
    """Batches, newest first, each with its counts."""
    page = await app.batches.list(states=states, limit=limit, after=after, newest=order != "asc")
    return BatchItems([_item(view) for view in page], page.next)


@get("/batches/{id:str}", **allow("viewer"))
async def get_batch(app: App, id: FromPath[str]) -> BatchItem:
    """A batch: its counts, and the states of its callbacks. Its jobs are the items of the step `jobs` of the flow with
    this id."""
    await _found(app, id)
    return _item(await app.batches.show(id))


@post("/batches", **allow("operator"))
async def begin_batch(
    app: App, caller: Caller, data: JSONBody[BatchRequest], request: Request[Any, Any, Any]
) -> Response[BatchResult]:
    """Begins a batch, and adds up to 1,000 jobs. They run while more are added, until it is closed."""
    jobs = await _built(app, caller, data.jobs, request, first=1)
    batch = await _new(app, caller, data, request)
    await batch.begin()
    handles = await batch.insert(jobs) if jobs else []
    if data.close:
        await batch.close()
    result = BatchResult(batch.id, [enqueue_result(handle) for handle in handles])
    return Response(result, status_code=201, headers={"Location": f"batches/{batch.id}"})


@post("/batches/{id:str}/jobs", **allow("operator"))
async def add_batch_jobs(
    app: App, caller: Caller, id: FromPath[str], data: JSONBody[BatchJobsRequest], request: Request[Any, Any, Any]
) -> Response[EnqueueResults]:
    """Adds up to 1,000 jobs to a batch, all or none. 409 if it has ended."""
    batch = await _found(app, id)
    handles = await batch.insert(await _built(app, caller, data.jobs, request))
    return Response(EnqueueResults([enqueue_result(handle) for handle in handles]), status_code=201)


@post("/batches/{id:str}/close", status_code=200, **allow("operator"))
async def close_batch(app: App, id: FromPath[str]) -> BatchItem:
    """Closes a batch: it ends when all of its jobs have ended. Closed again, it stays as it is."""
    await (await _found(app, id)).close()
    return _item(await app.batches.show(id))


async def _new(app: Mainspring, caller: Principal, data: BatchRequest, request: Request[Any, Any, Any]) -> Batch:
    names = ("open_for", "queue", "priority", "timeout", "tags", "metadata")
    options: dict[str, Any] = {name: value for name in names if (value := getattr(data, name)) is not UNSET}
    if "metadata" in options:
        options["metadata"] = restore_masked(options["metadata"])
    for option in ("on_success", "on_failure", "on_complete"):
        if (task := getattr(data, option)) is not None:
            options[option] = app.tasks.get(task) or _unknown(option, task)
    parent = None if data.parent is UNSET else await _found(app, data.parent)
    batch = app.batch(data.name, **options) if parent is None else parent.batch(data.name, **options)
    return batch.changed(lambda new: with_caller(_with_id(new, data), caller, request))


def _with_id(new: NewJob, data: BatchRequest) -> NewJob:
    id = job_id() if data.id is UNSET else data.id
    return new if id is None else replace(new, id=id)


def _unknown(option: str, task: str) -> Any:
    raise Problem(422, "unknown_task", f"{option}: no task {task!r:.80} is registered in this server's app")


async def _built(
    app: Mainspring, caller: Principal, wanted: Sequence[JobRequest], request: Request[Any, Any, Any], first: int = 0
) -> list[NewJob]:
    """The jobs. `first` is the number of the first one among what the request stores."""
    made = await build_from_body(app, lambda: [nth_job(app, one, n) for n, one in enumerate(wanted, first)], request)
    return [with_caller(job, caller, request) for job in made]


async def _found(app: Mainspring, id: JobId) -> Batch:
    """The batch. Raises Problem(404) if the job is none."""
    job = await app.jobs.get(id)
    if job.task != BATCH:
        raise Problem(404, "batch_not_found", f"job {job.id} ({job.task}) is no batch", job_id=job.id)
    try:
        return await app.batches.get(id)
    except BadInput as bad:
        raise Problem(404, "batch_not_found", str(bad), job_id=job.id) from None


def _item(view: BatchView) -> BatchItem:
    reason = None if view.reason is None else redact_line(view.reason)
    fields: dict[str, Any] = {**asdict(view), "metadata": redact_mapping(view.metadata), "reason": reason}
    return BatchItem(**fields)


ROUTES = [list_batches, get_batch, begin_batch, add_batch_jobs, close_batch]
