"""app.workers: who is alive, and orders for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

from msgspec.structs import replace

from ..errors import BadInput, InvalidTransition, MainspringError, StoreUnavailable, WorkerNotFound
from ..events import WorkersOrdered
from ..ids import WorkerId
from ..records.job import Job
from ..records.query import Filter
from ..records.worker import WorkerCommand, WorkerCommands, WorkerRow, WorkerState
from ..store import Store
from .audit_log import annotate, audited
from .ground import Ground
from .jobs import PAGE, checked_limit

MOST = 100_000
# How often an order is tried again when others order the same worker meanwhile.
ORDER_TRIES = 20
# As many are named in an error.
NAMED = 10


class Workers:
    """Orders are heard at the worker's next beat, and end with it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(self) -> Sequence[WorkerRow]:
        """Those that have beaten lately; one that dies is gone when its lease is over."""
        return await (await self._ground.opened()).workers(now=self._ground.clock.now())

    async def get(self, id: WorkerId) -> WorkerRow:
        """By its id, or the beginning of it if that is enough."""
        live = await self.list()
        found = [worker for worker in live if worker.info.id == id] or [
            worker for worker in live if id and worker.info.id.startswith(id)
        ]
        if len(found) > 1:
            raise BadInput(f"the ids of {len(found)} live workers begin with {id!r}: {_names(found)}")
        if not found:
            raise WorkerNotFound(f"no live worker is called {id!r} (alive: {_names(live)})")
        return found[0]

    async def running(self, id: WorkerId, *, limit: int = PAGE, brief: bool = False) -> Sequence[Job]:
        """What it runs now."""
        checked_limit(limit, PAGE)
        worker = await self.get(id)
        store = await self._ground.opened()
        which, now = Filter(workers=(worker.info.id,)), self._ground.clock.now()
        return await store.jobs(which, now=now, limit=limit, brief=brief)

    @audited("workers.resize")
    async def resize(self, id: WorkerId | None, concurrency: int | None) -> Sequence[WorkerId]:
        """So many slots from now on (None: as it was started); running jobs are left alone. None: all workers."""
        given = concurrency
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST):
            raise BadInput(f"concurrency is a whole number from 1 to {MOST:,}, or None for what it was; got {given!r}")
        return await self._order("resize", id, concurrency=given)

    @audited("workers.drain")
    async def drain(self, id: WorkerId | None) -> Sequence[WorkerId]:
        """It takes no more jobs; what runs goes on, and it stays alive until it is resumed or stopped."""
        return await self._order("drain", id, drained=True)

    @audited("workers.resume")
    async def resume(self, id: WorkerId | None) -> Sequence[WorkerId]:
        return await self._order("resume", id, drained=False)

    @audited("workers.stop")
    async def stop(self, id: WorkerId | None) -> Sequence[WorkerId]:
        """It takes no more jobs, what runs may finish within its grace, the rest is released; then it is gone."""
        return await self._order("stop", id, stopped=True)

    async def _order(self, action: WorkerCommand, id: WorkerId | None, **orders: Any) -> Sequence[WorkerId]:
        store, now = await self._ground.opened(), self._ground.clock.now()
        before: dict[WorkerId, WorkerCommands] = {}
        after: dict[WorkerId, WorkerCommands] = {}
        annotate(before=before, after=after)
        for worker in await self._meant(action, id):
            row = await self._given(store, worker, action, orders, now, named=id is not None)
            if row is not None:
                before[row.info.id], after[row.info.id] = row.orders, replace(row.orders, **orders)
        if after:
            self._ground.events.emit(WorkersOrdered(at=now, action=action, workers=tuple(after)))
        return list(after)

    async def _given(
        self,
        store: Store,
        worker: WorkerRow,
        action: WorkerCommand,
        orders: dict[str, Any],
        now: datetime,
        *,
        named: bool,
    ) -> WorkerRow | None:
        """The worker as it was when it got the order; None: it is gone, or the order is no longer for it."""
        for _ in range(ORDER_TRIES):
            if await store.order([worker.info.id], replace(worker.orders, **orders), now=now, seen=worker.orders):
                return worker
            # Another order came first, or it is gone: this one is for what it has become.
            rows = [row for row in await store.workers(now=now) if row.info.id == worker.info.id]
            refused = refusal(rows[0], action) if rows else None
            if refused is not None and named:
                raise refused
            if refused is not None or not rows:
                return None
            worker = rows[0]
        raise StoreUnavailable(f"worker {worker.info.id} gets other orders all the time: try again")

    async def _meant(self, action: WorkerCommand, id: WorkerId | None) -> Sequence[WorkerRow]:
        """An order for all passes by those that cannot obey."""
        if id is None:
            return [worker for worker in await self.list() if refusal(worker, action) is None]
        worker = await self.get(id)
        if (refused := refusal(worker, action)) is not None:
            raise refused
        return [worker]


def refusal(worker: WorkerRow, action: WorkerCommand) -> MainspringError | None:
    """Why this order is not for this worker."""
    id, state = worker.info.id, worker.state
    if action != "stop":
        needed = ", ".join(sorted(set(get_args(WorkerState)) - {state}))
        return InvalidTransition("", state, action, needed, worker_id=id) if worker.orders.stopped else None
    if worker.info.grace is None:
        where = f"process {worker.info.pid} on {worker.info.host}"
        return BadInput(f"worker {id} is of a release that cannot be stopped from afar: send SIGTERM to {where}")
    return None


def _names(workers: Sequence[WorkerRow]) -> str:
    more = f" and {len(workers) - NAMED:,} more" if len(workers) > NAMED else ""
    return (", ".join(worker.info.id for worker in workers[:NAMED]) or "none") + more
