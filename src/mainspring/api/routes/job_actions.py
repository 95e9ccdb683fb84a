"""/jobs/{id}/…: actions on one job."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, post
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType

from ...bounds import MAX_REASON_CHARACTERS
from ..access.authenticate import App, allow
from ..idempotency import job_id
from ..problem import Problem
from .enqueue import EnqueueResult, enqueue_result
from .field_types import Instant, Seconds
from .job_view import JobView
from .jobs import with_etag


class CancelRequest(Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARACTERS)] = "cancelled by an operator"
    """Stored with the job."""


class JobRescheduleRequest(Struct, forbid_unknown_fields=True):
    """When the job is due: at an instant, or after a delay (seconds, or a span such as 1h30m)."""

    at: Instant | UnsetType = UNSET
    delay: Seconds | UnsetType = UNSET


@post("/jobs/{id:str}/cancel", status_code=200, **allow("operator"))
async def cancel_job(app: App, id: FromPath[str], data: JSONBody[CancelRequest | None] = None) -> Response[JobView]:
    """Cancels a job. A waiting job never runs; a running one is interrupted at its worker's next beat."""
    await app.jobs.cancel(id, (data or CancelRequest()).reason)
    return await with_etag(app, await app.jobs.get(id))


@post("/jobs/{id:str}/retry", status_code=200, **allow("operator"))
async def retry_job(app: App, id: FromPath[str]) -> Response[JobView]:
    """Makes a dead, cancelled or expired job pending again, with all its retries."""
    await app.jobs.retry(id)
    return await with_etag(app, await app.jobs.get(id))


@post("/jobs/{id:str}/pause", status_code=200, **allow("operator"))
async def pause_job(app: App, id: FromPath[str]) -> Response[JobView]:
    """Pauses a pending job: it does not run until it is resumed."""
    await app.jobs.pause(id)
    return await with_etag(app, await app.jobs.get(id))


@post("/jobs/{id:str}/resume", status_code=200, **allow("operator"))
async def resume_job(app: App, id: FromPath[str]) -> Response[JobView]:
    """Resumes a paused job."""
    await app.jobs.resume(id)
    return await with_etag(app, await app.jobs.get(id))


@post("/jobs/{id:str}/reschedule", status_code=200, **allow("operator"))
async def reschedule_job(app: App, id: FromPath[str], data: JSONBody[JobRescheduleRequest]) -> Response[JobView]:
    """Makes a waiting job due at an instant, or after a delay."""
    when = data.at if data.delay is UNSET else data.delay
    if when is UNSET or UNSET not in (data.at, data.delay):
        raise Problem(422, "invalid", "send either `at` (an instant) or `delay` (seconds from now)")
    await app.jobs.reschedule(id, when)
    return await with_etag(app, await app.jobs.get(id))


@post("/jobs/{id:str}/run-again", **allow("operator"))
async def run_job_again(app: App, id: FromPath[str]) -> Response[EnqueueResult]:
    """Enqueues a new job with the task, queue, arguments, tags and options of this finished one."""
    handle = await app.jobs.run_again(id, new_id=job_id())
    return Response(enqueue_result(handle), status_code=201, headers={"Location": f"jobs/{handle.id}"})


ROUTES = [run_job_again, cancel_job, retry_job, pause_job, resume_job, reschedule_job]
