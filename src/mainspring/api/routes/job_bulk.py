"""POST /jobs/bulk: one action on many jobs. Each job is changed or refused separately."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from litestar import post
from litestar.params import JSONBody
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...control.jobs import refusal_error
from ...ids import JobId
from ...records.job import DEFAULT_STATES, Action
from ...records.query import Changed, Filter
from ...task.handle import job_not_found
from ..access.authenticate import App, allow
from ..access.redaction import redact_line
from ..problem import Problem, code_of
from .job_filters import JobFilter, unmasked_filter
from .jobs import JobEdit

MAX_BULK_JOBS = 1000


class JobSelection(Struct, kw_only=True, forbid_unknown_fields=True):
    """A selection of jobs: by id; by filter, page by page; or all."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_BULK_JOBS)] | None = None
    filter: JobFilter | None = None
    """Without `states` it selects jobs in states that the action applies to: unfinished jobs to cancel, dead ones to
    retry, …"""
    all: bool = False
    """Must be true if the filter is empty."""
    limit: Annotated[int, Meta(ge=1, le=MAX_BULK_JOBS)] = MAX_BULK_JOBS
    """By filter: the maximum number of jobs in this call."""
    after: str | None = None
    """By filter: the `next` of the previous call with the same filter."""

    def page(self) -> dict[str, Any]:
        """The paging options of the call: none for a selection by id."""
        return {} if self.ids is not None else {"limit": self.limit, "after": self.after}


class BulkJobsRequest(JobSelection, kw_only=True, forbid_unknown_fields=True):
    action: Literal["cancel", "retry", "pause", "resume", "delete", "update"]
    reason: Annotated[str, Meta(max_length=1024)] = "cancelled by an operator"
    """For cancel: stored with the jobs."""
    update: JobEdit | None = None
    """For update: the new values."""
    dry_run: bool = False
    """Change nothing, and report what would be done, judging by the jobs' states."""


class RefusedJob(Struct, frozen=True):
    """A job that was not changed, and the reason."""

    id: JobId
    code: str
    detail: str
    state: str | None
    """null if there is no such job."""


class BulkJobsResult(Struct, frozen=True, kw_only=True):
    done: int
    """Number of jobs that were changed."""
    ids: list[JobId]
    """The jobs that were changed."""
    refused: list[RefusedJob]
    next: str | None
    """Pass it as `after` to continue; null if there are no more."""
    dry_run: bool = False


@post("/jobs/bulk", status_code=200, **allow("operator"))
async def bulk_jobs(app: App, data: JSONBody[BulkJobsRequest]) -> BulkJobsResult:
    """Cancels, retries, pauses, resumes, deletes or updates up to 1,000 jobs. Some may be refused."""
    action = Action(data.action)
    if (data.update is None) is (action is Action.UPDATE):
        raise Problem(
            422, "invalid", "`update` (the new values) is required for action update, and not allowed for others"
        )
    which = await selected(app, data, DEFAULT_STATES[action])
    return bulk_result(action, data, await _apply(app, action, which, data), dry_run=data.dry_run)


async def _apply(app: Mainspring, action: Action, which: Filter, data: BulkJobsRequest) -> Changed:
    jobs, page = app.jobs, data.page()
    if data.dry_run:
        return await jobs.preview(action, which, **page)
    if data.update is not None:
        return await jobs.update(which, **data.update.given(), **page)
    if action is Action.CANCEL:
        return await jobs.cancel(which, data.reason, **page)
    act = {Action.RETRY: jobs.retry, Action.PAUSE: jobs.pause, Action.RESUME: jobs.resume, Action.DELETE: jobs.delete}
    return await act[action](which, **page)


async def selected(app: Mainspring, data: JobSelection, states: tuple[Any, ...] | None) -> Filter:
    """The filter of a selection. Raises Problem(422) for an empty filter without `all`."""
    given = sum((data.ids is not None, data.filter is not None, data.all))
    if data.ids is not None and given == 1 and data.after is None:
        return Filter(ids=tuple(dict.fromkeys(data.ids)))
    if data.ids is not None:
        raise Problem(422, "invalid", "`ids` selects the jobs: it cannot be combined with filter, all or after")
    which = Filter() if data.filter is None else Filter(**asdict(data.filter))
    for name, values in asdict(which).items():
        if isinstance(values, tuple | dict) and len(values) > MAX_BULK_JOBS:
            raise Problem(
                422, "invalid", f"filter.{name} has {len(values):,} values: at most {MAX_BULK_JOBS:,} are allowed"
            )
    if which == Filter() and not data.all:
        raise Problem(422, "invalid", 'which jobs? Send ids, a filter that is not empty, or "all": true')
    which = await unmasked_filter(app, which)
    return which if which.states is not None or which.ids is not None else replace(which, states=states)


def bulk_result(action: Action, data: JobSelection, changed: Changed, *, dry_run: bool = False) -> BulkJobsResult:
    errors = {id: refusal_error(action, id, refusal) for id, refusal in changed.refused.items()}
    states = {id: refusal.state for id, refusal in changed.refused.items()}
    refused = [RefusedJob(id, code_of(error)[1], redact_line(str(error)), states[id]) for id, error in errors.items()]
    found: Collection[JobId] = {*changed.done, *changed.refused}
    for id in dict.fromkeys(data.ids or ()):
        if id not in found:
            refused.append(RefusedJob(id, "job_not_found", str(job_not_found(id)), None))
    return BulkJobsResult(done=len(changed.done), ids=changed.done, refused=refused, next=changed.next, dry_run=dry_run)


ROUTES = [bulk_jobs]
