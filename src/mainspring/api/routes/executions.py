"""/executions: finished runs of jobs."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import FromPath, QueryParameter

from ...control.checks import MAX_COUNT
from ...insight.stats import Figures
from ...task.handle import job_not_found
from ..access.authenticate import App, allow
from ..views import build_view, build_views
from .job_view import ExecutionPage, ExecutionView, execution_view


@get("/executions/{id:str}", **allow("viewer"))
async def get_execution(app: App, id: FromPath[str]) -> ExecutionView:
    """One run. Its id is the job's id and the run's number, separated by a dot."""
    job_id, dot, number = id.rpartition(".")
    if not dot or not (number.isascii() and number.isdigit()) or len(number) > 10:
        raise job_not_found(id)
    return await build_view(app, await app.executions.get(job_id, int(number)), execution_view)


@get("/jobs/{id:str}/executions", **allow("viewer"))
async def list_executions(
    app: App,
    id: FromPath[str],
    after: Annotated[int, QueryParameter(ge=0, le=MAX_COUNT, description="A run's number.")] = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
) -> ExecutionPage:
    """The finished runs of a job, oldest first."""
    await app.jobs.get(id)
    runs = await app.executions.list(job_id=id, after=after, limit=limit + 1)
    page = runs[:limit]
    views = await build_views(app, page, execution_view)
    return ExecutionPage(views, page[-1].number if len(runs) > limit else None)


@get("/jobs/{id:str}/stats", **allow("viewer"))
async def job_stats(app: App, id: FromPath[str]) -> Figures:
    """Statistics of a job's runs."""
    await app.jobs.get(id)
    return await app.executions.stats(id)


ROUTES = [get_execution, list_executions, job_stats]
