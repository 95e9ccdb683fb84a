"""POST /jobs: enqueues one job, or many: all of them or none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from litestar import Request, Response, post
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from ...app import Mainspring
from ...bounds import MAX_KEY_CHARACTERS
from ...control.computation import Computation
from ...errors import BadInput, UnknownTask
from ...records.job import NewJob, OnConflict
from ...records.limit import MAX_LIMIT_KEY_CHARACTERS
from ...records.principal import Principal
from ...task.handle import Handle
from ..access.authenticate import App, Caller, allow
from ..access.bearer import bearer_token
from ..access.no_auth import LOCAL_ADMIN
from ..idempotency import job_id
from ..masked_values import restore_masked
from ..problem import Problem, code_of
from ..security_headers import header
from .enqueue_batcher import batcher_of
from .field_types import BackoffRequest, Count, Instant, Limit, LimitOrInstant, Name, Priority, Seconds, span_or_instant

MAX_BATCH_JOBS = 1000
# A larger body is converted to jobs in a thread.
MAX_AT_ONCE_BYTES = 64 << 10
T = TypeVar("T")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARACTERS)]
LimitKey = Annotated[str, Meta(min_length=1, max_length=MAX_LIMIT_KEY_CHARACTERS)]


_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$(?!\n)"
JobUuid = Annotated[str, Meta(pattern=_UUID)]


class OptionsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The options of task.using(), and the id of the job."""

    id: JobUuid | UnsetType = UNSET
    """A UUIDv7 chosen by the client, so that the same request sent twice creates one job."""
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    delay: Seconds | UnsetType = UNSET
    """Seconds from now, or a span such as 1h30m."""
    run_at: Instant | UnsetType = UNSET
    expires: LimitOrInstant | UnsetType | None = UNSET
    """The job expires if it has not started by then: an instant, or a span (seconds or text) after it is due."""
    timeout: Limit | UnsetType | None = UNSET
    """Seconds, or a span such as 5m; null for no limit."""
    max_retries: Count | UnsetType = UNSET
    backoff: BackoffRequest | UnsetType = UNSET
    unique_key: Key | UnsetType | None = UNSET
    idempotency_key: Key | UnsetType | None = UNSET
    on_conflict: OnConflict | UnsetType = UNSET
    debounce_limit: Limit | UnsetType = UNSET
    tags: list[Name] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    limit_key: LimitKey | UnsetType = UNSET
    """The key of the job in the limit of its task, in place of the one that its arguments make."""


_OPTIONS = tuple(name for name in OptionsRequest.__struct_fields__ if name != "id")


class JobRequest(OptionsRequest, kw_only=True, forbid_unknown_fields=True):
    """A call of a task, with the options of task.using()."""

    task: Name | UnsetType = UNSET
    arguments: dict[str, Any] = {}
    """By parameter name."""


class EnqueueRequest(JobRequest, kw_only=True, forbid_unknown_fields=True):
    """One job; or many in `jobs`, without any other field."""

    jobs: Annotated[list[JobRequest], Meta(min_length=1, max_length=MAX_BATCH_JOBS)] | UnsetType = UNSET


class EnqueueResult(Struct, frozen=True):
    """A job that is stored."""

    id: str
    status: str
    """new, duplicate, replaced, debounced or collected."""
    duplicate: bool
    """true if another job already held the key; `id` is that job."""


class EnqueueResults(Struct, frozen=True):
    jobs: list[EnqueueResult]


@post(
    "/jobs",
    responses={200: ResponseSpec(EnqueueResult | EnqueueResults, False, "All of them existed already.")},
    **allow("operator"),
)
async def enqueue(
    app: App, caller: Caller, data: JSONBody[EnqueueRequest], request: Request[Any, Any, Any]
) -> Response[EnqueueResult | EnqueueResults]:
    """Enqueues one job, or up to 1,000 in one transaction. They are stored when the response arrives.

    Each job records the name of the caller's key or token as `enqueued_by`, and the request's `traceparent` unless its
    metadata has one.
    """
    if data.jobs is not UNSET:
        if data != EnqueueRequest(jobs=data.jobs):
            raise Problem(422, "invalid", "`jobs` cannot be combined with other fields: put them into each job")
        return await _enqueue_many(app, caller, data.jobs, request)
    job = with_caller(await build_from_body(app, lambda: build_job(app, data), request), caller, request)
    if is_from_browser(request):
        (handle,) = await app.enqueue_by_hand([job])
    else:
        handle = await batcher_of(app).enqueue(job)
    result = enqueue_result(handle)
    headers = {"Location": f"jobs/{handle.id}"}
    return Response(result, status_code=200 if result.duplicate else 201, headers=headers)


