"""/queues: what waits where, and whether it may go on."""

from __future__ import annotations

from typing import Annotated

from litestar import get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Struct

from ...app import Mainspring
from ...job import Queue
from ..access.door import Spring, may
from ..recent import Lately


class QueuePage(Struct, frozen=True):
    items: list[Queue]


class QueueEdit(Struct, forbid_unknown_fields=True):
    paused: bool


@get("/queues", **may("viewer"))
async def list_queues(
    spring: Spring,
    recent: Lately,
    name: Annotated[list[str] | None, QueryParameter(max_items=100, description="May be repeated.")] = None,
    paused: FromQuery[bool | None] = None,
) -> QueuePage:
    """Every queue that holds unfinished jobs or is paused, by name."""
    found = [queue for queue in await recent.get("queues", spring.queues.list) if name is None or queue.name in name]
    return QueuePage([queue for queue in found if paused in (None, queue.paused)])


@get("/queues/{name:str}", **may("viewer"))
async def get_queue(spring: Spring, name: FromPath[str]) -> Queue:
    """One of them; a queue that nobody has used is empty."""
    return await _queue(spring, name)


@patch("/queues/{name:str}", **may("operator"))
async def update_queue(spring: Spring, name: FromPath[str], data: JSONBody[QueueEdit]) -> Queue:
    """Pauses it or lets it go on."""
    await (spring.queues.pause if data.paused else spring.queues.resume)(name)
    return await _queue(spring, name)


@post("/queues/{name:str}/pause", status_code=200, **may("operator"))
async def pause_queue(spring: Spring, name: FromPath[str]) -> Queue:
    """Nothing new is claimed from it; running jobs go on."""
    await spring.queues.pause(name)
    return await _queue(spring, name)


@post("/queues/{name:str}/resume", status_code=200, **may("operator"))
async def resume_queue(spring: Spring, name: FromPath[str]) -> Queue:
    await spring.queues.resume(name)
    return await _queue(spring, name)


async def _queue(spring: Mainspring, name: str) -> Queue:
    return next((queue for queue in await spring.queues.list() if queue.name == name), Queue(name=name))


ROUTES = [list_queues, get_queue, update_queue, pause_queue, resume_queue]
