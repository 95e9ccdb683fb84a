"""/workers: who is alive, and orders for them."""

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
from ..access.authenticate import Spring, may
from ..showing import shown_each
from .job_view import JobItem, job_item


class WorkerView(WorkerInfo, frozen=True, kw_only=True):
    """A worker as its beat describes it; `queues` is null where it serves all."""

    state: WorkerState
    """Orders it has not heard yet are on their way: draining, resuming, stopping."""
    until: datetime
    """When it is taken for dead, unless it beats again."""
    beat_at: datetime | None
    orders: WorkerCommands


class WorkerPage(Struct, frozen=True):
    items: list[WorkerView]


class WorkerDetails(WorkerView, frozen=True, kw_only=True):
    jobs: list[JobItem]
    """What it runs now."""


class Size(Struct, forbid_unknown_fields=True):
    concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY)] | None
    """Slots from now on; null: as it was started."""


@get("/workers", **may("viewer"))
async def list_workers(spring: Spring) -> WorkerPage:
    """Those that have beaten lately, by id."""
    return WorkerPage([_view(worker) for worker in await spring.workers.list()])


@get("/workers/{id:str}", **may("viewer"))
async def get_worker(spring: Spring, id: FromPath[str]) -> WorkerDetails:
    """One of them, by its id or the beginning of it, and what it runs."""
    worker, now = await spring.workers.get(id), spring.clock.now()
    running = await spring.workers.running(worker.info.id, brief=True)
    jobs = await shown_each(spring, running, lambda job: job_item(job, now))
    return WorkerDetails(**asdict(_view(worker)), jobs=jobs)


@post("/workers/{id:str}/resize", status_code=200, **may("operator"))
async def resize_worker(spring: Spring, id: FromPath[str], data: JSONBody[Size]) -> WorkerView:
    """It has so many slots from its next beat on; running jobs are left alone."""
    await spring.workers.resize(id, data.concurrency)
    return await _seen(spring, id)


@post("/workers/{id:str}/drain", status_code=200, **may("operator"))
async def drain_worker(spring: Spring, id: FromPath[str]) -> WorkerView:
    """It takes no more jobs from its next beat on; what runs goes on."""
    await spring.workers.drain(id)
    return await _seen(spring, id)


@post("/workers/{id:str}/resume", status_code=200, **may("operator"))
async def resume_worker(spring: Spring, id: FromPath[str]) -> WorkerView:
    """It takes jobs again from its next beat on."""
    await spring.workers.resume(id)
    return await _seen(spring, id)


@post("/workers/{id:str}/stop", status_code=200, **may("operator"))
async def stop_worker(spring: Spring, id: FromPath[str]) -> WorkerView:
    """It ends: nothing new from its next beat on, what runs may finish within its grace, the rest runs elsewhere."""
    worker = await spring.workers.get(id)
    await spring.workers.stop(worker.info.id)
    # It may be gone already, so it is not looked up again.
    return _view(replace(worker, orders=replace(worker.orders, stopped=True)))


async def _seen(spring: Mainspring, id: str) -> WorkerView:
    return _view(await spring.workers.get(id))


def _view(worker: WorkerRow) -> WorkerView:
    return WorkerView(
        **asdict(worker.info), state=worker.state, until=worker.until, beat_at=worker.beat_at, orders=worker.orders
    )


ROUTES = [list_workers, get_worker, resize_worker, drain_worker, resume_worker, stop_worker]
