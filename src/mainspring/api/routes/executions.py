"""/executions: the runs of jobs, once they have ended."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import FromPath, QueryParameter

from ...control.jobs import MOST
from ...insight.stats import Figures
from ...task.handle import job_not_found
from ..access.authenticate import Spring, may
from ..showing import shown_each, shown_one
from .job_view import ExecutionPage, ExecutionView, execution_view


@get("/executions/{id:str}", **may("viewer"))
async def get_execution(spring: Spring, id: FromPath[str]) -> ExecutionView:
    """One run, by its job's id and its number with a dot between them."""
    job_id, dot, number = id.rpartition(".")
    if not dot or not (number.isascii() and number.isdigit()) or len(number) > 10:
        raise job_not_found(id)
    return await shown_one(spring, await spring.executions.get(job_id, int(number)), execution_view)


@get("/jobs/{id:str}/executions", **may("viewer"))
async def list_executions(
    spring: Spring,
    id: FromPath[str],
    after: Annotated[int, QueryParameter(ge=0, le=MOST, description="A run's number.")] = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
) -> ExecutionPage:
    """The runs of a job that have ended, first to last."""
    await spring.jobs.get(id)
    runs = await spring.executions.list(job_id=id, after=after, limit=limit + 1)
    page = runs[:limit]
    views = await shown_each(spring, page, execution_view)
    return ExecutionPage(views, page[-1].number if len(runs) > limit else None)


@get("/jobs/{id:str}/stats", **may("viewer"))
async def job_stats(spring: Spring, id: FromPath[str]) -> Figures:
    """How its runs have gone so far."""
    await spring.jobs.get(id)
    return await spring.executions.stats(id)


ROUTES = [get_execution, list_executions, job_stats]
