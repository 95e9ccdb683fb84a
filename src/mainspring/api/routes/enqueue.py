"""POST /jobs: one job, or many that are taken together or not at all."""

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
from ...task.handle import Handle
from ..access.authenticate import Principal, Spring, Who, may
from ..access.bearer import bearer
from ..access.no_auth import ANYBODY
from ..idempotency import minted
from ..problem import Problem, code_of
from ..security_headers import header
from ..unchanged import kept
from .intake import intake
from .values import BackoffRequest, Count, Instant, Limit, LimitOrInstant, Name, Priority, Seconds, span_or_instant

MANY = 1000
# Bytes of a body whose jobs are made in the event loop.
MAX_AT_ONCE_BYTES = 64 << 10
T = TypeVar("T")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARACTERS)]


_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$(?!\n)"
JobUuid = Annotated[str, Meta(pattern=_UUID)]


class JobRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A call of a task, with the options of task.using()."""

    task: Name | UnsetType = UNSET
    arguments: dict[str, Any] = {}
    """By parameter name."""
    id: JobUuid | UnsetType = UNSET
    """A UUIDv7 minted by whoever asks, so that the same request sent twice is one job."""
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    delay: Seconds | UnsetType = UNSET
    """Seconds from now, or a span such as 1h30m."""
    run_at: Instant | UnsetType = UNSET
    expires: LimitOrInstant | UnsetType | None = UNSET
    """An instant, or a span (seconds, or text) from when it is due: not started by then, it never is."""
    timeout: Limit | UnsetType | None = UNSET
    """Seconds, or a span such as 5m; null: no limit."""
    max_retries: Count | UnsetType = UNSET
    backoff: BackoffRequest | UnsetType = UNSET
    unique_key: Key | UnsetType | None = UNSET
    idempotency_key: Key | UnsetType | None = UNSET
    on_conflict: OnConflict | UnsetType = UNSET
    debounce_limit: Limit | UnsetType = UNSET
    tags: list[Name] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


_OPTIONS = tuple(name for name in JobRequest.__struct_fields__ if name not in ("task", "arguments", "id"))


class EnqueueRequest(JobRequest, kw_only=True, forbid_unknown_fields=True):
    """One job; or many, as `jobs` and nothing beside it."""

    jobs: Annotated[list[JobRequest], Meta(min_length=1, max_length=MANY)] | UnsetType = UNSET


class Accepted(Struct, frozen=True):
    """A job that is safe in the store."""

    id: str
    status: str
    """new, duplicate, replaced or debounced."""
    duplicate: bool
    """A job held the key already, and this is that job."""


class AllAccepted(Struct, frozen=True):
    jobs: list[Accepted]


@post(
    "/jobs",
    responses={200: ResponseSpec(Accepted | AllAccepted, False, "They were there already.")},
    **may("operator"),
)
async def enqueue(
    spring: Spring, who: Who, data: JSONBody[EnqueueRequest], request: Request[Any, Any, Any]
) -> Response[Accepted | AllAccepted]:
    """Stores a job, or up to 1,000 of them together; they are safe when the answer comes.

    Each keeps the name of the key or token that asked for it, as `enqueued_by`. A `traceparent` of the request becomes
    theirs, unless their metadata has one.
    """
    if data.jobs is not UNSET:
        if data != EnqueueRequest(jobs=data.jobs):
            raise Problem(422, "invalid", "`jobs` are many; what is said beside them belongs into each of them")
        return await _many(spring, who, data.jobs, request)
    job = _signed(await _made(spring, lambda: new_job(spring, data), request), who, request)
    if _by_hand(request):
        (handle,) = await spring.enqueue_by_hand([job])
    else:
        handle = await intake(spring).take(job)
    made = accepted(handle)
    headers = {"Location": f"jobs/{handle.id}"}
    return Response(made, status_code=200 if made.duplicate else 201, headers=headers)


async def _many(
    spring: Mainspring, who: Principal, asked: Sequence[JobRequest], request: Request[Any, Any, Any]
) -> Response[Accepted | AllAccepted]:
    made_jobs = await _made(spring, lambda: [_one_of(spring, one, n) for n, one in enumerate(asked)], request)
    jobs = [_signed(job, who, request) for job in made_jobs]
    handles = await (spring.enqueue_by_hand(jobs) if _by_hand(request) else spring.hand_over(jobs))
    made = [accepted(handle) for handle in handles]
    return Response(AllAccepted(made), status_code=200 if all(one.duplicate for one in made) else 201)


def _by_hand(request: Request[Any, Any, Any]) -> bool:
    """Whether a person asks, in a browser. Programs come with a key or a token, and would fill the audit trail."""
    if bearer(request.scope) is not None:
        return False
    return header(request.scope, b"cookie") is not None or header(request.scope, b"sec-fetch-site") is not None


async def _made(spring: Mainspring, make: Callable[[], T], request: Request[Any, Any, Any]) -> T:
    """Of a large body in a thread: all that it holds is looked at, and encoded."""
    if len(await request.body()) <= MAX_AT_ONCE_BYTES:
        return make()
    return await Computation(spring.clock, "the check of these jobs").run(make)


def _one_of(spring: Mainspring, asked: JobRequest, n: int) -> NewJob:
    try:
        return new_job(spring, asked, n)
    except (BadInput, UnknownTask) as bad:
        raise Problem(422, code_of(bad)[1], f"jobs[{n}]: {bad}", index=n) from None


def _signed(job: NewJob, who: Principal, request: Request[Any, Any, Any]) -> NewJob:
    """With the name of the caller, unless sign-in is off, and the context of its trace."""
    by = None if who is ANYBODY else who.name
    return replace(_traced(job, request), enqueued_by=by)


def _traced(job: NewJob, request: Request[Any, Any, Any]) -> NewJob:
    """With the W3C context of whoever asks."""
    parent = header(request.scope, b"traceparent")
    if parent is None or not _TRACEPARENT.fullmatch(parent) or "traceparent" in job.metadata:
        return job
    state = header(request.scope, b"tracestate")
    carried = {"traceparent": parent, **({"tracestate": state[:512]} if state else {})}
    return replace(job, metadata={**job.metadata, **carried})


def accepted(handle: Handle[Any]) -> Accepted:
    return Accepted(handle.id, handle.status, handle.duplicate)


def new_job(spring: Mainspring, asked: JobRequest, n: int = 0) -> NewJob:
    """The job that is asked for, the n-th of its request."""
    if asked.task is UNSET:
        raise Problem(422, "invalid", "Object missing required field `task`")
    given = {name: value for name in _OPTIONS if (value := getattr(asked, name)) is not UNSET}
    if asked.backoff is not UNSET:
        given["backoff"] = asked.backoff.backoff()
    if isinstance(asked.expires, str):
        given["expires"] = span_or_instant(asked.expires, "expires")
    if "metadata" in given:
        given["metadata"] = kept(given["metadata"])
    job, id = spring.job(asked.task, kept(asked.arguments), **given), minted(n) if asked.id is UNSET else asked.id
    return job if id is None else replace(job, id=id)


ROUTES = [enqueue]
