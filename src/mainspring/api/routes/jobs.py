"""/jobs: seeing them, one at a time or in pages, and editing those that wait."""

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
from ..access.authenticate import Spring, may
from ..access.redaction import shown_line, shown_text
from ..edit_claim import unchanged
from ..etag import etag
from ..response_cache import Lately
from ..showing import shown_each, shown_one
from ..unchanged import given_values, kept, kept_arguments
from . import values
from .filters import Which, which_jobs
from .job_view import JobPage, JobView, LogPage, editable, job_item, job_view, log_line
from .values import Count, Instant, Name, Priority

# Seconds that a request may wait for a job to end.
LONGEST = 30.0
# Characters of the jobs in one answer with `full`: a page that has more ends before, but for its first job.
MAX_ANSWER_CHARACTERS = 4 << 20
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Lines = Annotated[int, QueryParameter(ge=1, le=1000)]
IfMatch = Annotated[str | None, HeaderParameter(name="If-Match")]


class JobEdit(Struct, kw_only=True, forbid_unknown_fields=True):
    """New values for a job that waits; what is left out stays."""

    arguments: dict[str, Any] | UnsetType = UNSET
    """By name, on top of those it has."""
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at: Instant | UnsetType = UNSET
    expires_at: Instant | UnsetType | None = UNSET
    timeout: values.Limit | UnsetType | None = UNSET
    """Seconds, or a span such as 5m; null: no limit."""
    max_retries: Count | UnsetType = UNSET
    tags: list[Name] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET

    def given(self, job: Job | None = None) -> dict[str, Any]:
        """As app.jobs.update takes them; what is masked is as the job has it."""
        values = {name: value for name, value in asdict(self).items() if value is not UNSET}
        if "arguments" in values:
            values["arguments"] = kept_arguments(values["arguments"], "{}" if job is None else job.payload)
        if "metadata" in values:
            values["metadata"] = kept(values["metadata"], None if job is None else job.metadata)
        return values


class JobCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many jobs are in each state that people see. Large figures may be estimates.

    Of a filter, a state is left out where counting would take too long.
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
    """Of a filter: a figure as large as this may be larger."""


@get("/jobs", dependencies={"which": Provide(which_jobs)}, **may("viewer"))
async def list_jobs(
    spring: Spring,
    which: Which,
    sort: FromQuery[Sort | None] = None,
    order: FromQuery[Literal["asc", "desc"] | None] = None,
    after: FromQuery[str | None] = None,
    limit: Limit = 50,
    arguments: Annotated[bool, QueryParameter(description="How each job's arguments begin.")] = False,
    full: Annotated[bool, QueryParameter(description="All of each job, as under its id.")] = False,
) -> JobPage:
    """Jobs, newest first; those that are due by `sort=due`, soonest first.

    With `full`, a page of large jobs may have fewer than `limit`: `next` says whether there are more.
    """
    newest = sort != "due" if order is None else order == "desc"
    page = await spring.jobs.list(which, limit=limit, after=after, newest=newest, sort=sort, brief=True)
    if full:
        page = await whole_page(await spring.opened(), page, MAX_ANSWER_CHARACTERS, spring.clock.now())
    now = spring.clock.now()
    items = await shown_each(spring, page, lambda job: job_item(job, now, arguments=arguments, full=full))
    return JobPage(items, page.next)


@get("/jobs/counts", dependencies={"which": Provide(which_jobs)}, **may("viewer"))
async def count_jobs(spring: Spring, recent: Lately, which: Which) -> JobCounts:
    """How many jobs are in each state: all of them, or those of a filter, whose states do not matter."""
    which = replace(which, states=None)
    if which == Filter():
        return JobCounts(**await recent.get("counts", spring.jobs.counts))
    found = await recent.get(("counts", which), lambda: spring.jobs.filtered_counts(which))
    return JobCounts(**found.counts, up_to=found.up_to)


@get("/jobs/{id:str}", **may("viewer", waits=True))
async def get_job(
    spring: Spring, id: FromPath[str], wait: Annotated[float, QueryParameter(ge=0, le=LONGEST)] = 0.0
) -> Response[JobView]:
    """All of a job. With `wait` the answer comes when it has ended, or after so many seconds."""
    return await tagged(spring, await (spring.jobs.wait(id, wait) if wait else spring.jobs.get(id)))


@patch("/jobs/{id:str}", **may("operator"))
async def update_job(
    spring: Spring, id: FromPath[str], data: JSONBody[JobEdit], if_match: IfMatch = None
) -> Response[JobView]:
    """Edits a job that waits; with If-Match only if nobody has edited it since it was read."""
    async with unchanged(spring, await spring.jobs.get(id), "*" if if_match is None else if_match, editable) as job:
        await spring.jobs.update(id, **await given_values(spring, lambda: data.given(job)))
    return await tagged(spring, await spring.jobs.get(id))


@delete("/jobs/{id:str}", status_code=204, **may("operator"))
async def delete_job(spring: Spring, id: FromPath[str]) -> None:
    """Gone with its history. A running job is refused: cancel it first."""
    await spring.jobs.delete(id)


@get("/jobs/{id:str}/why", **may("viewer"))
async def why_job(spring: Spring, id: FromPath[str]) -> list[Reason]:
    """Every reason why it is not running, or where it runs; never empty."""
    return [_shown(reason) for reason in await spring.jobs.why(id)]


@get("/jobs/{id:str}/logs", **may("viewer"))
async def job_logs(
    spring: Spring, id: FromPath[str], after: FromQuery[str | None] = None, limit: Lines = 200
) -> LogPage:
    """What its runs have logged, first to last."""
    lines = await spring.jobs.logs(id, limit=limit, after=(0, 0) if after is None else _line(after))
    more = f"{lines[-1].run}.{lines[-1].n}" if len(lines) == limit else None
    return LogPage(await shown_each(spring, lines, log_line), more)


def _shown(reason: Reason) -> Reason:
    """How it ended, why it shall, why its arguments do not fit or which key is held is in words of others."""
    if reason.code == "queue_paused":
        return replace(reason, text=shown_text(reason.text) or "")
    said = reason.code in ("final", "stopping", "version_skew", "key_held")
    return replace(reason, text=shown_line(reason.text)) if said else reason


async def tagged(spring: Mainspring, job: Job) -> Response[JobView]:
    now = spring.clock.now()
    view = await shown_one(spring, job, lambda job: job_view(job, now))
    return Response(view, headers={"ETag": f'"{await etag(spring, editable(job))}"'})


def _line(after: str) -> tuple[int, int]:
    run, dot, n = after.partition(".")
    if not dot or not (run.isascii() and n.isascii() and run.isdigit() and n.isdigit()) or len(after) > 20:
        raise BadInput(f"after={after[:80]!r} is not the run and the number of a line, such as 1.20; give `next`")
    return int(run), int(n)


ROUTES = [list_jobs, count_jobs, get_job, update_job, delete_job, why_job, job_logs]
