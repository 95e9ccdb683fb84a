"""/jobs/{id}/…: what operators do to one job."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, post
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType

from ...bounds import MAX_REASON_CHARACTERS
from ..access.authenticate import Spring, may
from ..idempotency import minted
from ..problem import Problem
from .enqueue import Accepted, accepted
from .job_view import JobView
from .jobs import tagged
from .values import Instant, Seconds


class Cancellation(Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARACTERS)] = "cancelled by an operator"
    """Kept with the job."""


class Postponement(Struct, forbid_unknown_fields=True):
    """When: an instant, or seconds or a span such as 1h30m from now."""

    at: Instant | UnsetType = UNSET
    delay: Seconds | UnsetType = UNSET


@post("/jobs/{id:str}/cancel", status_code=200, **may("operator"))
async def cancel_job(
    spring: Spring, id: FromPath[str], data: JSONBody[Cancellation | None] = None
) -> Response[JobView]:
    """A waiting job never runs; a running one is interrupted at its worker's next beat."""
    await spring.jobs.cancel(id, (data or Cancellation()).reason)
    return await tagged(spring, await spring.jobs.get(id))


@post("/jobs/{id:str}/retry", status_code=200, **may("operator"))
async def retry_job(spring: Spring, id: FromPath[str]) -> Response[JobView]:
    """A dead, cancelled or expired job becomes pending, with all its retries."""
    await spring.jobs.retry(id)
    return await tagged(spring, await spring.jobs.get(id))


@post("/jobs/{id:str}/pause", status_code=200, **may("operator"))
async def pause_job(spring: Spring, id: FromPath[str]) -> Response[JobView]:
    """A pending job is held back until it is resumed."""
    await spring.jobs.pause(id)
    return await tagged(spring, await spring.jobs.get(id))


@post("/jobs/{id:str}/resume", status_code=200, **may("operator"))
async def resume_job(spring: Spring, id: FromPath[str]) -> Response[JobView]:
    """A paused job may go on."""
    await spring.jobs.resume(id)
    return await tagged(spring, await spring.jobs.get(id))


@post("/jobs/{id:str}/reschedule", status_code=200, **may("operator"))
async def reschedule_job(spring: Spring, id: FromPath[str], data: JSONBody[Postponement]) -> Response[JobView]:
    """A waiting job is due at this instant, or so many seconds from now."""
    when = data.at if data.delay is UNSET else data.delay
    if when is UNSET or UNSET not in (data.at, data.delay):
        raise Problem(422, "invalid", "give either `at`, an instant, or `delay`, seconds from now")
    await spring.jobs.reschedule(id, when)
    return await tagged(spring, await spring.jobs.get(id))


@post("/jobs/{id:str}/run-again", **may("operator"))
async def run_job_again(spring: Spring, id: FromPath[str]) -> Response[Accepted]:
    """A new job with the task, queue, arguments, tags and options of this finished one."""
    handle = await spring.jobs.run_again(id, new_id=minted())
    return Response(accepted(handle), status_code=201, headers={"Location": f"jobs/{handle.id}"})


ROUTES = [run_job_again, cancel_job, retry_job, pause_job, resume_job, reschedule_job]
