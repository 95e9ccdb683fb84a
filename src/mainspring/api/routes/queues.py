"""/queues: lists, pauses and resumes queues."""

from __future__ import annotations

from typing import Annotated

from litestar import get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct
from msgspec.structs import replace

from ...app import Mainspring
from ...bounds import MAX_NOTE_CHARACTERS
from ...control.queue_pauses import Pause
from ...records.queue import Queue
from ..access.authenticate import App, allow
from ..access.redaction import mask_note
from ..problem import Problem
from ..response_cache import Cache

Note = Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)]


class QueuePage(Struct, frozen=True):
    items: list[Queue]


class QueueEdit(Struct, forbid_unknown_fields=True):
    paused: bool
    note: Note = ""
    """Why it is paused; stored until it is resumed."""


class QueuePauseRequest(Struct, forbid_unknown_fields=True):
    note: Note = ""
    """Why it is paused; stored until it is resumed."""


@get("/queues", **allow("viewer"))
async def list_queues(
    app: App,
    cache: Cache,
    name: Annotated[list[str] | None, QueryParameter(max_items=100, description="May be repeated.")] = None,
    paused: FromQuery[bool | None] = None,
) -> QueuePage:
    """The queues that have unfinished jobs or are paused, by name."""
    found = [queue for queue in await cache.get("queues", app.queues.list) if name is None or queue.name in name]
    return QueuePage([_redacted(queue) for queue in found if paused in (None, queue.paused)])


@get("/queues/{name:str}", **allow("viewer"))
async def get_queue(app: App, name: FromPath[str]) -> Queue:
    """One queue. A queue that was never used is empty."""
    return await _queue(app, name)


@get("/queues/{name:str}/pauses", **allow("viewer"))
async def list_queue_pauses(app: App, name: FromPath[str]) -> list[Pause]:
    """The last twenty pauses of the queue, newest first."""
    return [replace(pause, note=mask_note(pause.note) or "") for pause in await app.queues.pauses(name)]


@patch("/queues/{name:str}", **allow("operator"))
async def update_queue(app: App, name: FromPath[str], data: JSONBody[QueueEdit]) -> Queue:
    """Pauses or resumes a queue."""
    if data.note and not data.paused:
        raise Problem(422, "invalid", "`note` is the reason of a pause: it is allowed only with paused true")
    await (app.queues.pause(name, data.note) if data.paused else app.queues.resume(name))
    return await _queue(app, name)


@post("/queues/{name:str}/pause", status_code=200, **allow("operator"))
async def pause_queue(app: App, name: FromPath[str], data: JSONBody[QueuePauseRequest | None] = None) -> Queue:
    """Pauses a queue: workers claim no more jobs from it; running jobs continue."""
    await app.queues.pause(name, data.note if data else "")
    return await _queue(app, name)


@post("/queues/{name:str}/resume", status_code=200, **allow("operator"))
async def resume_queue(app: App, name: FromPath[str]) -> Queue:
    """Resumes a paused queue."""
    await app.queues.resume(name)
    return await _queue(app, name)


async def _queue(app: Mainspring, name: str) -> Queue:
    return _redacted(next((queue for queue in await app.queues.list() if queue.name == name), Queue(name=name)))


def _redacted(queue: Queue) -> Queue:
    return replace(queue, note=mask_note(queue.note) or "") if queue.note else queue


ROUTES = [list_queues, get_queue, list_queue_pauses, update_queue, pause_queue, resume_queue]
