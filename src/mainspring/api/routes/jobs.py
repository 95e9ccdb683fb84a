"""/jobs: reads jobs, one or a page of them, and edits or deletes one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Response, delete, get, patch
from litestar.di import Provide
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...control.job_page import whole_page
from ...errors import BadInput
from ...insight.why import Reason
from ...records.job import Job
from ...records.query import Filter, Sort
from ..access.authenticate import App, allow
from ..access.redaction import mask_note, redact_line
from ..etag import claim_edit, etag
from ..masked_values import restore_arguments, restore_in_thread, restore_masked
from ..response_cache import Cache
from ..views import build_view, build_views
from . import field_types as values
from .field_types import Count, Instant, Name, Priority
from .job_filters import QueryFilter, filter_from_query
from .job_view import JobPage, JobView, LogPage, editable_fields, job_item, job_view, log_line

# That a request may wait for a job to finish.
MAX_WAIT_SECONDS = 30.0
# Of the jobs in one page with `full`: a page ends before the job that exceeds it, but has at least one job.
MAX_ANSWER_CHARACTERS = 4 << 20
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Lines = Annotated[int, QueryParameter(ge=1, le=1000)]
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]


class JobEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """New values for a waiting job. Absent fields stay unchanged."""

    arguments: dict[str, Any] | UnsetType = UNSET
    """By parameter name. They replace those of the job; the others stay."""
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at: Instant | UnsetType = UNSET
    expires_at: Instant | UnsetType | None = UNSET
    timeout: values.Limit | UnsetType | None = UNSET
    """Seconds, or a span such as 5m; null for no limit."""
    max_retries: Count | UnsetType = UNSET
    tags: list[Name] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET

    def given(self, job: Job | None = None) -> dict[str, Any]:
        """The given fields as keyword arguments of app.jobs.update. Masked values are restored from the job."""
        values = {name: value for name, value in asdict(self).items() if value is not UNSET}
        if "arguments" in values:
            values["arguments"] = restore_arguments(values["arguments"], "{}" if job is None else job.payload)
        if "metadata" in values:
            values["metadata"] = restore_masked(values["metadata"], None if job is None else job.metadata)
        return values


class JobCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of jobs by displayed state. Large numbers may be estimates.

    With a filter, a state is absent if counting would take too long.
    """

    pending: int | UnsetType = UNSET
    scheduled: int | UnsetType = UNSET
    retrying: int | UnsetType = UNSET
    running: int | UnsetType = UNSET
    waiting: int | UnsetType = UNSET
    paused: int | UnsetType = UNSET
    completed: int | UnsetType = UNSET
    dead: int | UnsetType = UNSET
    cancelled: int | UnsetType = UNSET
    expired: int | UnsetType = UNSET
    up_to: int | UnsetType = UNSET
    """With a filter: counting stops at this number, so an equal count means this many or more."""


