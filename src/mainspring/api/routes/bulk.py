"""POST /jobs/bulk: the same to many jobs, each of which is done or refused for itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from litestar import post
from litestar.params import JSONBody
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...control.jobs import refused_as
from ...ids import JobId
from ...records.job import DEFAULT_STATES, Action
from ...records.query import Changed, Filter
from ...task.handle import job_not_found
from ..access.authenticate import Spring, may
from ..access.redaction import shown_line
from ..problem import Problem, code_of
from .filters import JobFilter, meant
from .jobs import JobEdit

MANY = 1000


class BulkChoice(Struct, kw_only=True, forbid_unknown_fields=True):
    """The jobs meant: by id; by filter, in parts; or all."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=MANY)] | None = None
    filter: JobFilter | None = None
    """Without states those that the action is for: unfinished ones to cancel, dead ones to retry, …"""
    all: bool = False
    """Must be said where the filter is empty."""
    limit: Annotated[int, Meta(ge=1, le=MANY)] = MANY
    """By filter: at most so many in this call."""
    after: str | None = None
    """By filter: the `next` of the call before, with the same filter."""

    def part(self) -> dict[str, Any]:
        return {} if self.ids is not None else {"limit": self.limit, "after": self.after}


class Bulk(BulkChoice, kw_only=True, forbid_unknown_fields=True):
    action: Literal["cancel", "retry", "pause", "resume", "delete", "update"]
    reason: Annotated[str, Meta(max_length=1024)] = "cancelled by an operator"
    """For cancel: kept with the jobs."""
    update: JobEdit | None = None
    """For update: the new values."""
    dry_run: bool = False
    """Only tell what would be done, going by the jobs' states."""


class RefusedJob(Struct, frozen=True):
    """A job that was left alone, and why."""

    id: JobId
    code: str
    detail: str
    state: str | None
    """null: there is no such job."""


class BulkResult(Struct, frozen=True, kw_only=True):
    done: int
    ids: list[JobId]
    """Those that were done."""
    refused: list[RefusedJob]
    next: str | None
    """Give it as `after` to go on; null: there are no more."""
    dry_run: bool = False


@post("/jobs/bulk", status_code=200, **may("operator"))
async def bulk_jobs(spring: Spring, data: JSONBody[Bulk]) -> BulkResult:
    """Cancels, retries, pauses, resumes, deletes or updates jobs, up to 1,000 a call. Some may be refused."""
    action = Action(data.action)
    if (data.update is None) is (action is Action.UPDATE):
        raise Problem(422, "invalid", "`update` has the new values: it goes with action update, and only with that")
    which = await chosen(spring, data, DEFAULT_STATES[action])
    return result(action, data, await _changed(spring, action, which, data), dry_run=data.dry_run)


async def _changed(spring: Mainspring, action: Action, which: Filter, data: Bulk) -> Changed:
    jobs, part = spring.jobs, data.part()
    if data.dry_run:
        return await jobs.preview(action, which, **part)
    if data.update is not None:
        return await jobs.update(which, **data.update.given(), **part)
    if action is Action.CANCEL:
        return await jobs.cancel(which, data.reason, **part)
    act = {Action.RETRY: jobs.retry, Action.PAUSE: jobs.pause, Action.RESUME: jobs.resume, Action.DELETE: jobs.delete}
    return await act[action](which, **part)


async def chosen(spring: Mainspring, data: BulkChoice, states: tuple[Any, ...] | None) -> Filter:
    """The filter that is meant; refuses one that says nothing unless it says so."""
    said = sum((data.ids is not None, data.filter is not None, data.all))
    if data.ids is not None and said == 1 and data.after is None:
        return Filter(ids=tuple(dict.fromkeys(data.ids)))
    if data.ids is not None:
        raise Problem(422, "invalid", "`ids` say which jobs are meant: filter, all and after do not go with them")
    which = Filter() if data.filter is None else Filter(**asdict(data.filter))
    for name, values in asdict(which).items():
        if isinstance(values, tuple | dict) and len(values) > MANY:
            raise Problem(422, "invalid", f"filter.{name} has {len(values):,} values: at most {MANY:,} are taken")
    if which == Filter() and not data.all:
        raise Problem(422, "invalid", 'which jobs? Give ids, a filter that says something, or "all": true')
    which = await meant(spring, which)
    return which if which.states is not None or which.ids is not None else replace(which, states=states)


def result(action: Action, data: BulkChoice, changed: Changed, *, dry_run: bool = False) -> BulkResult:
    errors = {id: refused_as(action, id, refusal) for id, refusal in changed.refused.items()}
    states = {id: refusal.state for id, refusal in changed.refused.items()}
    refused = [RefusedJob(id, code_of(error)[1], shown_line(str(error)), states[id]) for id, error in errors.items()]
    met: Collection[JobId] = {*changed.done, *changed.refused}
    for id in dict.fromkeys(data.ids or ()):
        if id not in met:
            refused.append(RefusedJob(id, "job_not_found", str(job_not_found(id)), None))
    return BulkResult(done=len(changed.done), ids=changed.done, refused=refused, next=changed.next, dry_run=dry_run)


ROUTES = [bulk_jobs]
