"""/jobs/{id}/output: what the runs of a job have written, in pages or as a stream."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter
from msgspec import Raw, Struct

from ...app import Mainspring
from ...control.job_output import MAX_PAGE_CHUNKS
from ...control.jobs import FINAL_SHOWN
from ...ids import JobId
from ...records.run import OutputChunk
from ..access.authenticate import App, Caller, allow, is_still_allowed
from ..access.redaction import redact_data
from ..app_scope import app_scope
from ..output_stream import OutputStream, StreamResponse
from ..views import build_views
from .jobs import MAX_WAIT_SECONDS

# The largest integer that every store can hold.
MAX_CHUNK_NUMBER = 2**31 - 1
After = Annotated[int, QueryParameter(ge=0, le=MAX_CHUNK_NUMBER, description="The number of the last chunk received.")]
LastEventId = Annotated[
    int | None,
    HeaderParameter(
        name="Last-Event-ID", ge=0, le=MAX_CHUNK_NUMBER, description="Of a stream: as `after`, which it replaces."
    ),
]
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
    """The run that wrote it. Each run begins a new output, unless `resumed`."""
    at: datetime
    value: Raw
    """What the task wrote; null if `full`."""
    full: bool
    """Whether the output of the run was full: what the run wrote after that is not kept."""
    resumed: bool
    """Whether its run had gone on behind durable steps, whose chunks of earlier runs it does not write again."""


class OutputPage(Struct, frozen=True):
    items: list[OutputChunkView]
    next: int
    """The number of the last chunk: pass it as `after` to get the next page."""
    ended: bool
    """Whether the job has ended and there is nothing beyond this page."""


@get("/jobs/{id:str}/output", **allow("viewer", waits=True))
async def job_output(
    request: Request[Any, Any, Any],
    app: App,
    caller: Caller,
    id: FromPath[str],
    after: After = 0,
    limit: Chunks = 200,
    newest: FromQuery[bool] = False,
    wait: Wait = 0.0,
    last_event_id: LastEventId = None,
) -> Response[OutputPage]:
    """What the runs of a job have written with ctx.write(), in order. With `newest` the last chunks, at once.

    With `Accept: text/event-stream` it is a stream of server-sent events, which ends with the job.
    """
    if "text/event-stream" in request.headers.get("Accept", ""):
        after = after if last_event_id is None else last_event_id
        return await _stream(request, app, caller.name, id, after, again=last_event_id is not None)
    if newest:
        chunks = await app.jobs.output(id, limit=limit, after=after, newest=True)
        last, ended = chunks[-1].n if chunks else after, False
    else:
        reader = app.jobs.output_reader(id, after=after)
        chunks = await reader.read(wait, limit=limit)
        last, ended = reader.after, reader.ended
    return Response(OutputPage(await build_views(app, chunks, chunk_view), last, ended))


async def _stream(
    request: Request[Any, Any, Any], app: Mainspring, name: str, id: JobId, after: int, *, again: bool
) -> Response[Any]:
    """The stream of what is beyond `after`. `again`: the client has come back; if there will be nothing more, it gets a
    204, after which browsers stay away."""
    job = await app.jobs.get(id)
    found = await app.jobs.output(id, limit=2, after=max(after - 1, 0))
    if again and job.shown(app.clock.now()) in FINAL_SHOWN and not any(chunk.n > after for chunk in found):
        return Response(None, status_code=204)
    stream = OutputStream(
        app_scope(request.scope).streams,
        name,
        app.jobs.output_reader(id, after=after),
        next((chunk.run for chunk in found if chunk.n == after), None),
        lambda chunks: build_views(app, chunks, chunk_view),
        lambda: is_still_allowed(request),
    )
    return StreamResponse(stream)


def chunk_view(chunk: OutputChunk) -> OutputChunkView:
    value = Raw(b"null") if chunk.full else redact_data(chunk.text)
    return OutputChunkView(chunk.n, chunk.run, chunk.at, value, chunk.full, chunk.resumed)


ROUTES = [job_output]
