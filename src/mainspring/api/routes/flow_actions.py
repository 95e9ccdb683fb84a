"""POST /flows, which enqueues a plan; and /flows/{id}/…: actions on one flow."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct, field, to_builtins

from ...app import Mainspring
from ...control.flows import MAX_SKIP_REASON_CHARACTERS
from ...flow.document import StepDocument, builder_from_document
from ...records.job import NewJob
from ...records.plan import MAX_STEPS
from ..access.authenticate import App, Caller, allow
from ..idempotency import HEADER, job_id
from ..masked_values import restore_arguments, restore_in_thread, restore_masked
from .enqueue import (
    EnqueueResult,
    OptionsRequest,
    build_from_body,
    enqueue_result,
    is_from_browser,
    options_of,
    with_caller,
    with_id,
)
from .field_types import Name
from .flow_reading import found_flow, found_step
from .job_actions import CancelRequest
from .job_view import JobView
from .jobs import with_etag


class FlowRequest(OptionsRequest, kw_only=True, forbid_unknown_fields=True):
    """The plan of a flow, with the options of its job."""

    name: Name = "flow"
    steps: Annotated[list[StepDocument], Meta(min_length=1, max_length=MAX_STEPS)]
    """In any order. Values of other steps are {"$step": name, "path": […]}."""
    result: Any = None
    """What the flow returns."""
    fail_fast: bool = False
    """Cancel the rest as soon as one step is dead."""


class SkipRequest(Struct, forbid_unknown_fields=True):
    step: Name
    """The name of the step."""
    reason: Annotated[str, Meta(max_length=MAX_SKIP_REASON_CHARACTERS)] = ""
    """Stored with the flow."""


class SignalRequest(Struct, forbid_unknown_fields=True):
    value: Any = None
    """The value of the signal."""


class SignalResult(Struct, frozen=True):
    id: str
    """Of the job."""
    signal: str
    """Its name."""


class ReplayRequest(Struct, forbid_unknown_fields=True):
    start: Name | None = field(name="from", default=None)
    """The step that runs again, with all behind it; all steps without one."""
    arguments: dict[str, Any] | None = None
    """Merged over those that the flow had."""


@post(
    "/flows",
    responses={200: ResponseSpec(EnqueueResult, False, "It existed already.")},
    **allow("operator"),
)
async def enqueue_flow(
    app: App, caller: Caller, data: JSONBody[FlowRequest], request: Request[Any, Any, Any]
) -> Response[EnqueueResult]:
    """Enqueues a flow from a plan. Its tasks are those of this server, and it is stored when the response arrives."""
    job = with_caller(await build_from_body(app, lambda: _flow_job(app, data), request), caller, request)
    (handle,) = await (app.enqueue_by_hand([job]) if is_from_browser(request) else app.insert([job]))
    headers = {"Location": f"flows/{handle.id}"}
    return Response(enqueue_result(handle), status_code=200 if handle.duplicate else 201, headers=headers)


def _flow_job(app: Mainspring, wanted: FlowRequest) -> NewJob:
    document = {name: to_builtins(getattr(wanted, name)) for name in ("name", "steps", "result", "fail_fast")}
    return with_id(builder_from_document(restore_masked(document), app, options_of(wanted)).job(), wanted)


@post("/flows/{id:str}/cancel", status_code=200, **allow("operator"))
async def cancel_flow(app: App, id: FromPath[str], data: JSONBody[CancelRequest | None] = None) -> Response[JobView]:
    """Cancels a flow: steps that wait are not run, the others are cancelled, and it ends when all have ended. Steps
    that run at its end still do; a second cancel stops these, too."""
    await found_flow(app, id)
    await app.flows.cancel(id, (data or CancelRequest()).reason)
    return await with_etag(app, await app.jobs.get(id))


@post("/flows/{id:str}/retry", status_code=200, **allow("operator"))
async def retry_flow(app: App, id: FromPath[str]) -> Response[JobView]:
    """Puts the dead steps of a flow back to work, and all that depends on them. Of a flow that has ended the cancelled
    steps, too."""
    await found_flow(app, id)
    await app.flows.retry(id)
    return await with_etag(app, await app.jobs.get(id))


@post("/flows/{id:str}/skip", status_code=200, **allow("operator"))
async def skip_step(app: App, id: FromPath[str], data: JSONBody[SkipRequest]) -> Response[JobView]:
    """Lets a flow do without a step: one that waits, was released, or is dead or cancelled. The flow goes on as if it
    were optional."""
    await found_step(app, id, data.step)
    await app.flows.skip(id, data.step, data.reason)
    return await with_etag(app, await app.jobs.get(id))


@post("/flows/{id:str}/signals/{name:str}", status_code=202, problems=[410], **allow("operator"))
async def give_signal(
    app: App,
    id: FromPath[str],
    name: FromPath[str],
    request: Request[Any, Any, Any],
    data: JSONBody[SignalRequest | None] = None,
) -> SignalResult:
    """Gives a signal of a flow its value, or of another job that waits for one. The first value stands. A repeated
    request with the same Idempotency-Key is one delivery."""
    value = None if data is None else data.value
    await app.flows.signal(id, name, value, delivery=request.headers.get(HEADER.decode()))
    return SignalResult(id, name)


@post("/flows/{id:str}/replay", **allow("operator"))
async def replay_flow(
    app: App, id: FromPath[str], data: JSONBody[ReplayRequest | None] = None
) -> Response[EnqueueResult]:
    """Enqueues a new flow that repeats one which has ended: from its start, or from a step; the others are taken over
    as they ended, with their values."""
    wanted = data or ReplayRequest()
    job, _ = await found_flow(app, id)
    if wanted.start is not None:
        await found_step(app, id, wanted.start)
    arguments = wanted.arguments
    if arguments is not None:
        given = arguments
        arguments = await restore_in_thread(app, lambda: restore_arguments(given, job.payload))
    handle = await app.flows.replay(id, from_=wanted.start, arguments=arguments, new_id=job_id())
    return Response(enqueue_result(handle), status_code=201, headers={"Location": f"flows/{handle.id}"})


ROUTES = [enqueue_flow, cancel_flow, retry_flow, skip_step, give_signal, replay_flow]
