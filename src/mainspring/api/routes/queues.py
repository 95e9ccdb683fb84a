"""/queues: what waits where, and whether it may go on."""

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
from ..access.authenticate import Spring, may
from ..access.redaction import shown_text
from ..problem import Problem
from ..response_cache import Lately

Note = Annotated[str, Meta(max_length=MAX_NOTE_CHARACTERS)]


class QueuePage(Struct, frozen=True):
    items: list[Queue]


class QueueEdit(Struct, forbid_unknown_fields=True):
    paused: bool
    note: Note = ""
    """Why it is paused; kept until it is resumed."""


class QueuePause(Struct, forbid_unknown_fields=True):
    note: Note = ""
    """Why; kept until it is resumed."""


@get("/queues", **may("viewer"))
async def list_queues(
    spring: Spring,
    recent: Lately,
    name: Annotated[list[str] | None, QueryParameter(max_items=100, description="May be repeated.")] = None,
    paused: FromQuery[bool | None] = None,
) -> QueuePage:
    """Every queue that holds unfinished jobs or is paused, by name."""
    found = [queue for queue in await recent.get("queues", spring.queues.list) if name is None or queue.name in name]
    return QueuePage([_shown(queue) for queue in found if paused in (None, queue.paused)])


@get("/queues/{name:str}", **may("viewer"))
async def get_queue(spring: Spring, name: FromPath[str]) -> Queue:
    """One of them; a queue that nobody has used is empty."""
    return await _queue(spring, name)


@get("/queues/{name:str}/pauses", **may("viewer"))
async def list_queue_pauses(spring: Spring, name: FromPath[str]) -> list[Pause]:
    """The times in which the queue was paused, the newest first: the last twenty."""
    return [replace(pause, note=shown_text(pause.note) or "") for pause in await spring.queues.pauses(name)]


@patch("/queues/{name:str}", **may("operator"))
async def update_queue(spring: Spring, name: FromPath[str], data: JSONBody[QueueEdit]) -> Queue:
    """Pauses it or lets it go on."""
    if data.note and not data.paused:
        raise Problem(422, "invalid", "`note` says why a queue is paused: it goes with paused true")
    await (spring.queues.pause(name, data.note) if data.paused else spring.queues.resume(name))
    return await _queue(spring, name)


@post("/queues/{name:str}/pause", status_code=200, **may("operator"))
async def pause_queue(spring: Spring, name: FromPath[str], data: JSONBody[QueuePause | None] = None) -> Queue:
    """Nothing new is claimed from it; running jobs go on."""
    await spring.queues.pause(name, data.note if data else "")
    return await _queue(spring, name)


@post("/queues/{name:str}/resume", status_code=200, **may("operator"))
async def resume_queue(spring: Spring, name: FromPath[str]) -> Queue:
    await spring.queues.resume(name)
    return await _queue(spring, name)


async def _queue(spring: Mainspring, name: str) -> Queue:
    return _shown(next((queue for queue in await spring.queues.list() if queue.name == name), Queue(name=name)))


def _shown(queue: Queue) -> Queue:
    return replace(queue, note=shown_text(queue.note) or "") if queue.note else queue


ROUTES = [list_queues, get_queue, list_queue_pauses, update_queue, pause_queue, resume_queue]
