"""/jobs/{id}/checkpoints: what the durable steps of a job have stored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from litestar import get
from litestar.params import FromPath, QueryParameter
from msgspec import Raw, Struct

from ...records.run import Checkpoint
from ..access.authenticate import App, allow
from ..access.redaction import redact_data
from ..views import build_views
from .job_output import MAX_CHUNK_NUMBER

After = Annotated[int, QueryParameter(ge=0, le=MAX_CHUNK_NUMBER, description="A checkpoint's number.")]


class CheckpointView(Struct, frozen=True):
    """The stored value of a durable step."""

    n: int
    """Counts from 1 through all runs of the job."""
    name: str
    at: datetime
    value: Raw


class CheckpointPage(Struct, frozen=True):
    items: list[CheckpointView]
    next: int | None
    """The number of the last checkpoint: pass it as `after` to get the next page. null if there is none."""


@get("/jobs/{id:str}/checkpoints", **allow("viewer"))
async def job_checkpoints(
    app: App, id: FromPath[str], after: After = 0, limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50
) -> CheckpointPage:
    """What the durable steps of a job have stored, in order."""
    found = await app.jobs.checkpoints(id, limit=limit + 1, after=after)
    page = found[:limit]
    return CheckpointPage(await build_views(app, page, checkpoint_view), page[-1].n if len(found) > limit else None)


def checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView(checkpoint.n, checkpoint.name, checkpoint.at, redact_data(checkpoint.value))


ROUTES = [job_checkpoints]
