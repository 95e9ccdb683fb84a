"""/workers: live workers, and commands to them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from litestar import get, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from ...app import Mainspring
from ...control.workers import MAX_CONCURRENCY
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow, WorkerState
from ..access.authenticate import App, allow
from ..views import build_views
from .job_view import JobItem, job_item


class WorkerView(WorkerInfo, frozen=True, kw_only=True):
    """A worker, as reported by its last beat. `queues` is null if it serves all queues."""

    state: WorkerState
    """draining, resuming and stopping: the worker has not received the command yet."""
    until: datetime
    """When it counts as dead unless it beats again."""
    beat_at: datetime | None
    orders: WorkerCommands


class WorkerPage(Struct, frozen=True):
    items: list[WorkerView]


class WorkerDetails(WorkerView, frozen=True, kw_only=True):
    jobs: list[JobItem]
    """The jobs that it runs now."""


class WorkerResizeRequest(Struct, forbid_unknown_fields=True):
    concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY)] | None
    """New number of slots; null for the number it was started with."""


@get("/workers", **allow("viewer"))
async def list_workers(app: App) -> WorkerPage:
    """The live workers, by id."""
    return WorkerPage([_view(worker) for worker in await app.workers.list()])


@get("/workers/{id:str}", **allow("viewer"))
async def get_worker(app: App, id: FromPath[str]) -> WorkerDetails:
    """One worker, by its id or a prefix of it, and the jobs that it runs."""
    worker, now = await app.workers.get(id), app.clock.now()
    running = await app.workers.running(worker.info.id, brief=True)
    jobs = await build_views(app, running, lambda job: job_item(job, now))
    return WorkerDetails(**asdict(_view(worker)), jobs=jobs)


@post("/workers/{id:str}/resize", status_code=200, **allow("operator"))
async def resize_worker(app: App, id: FromPath[str], data: JSONBody[WorkerResizeRequest]) -> WorkerView:
    """Sets the worker's number of slots, from its next beat on. Running jobs continue."""
    await app.workers.resize(id, data.concurrency)
    return await _current(app, id)


@post("/workers/{id:str}/drain", status_code=200, **allow("operator"))
async def drain_worker(app: App, id: FromPath[str]) -> WorkerView:
    """Drains a worker: it claims no more jobs from its next beat on. Running jobs continue."""
    await app.workers.drain(id)
    return await _current(app, id)


@post("/workers/{id:str}/resume", status_code=200, **allow("operator"))
async def resume_worker(app: App, id: FromPath[str]) -> WorkerView:
    """Resumes a drained worker: it claims jobs again from its next beat on."""
    await app.workers.resume(id)
    return await _current(app, id)


@post("/workers/{id:str}/stop", status_code=200, **allow("operator"))
async def stop_worker(app: App, id: FromPath[str]) -> WorkerView:
    """Stops a worker from its next beat on: it claims no more jobs, running ones may finish within its grace, and the
    rest are released to other workers."""
    worker = await app.workers.get(id)
    await app.workers.stop(worker.info.id)
    # The worker may have stopped already, so it is not read again.
    return _view(replace(worker, orders=replace(worker.orders, stopped=True)))


async def _current(app: Mainspring, id: str) -> WorkerView:
    return _view(await app.workers.get(id))


def _view(worker: WorkerRow) -> WorkerView:
    return WorkerView(
        **asdict(worker.info), state=worker.state, until=worker.until, beat_at=worker.beat_at, orders=worker.orders
    )


ROUTES = [list_workers, get_worker, resize_worker, drain_worker, resume_worker, stop_worker]
