"""/jobs/{id}/output: what the runs of a job have written, in pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Raw, Struct

from ...control.job_output import MAX_PAGE_CHUNKS
from ...records.run import OutputChunk
from ..access.authenticate import App, allow
from ..access.redaction import redact_data
from ..views import build_views
from .jobs import MAX_WAIT_SECONDS

# The largest integer that every store can hold.
MAX_CHUNK_NUMBER = 2**31 - 1
After = Annotated[int, QueryParameter(ge=0, le=MAX_CHUNK_NUMBER, description="The number of the last chunk received.")]
Chunks = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE_CHUNKS)]
Wait = Annotated[
    float,
    QueryParameter(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a chunk, or for the end of the job."),
]


class OutputChunkView(Struct, frozen=True):
    """A chunk of a job's output."""

    n: int
    """Counts from 1 through all runs of the job."""
    run: int
    """The run that wrote it. Each run begins a new output."""
    at: datetime
    value: Raw
    """What the task wrote; null if `full`."""
    full: bool
    """Whether the output of the run was full: what the run wrote after that is not kept."""


class OutputPage(Struct, frozen=True):
    items: list[OutputChunkView]
    next: int
    """The number of the last chunk: pass it as `after` to get the next page."""
    ended: bool
    """Whether the job has ended and there is nothing beyond this page."""


@get("/jobs/{id:str}/output", **allow("viewer", waits=True))
async def job_output(
    app: App,
    id: FromPath[str],
    after: After = 0,
    limit: Chunks = 200,
    newest: FromQuery[bool] = False,
    wait: Wait = 0.0,
) -> OutputPage:
    """What the runs of a job have written with ctx.write(), in order. With `newest` the last chunks, at once."""
    if newest:
        chunks = await app.jobs.output(id, limit=limit, after=after, newest=True)
        return OutputPage(await build_views(app, chunks, chunk_view), chunks[-1].n if chunks else after, False)
    reader = app.jobs.output_reader(id, after=after)
    chunks = await reader.read(wait, limit=limit)
    return OutputPage(await build_views(app, chunks, chunk_view), reader.after, reader.ended)


def chunk_view(chunk: OutputChunk) -> OutputChunkView:
    value = Raw(b"null") if chunk.full else redact_data(chunk.text)
    return OutputChunkView(chunk.n, chunk.run, chunk.at, value, chunk.full)


ROUTES = [job_output]
