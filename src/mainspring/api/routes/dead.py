"""/dead: dead letters, seen together and sent on their way again."""

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
from ..access.authenticate import Spring, may
from ..access.redaction import shown_error, shown_message
from ..response_cache import Lately
from ..unchanged import given_values, kept_arguments
from .bulk import BulkChoice, BulkResult, chosen, result
from .filters import GROUPS


class DeadGroupView(DeadGroup, frozen=True, kw_only=True):
    message: str
    """How the newest of them failed, with all that `error` leaves out."""


class DeadPage(Struct, frozen=True):
    items: list[DeadGroupView]


class Redrive(BulkChoice, kw_only=True, forbid_unknown_fields=True):
    arguments: dict[str, Any] | UnsetType = UNSET
    """By name, on top of those they have; each job's task checks them."""
    dry_run: bool = False
    """Only tell what would be redriven, and what the tasks would refuse."""


@get("/dead", **may("viewer"))
async def list_dead(
    spring: Spring,
    recent: Lately,
    task: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=GROUPS)] = 100,
) -> DeadPage:
    """Dead jobs of one task that failed in the same way together, most first. The jobs: /jobs?state=dead&error=…"""
    most = limit if task is None else GROUPS
    groups = await recent.get(("dead", most), lambda: spring.dead.groups(limit=most))
    found = [group for group in groups if task in (None, group.task)][:limit]
    lines = await _lines(spring, found)
    return DeadPage([_view(group, lines.get(group.newest, group.error)) for group in found])


async def _lines(spring: Mainspring, groups: Sequence[DeadGroup]) -> dict[JobId, str]:
    """Of the newest of each, as far as they are still there."""
    if not groups:
        return {}
    newest = Filter(ids=tuple(group.newest for group in groups))
    jobs = await spring.jobs.list(newest, limit=len(groups), brief=True)
    return {job.id: job.failure.line for job in jobs if job.failure is not None}


def _view(group: DeadGroup, line: str) -> DeadGroupView:
    return DeadGroupView(**asdict(replace(group, error=shown_error(group.error))), message=shown_message(line))


@post("/dead/redrive", status_code=200, **may("operator"))
async def redrive_dead(spring: Spring, data: JSONBody[Redrive]) -> BulkResult:
    """Dead jobs become pending, with all their retries, up to 1,000 a call; some of their arguments may be changed."""
    which = await chosen(spring, data, None)
    arguments = await _meant(spring, data)
    act = spring.dead.preview if data.dry_run else spring.dead.redrive
    return result(Action.RETRY, data, await act(which, arguments=arguments, **data.part()), dry_run=data.dry_run)


async def _meant(spring: Mainspring, data: Redrive) -> dict[str, Any] | UnsetType:
    """What is masked is as the one job has it that is named; of many, none is the one whose secret is to be kept."""
    given = data.arguments
    if isinstance(given, UnsetType):
        return given
    stored = (await spring.jobs.get(data.ids[0])).payload if data.ids is not None and len(data.ids) == 1 else "{}"
    return await given_values(spring, lambda: kept_arguments(given, stored))


ROUTES = [list_dead, redrive_dead]
