"""/dead: dead jobs in groups by failure, and their redrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from litestar import get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...ids import JobId
from ...records.job import Action
from ...records.query import Filter
from ...records.queue import DeadGroup
from ..access.authenticate import App, allow
from ..access.redaction import redact_error, redact_message
from ..masked_values import restore_arguments, restore_in_thread
from ..response_cache import Cache
from .job_bulk import BulkJobsResult, JobSelection, bulk_result, selected
from .job_filters import MAX_DEAD_GROUPS


class DeadGroupView(DeadGroup, frozen=True, kw_only=True):
    message: str
    """The full error message of the newest job; `error` has it without numbers, ids and quoted values."""


class DeadGroupPage(Struct, frozen=True):
    items: list[DeadGroupView]


class RedriveRequest(JobSelection, kw_only=True, forbid_unknown_fields=True):
    arguments: dict[str, Any] | UnsetType = UNSET
    """By parameter name. They replace those of the jobs; the others stay. Each job's task validates them."""
    dry_run: bool = False
    """Change nothing, and report what would be redriven and what the tasks would refuse."""


@get("/dead", **allow("viewer"))
async def list_dead(
    app: App,
    cache: Cache,
    task: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_DEAD_GROUPS)] = 100,
) -> DeadGroupPage:
    """Dead jobs in groups by task and error, the largest group first. GET /jobs?state=dead&error=… lists the jobs."""
    group_limit = limit if task is None else MAX_DEAD_GROUPS
    groups = await cache.get(("dead", group_limit), lambda: app.dead.groups(limit=group_limit))
    found = [group for group in groups if task in (None, group.task)][:limit]
    lines = await _failure_lines(app, found)
    return DeadGroupPage([_view(group, lines.get(group.newest, group.error)) for group in found])


async def _failure_lines(app: Mainspring, groups: Sequence[DeadGroup]) -> dict[JobId, str]:
    """The failure of each group's newest job, by job id. Without jobs that are deleted."""
    if not groups:
        return {}
    newest = Filter(ids=tuple(group.newest for group in groups))
    jobs = await app.jobs.list(newest, limit=len(groups), brief=True)
    return {job.id: job.failure.line for job in jobs if job.failure is not None}


def _view(group: DeadGroup, line: str) -> DeadGroupView:
    return DeadGroupView(**asdict(replace(group, error=redact_error(group.error))), message=redact_message(line))


@post("/dead/redrive", status_code=200, **allow("operator"))
async def redrive_dead(app: App, data: JSONBody[RedriveRequest]) -> BulkJobsResult:
    """Makes up to 1,000 dead jobs pending again, with all their retries, and optionally with changed arguments."""
    which = await selected(app, data, None)
    arguments = await _unmasked_arguments(app, data)
    act = app.dead.preview if data.dry_run else app.dead.redrive
    return bulk_result(Action.RETRY, data, await act(which, arguments=arguments, **data.page()), dry_run=data.dry_run)


async def _unmasked_arguments(app: Mainspring, data: RedriveRequest) -> dict[str, Any] | UnsetType:
    """The given arguments. A masked value is restored from the stored one if the selection is a single job id."""
    given = data.arguments
    if isinstance(given, UnsetType):
        return given
    stored = (await app.jobs.get(data.ids[0])).payload if data.ids is not None and len(data.ids) == 1 else "{}"
    return await restore_in_thread(app, lambda: restore_arguments(given, stored))


ROUTES = [list_dead, redrive_dead]