@get("/jobs", dependencies={"which": Provide(filter_from_query)}, **allow("viewer"))
async def list_jobs(
    app: App,
    which: QueryFilter,
    sort: FromQuery[Sort | None] = None,
    order: FromQuery[Literal["asc", "desc"] | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
    arguments: Annotated[bool, QueryParameter(description="Include the beginning of each job's arguments.")] = False,
    full: Annotated[bool, QueryParameter(description="Include all fields of each job.")] = False,
) -> JobPage:
    """Jobs, newest first; with `sort=due` the jobs that are due soonest first.

    With `full`, a page of large jobs may have fewer than `limit` jobs. `next` is null on the last page only.
    """
    newest = sort != "due" if order is None else order == "desc"
    page = await app.jobs.list(which, limit=limit, after=after, newest=newest, sort=sort, brief=True)
    if full:
        page = await whole_page(await app.connect(), page, MAX_ANSWER_CHARACTERS, app.clock.now())
    now = app.clock.now()
    items = await build_views(app, page, lambda job: job_item(job, now, arguments=arguments, full=full))
    return JobPage(items, page.next)


@get("/jobs/counts", dependencies={"which": Provide(filter_from_query)}, **allow("viewer"))
async def count_jobs(app: App, cache: Cache, which: QueryFilter) -> JobCounts:
    """Counts jobs by state: all jobs, or those that match the filter. The filter's `state` is ignored."""
    which = replace(which, states=None)
    if which == Filter():
        return JobCounts(**await cache.get("counts", app.jobs.counts))
    found = await cache.get(("counts", which), lambda: app.jobs.filtered_counts(which))
    return JobCounts(**found.counts, up_to=found.up_to)


@get("/jobs/{id:str}", **allow("viewer", waits=True))
async def get_job(
    app: App, id: FromPath[str], wait: Annotated[float, QueryParameter(ge=0, le=MAX_WAIT_SECONDS)] = 0.0
) -> Response[JobView]:
    """One job. With `wait` the response arrives when the job has finished, or after this number of seconds."""
    return await with_etag(app, await (app.jobs.wait(id, wait) if wait else app.jobs.get(id)))


@patch("/jobs/{id:str}", **allow("operator"))
async def update_job(
    app: App, id: FromPath[str], data: JSONBody[JobEdit], if_match: IfMatch = None
) -> Response[JobView]:
    """Edits a waiting job. With If-Match, only if it was not edited since it was read."""
    async with claim_edit(app, await app.jobs.get(id), "*" if if_match is None else if_match, editable_fields) as job:
        await app.jobs.update(id, **await restore_in_thread(app, lambda: data.given(job)))
    return await with_etag(app, await app.jobs.get(id))


@delete("/jobs/{id:str}", status_code=204, **allow("operator"))
async def delete_job(app: App, id: FromPath[str]) -> None:
    """Deletes a job and its history. A running job is refused: cancel it first."""
    await app.jobs.delete(id)


@get("/jobs/{id:str}/why", **allow("viewer"))
async def why_job(app: App, id: FromPath[str]) -> list[Reason]:
    """All reasons why a job is not running, or where it runs. Never empty."""
    return [redacted_reason(reason) for reason in await app.jobs.why(id)]


@get("/jobs/{id:str}/logs", **allow("viewer"))
async def job_logs(app: App, id: FromPath[str], after: FromQuery[str | None] = None, limit: Lines = 200) -> LogPage:
    """The log lines of a job's runs, oldest first."""
    lines = await app.jobs.logs(id, limit=limit, after=(0, 0) if after is None else _line_position(after))
    more = f"{lines[-1].run}.{lines[-1].n}" if len(lines) == limit else None
    return LogPage(await build_views(app, lines, log_line), more)


_WITH_USER_DATA = {
    "final",
    "stopping",
    "version_skew",
    "key_held",
    "waits_for_steps",
    "cancelling",
    "step_skipped",
    "step_not_run",
}


def redacted_reason(reason: Reason) -> Reason:
    """The reason with user data redacted: results, cancel reasons, arguments and keys appear in these texts."""
    if reason.code == "queue_paused":
        return replace(reason, text=mask_note(reason.text) or "")
    return replace(reason, text=redact_line(reason.text)) if reason.code in _WITH_USER_DATA else reason


async def with_etag(app: Mainspring, job: Job) -> Response[JobView]:
    """A response with the job and its ETag."""
    now = app.clock.now()
    view = await build_view(app, job, lambda job: job_view(job, now))
    return Response(view, headers={"ETag": f'"{await etag(app, editable_fields(job))}"'})


def _line_position(after: str) -> tuple[int, int]:
    run, dot, n = after.partition(".")
    if not dot or not (run.isascii() and n.isascii() and run.isdigit() and n.isdigit()) or len(after) > 20:
        raise BadInput(
            f"after={after[:80]!r} is not a run and a line number, such as 1.20; use `next` of the previous page"
        )
    return int(run), int(n)


ROUTES = [list_jobs, count_jobs, get_job, update_job, delete_job, why_job, job_logs]