async def _enqueue_many(
    app: Mainspring, caller: Principal, wanted: Sequence[JobRequest], request: Request[Any, Any, Any]
) -> Response[EnqueueResult | EnqueueResults]:
    built = await build_from_body(app, lambda: [nth_job(app, one, n) for n, one in enumerate(wanted)], request)
    jobs = [with_caller(job, caller, request) for job in built]
    handles = await (app.enqueue_by_hand(jobs) if is_from_browser(request) else app.insert(jobs))
    results = [enqueue_result(handle) for handle in handles]
    return Response(EnqueueResults(results), status_code=200 if all(one.duplicate for one in results) else 201)


def is_from_browser(request: Request[Any, Any, Any]) -> bool:
    """Whether a person sent the request, in a browser: that is audited. Requests of programs, which send a key or a
    token, are not: they would fill the audit trail."""
    if bearer_token(request.scope) is not None:
        return False
    return header(request.scope, b"cookie") is not None or header(request.scope, b"sec-fetch-site") is not None


async def build_from_body(app: Mainspring, make: Callable[[], T], request: Request[Any, Any, Any]) -> T:
    """Runs `make`, in a thread if the body is large: its values are validated and encoded."""
    if len(await request.body()) <= MAX_AT_ONCE_BYTES:
        return make()
    return await Computation(app.clock, "the check of these jobs").run(make)


def nth_job(app: Mainspring, wanted: JobRequest, n: int) -> NewJob:
    """The n-th job of a request. Its index is in the error if it is refused."""
    try:
        return build_job(app, wanted, n)
    except (BadInput, UnknownTask) as bad:
        raise Problem(422, code_of(bad)[1], f"jobs[{n}]: {bad}", index=n) from None


def with_caller(job: NewJob, caller: Principal, request: Request[Any, Any, Any]) -> NewJob:
    """The job with the caller's name, unless sign-in is off, and its trace context."""
    name = None if caller is LOCAL_ADMIN else caller.name
    return replace(_with_trace(job, request), enqueued_by=name)


def _with_trace(job: NewJob, request: Request[Any, Any, Any]) -> NewJob:
    """The job with the W3C trace context of the request, unless its metadata has one."""
    parent = header(request.scope, b"traceparent")
    if parent is None or not _TRACEPARENT.fullmatch(parent) or "traceparent" in job.metadata:
        return job
    state = header(request.scope, b"tracestate")
    trace = {"traceparent": parent, **({"tracestate": state[:512]} if state else {})}
    return replace(job, metadata={**job.metadata, **trace})


def enqueue_result(handle: Handle[Any]) -> EnqueueResult:
    return EnqueueResult(handle.id, handle.status, handle.duplicate)


def build_job(app: Mainspring, wanted: JobRequest, n: int = 0) -> NewJob:
    """The job for a request's n-th entry. Raises BadInput or UnknownTask if it is refused."""
    if wanted.task is UNSET:
        raise Problem(422, "invalid", "Object missing required field `task`")
    return with_id(app.job(wanted.task, restore_masked(wanted.arguments), **options_of(wanted)), wanted, n)


def options_of(wanted: OptionsRequest) -> dict[str, Any]:
    """The given options, as task.using() takes them."""
    given = {name: value for name in _OPTIONS if (value := getattr(wanted, name)) is not UNSET}
    if wanted.backoff is not UNSET:
        given["backoff"] = wanted.backoff.backoff()
    if isinstance(wanted.expires, str):
        given["expires"] = span_or_instant(wanted.expires, "expires")
    if "metadata" in given:
        given["metadata"] = restore_masked(given["metadata"])
    return given


def with_id(job: NewJob, wanted: OptionsRequest, n: int = 0) -> NewJob:
    """The job with the id that the client has chosen, or that its Idempotency-Key stands for."""
    id = job_id(n) if wanted.id is UNSET else wanted.id
    return job if id is None else replace(job, id=id)


ROUTES = [enqueue]
