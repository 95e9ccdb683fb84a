"""/queues: what waits where, and whether it may go on."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath

from ..app import Mainspring
from ..job import Queue
from .door import Spring, may


@get("/queues", **may("viewer"))
async def list_queues(spring: Spring) -> list[Queue]:
    """Every queue that holds unfinished jobs or is paused, by name."""
    return list(await spring.queues.list())


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


ROUTES = [list_queues, pause_queue, resume_queue]
