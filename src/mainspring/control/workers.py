"""app.workers: live workers, and commands for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from ..errors import BadInput, InvalidTransition, MainspringError, StoreUnavailable, WorkerNotFound
from ..events import WorkersOrdered
from ..ids import WorkerId
from ..records.job import Job
from ..records.query import Filter
from ..records.worker import WorkerCommand, WorkerCommands, WorkerRow, WorkerState
from ..store import Store
from .audit_log import annotate, audited
from .checks import MAX_PAGE_ROWS, checked_limit

if TYPE_CHECKING:
    from ..engine import Engine

MAX_CONCURRENCY = 100_000
# Attempts to command a worker that others command at the same time.
MAX_COMMAND_TRIES = 20
# Workers listed in an error message.
MAX_NAMED_WORKERS = 10


class Workers:
    """Workers receive commands with their next beat, and lose them when they stop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self) -> Sequence[WorkerRow]:
        """Workers whose lease has not ended: one that dies disappears with its lease."""
        return await (await self._engine.connect()).workers(now=self._engine.clock.now())

    async def get(self, id: WorkerId) -> WorkerRow:
        """The worker with this id, or with the only id that begins so."""
        live = await self.list()
        found = [worker for worker in live if worker.info.id == id] or [
            worker for worker in live if id and worker.info.id.startswith(id)
        ]
        if len(found) > 1:
            raise BadInput(f"the ids of {len(found)} live workers begin with {id!r}: {_names(found)}")
        if not found:
            raise WorkerNotFound(f"no live worker is called {id!r} (alive: {_names(live)})")
        return found[0]

    async def running(self, id: WorkerId, *, limit: int = MAX_PAGE_ROWS, brief: bool = False) -> Sequence[Job]:
        """The jobs it runs now."""
        checked_limit(limit, MAX_PAGE_ROWS)
        worker = await self.get(id)
        store = await self._engine.connect()
        which, now = Filter(workers=(worker.info.id,)), self._engine.clock.now()
        return await store.jobs(which, now=now, limit=limit, brief=brief)

    @audited("workers.resize")
    async def resize(self, id: WorkerId | None, concurrency: int | None) -> Sequence[WorkerId]:
        """Sets the number of slots of one worker (id None: all); None restores its own. Running jobs are left alone."""
        given = concurrency
        if given is not None and (
            isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_CONCURRENCY
        ):
            raise BadInput(
                f"concurrency is a whole number from 1 to {MAX_CONCURRENCY:,}, or None for what it was; got {given!r}"
            )
        return await self._send_command("resize", id, concurrency=given)

    @audited("workers.drain")
    async def drain(self, id: WorkerId | None) -> Sequence[WorkerId]:
        """It claims no more jobs; running ones go on, and it stays alive until it is resumed or stopped."""
        return await self._send_command("drain", id, drained=True)

    @audited("workers.resume")
    async def resume(self, id: WorkerId | None) -> Sequence[WorkerId]:
        return await self._send_command("resume", id, drained=False)

    @audited("workers.stop")
    async def stop(self, id: WorkerId | None) -> Sequence[WorkerId]:
        """It claims no more jobs, running ones may finish within its grace, the rest is released; then it exits."""
        return await self._send_command("stop", id, stopped=True)

    async def _send_command(self, action: WorkerCommand, id: WorkerId | None, **changes: Any) -> Sequence[WorkerId]:
        store, now = await self._engine.connect(), self._engine.clock.now()
        before: dict[WorkerId, WorkerCommands] = {}
        after: dict[WorkerId, WorkerCommands] = {}
        annotate(before=before, after=after)
        for worker in await self._addressed(action, id):
            row = await self._command_one(store, worker, action, changes, now, named=id is not None)
            if row is not None:
                before[row.info.id], after[row.info.id] = row.orders, replace(row.orders, **changes)
        if after:
            self._engine.events.emit(WorkersOrdered(at=now, action=action, workers=tuple(after)))
        return list(after)

    async def _command_one(
        self,
        store: Store,
        worker: WorkerRow,
        action: WorkerCommand,
        changes: dict[str, Any],
        now: datetime,
        *,
        named: bool,
    ) -> WorkerRow | None:
        """The worker as it was before the command; None if it is gone, or the command does not apply to it any more."""
        for _ in range(MAX_COMMAND_TRIES):
            if await store.command_workers(
                [worker.info.id], replace(worker.orders, **changes), now=now, seen=worker.orders
            ):
                return worker
            # It received another command first, or is gone: check its new state.
            rows = [row for row in await store.workers(now=now) if row.info.id == worker.info.id]
            refused = refusal(rows[0], action) if rows else None
            if refused is not None and named:
                raise refused
            if refused is not None or not rows:
                return None
            worker = rows[0]
        raise StoreUnavailable(f"worker {worker.info.id} keeps receiving other commands: try again")

    async def _addressed(self, action: WorkerCommand, id: WorkerId | None) -> Sequence[WorkerRow]:
        """The workers that the command is for. A command for all skips those that it does not apply to."""
        if id is None:
            return [worker for worker in await self.list() if refusal(worker, action) is None]
        worker = await self.get(id)
        if (refused := refusal(worker, action)) is not None:
            raise refused
        return [worker]


def refusal(worker: WorkerRow, action: WorkerCommand) -> MainspringError | None:
    """Why this command does not apply to this worker; None if it does."""
    id, state = worker.info.id, worker.state
    if action != "stop":
        needed = ", ".join(sorted(set(get_args(WorkerState)) - {state}))
        return InvalidTransition("", state, action, needed, worker_id=id) if worker.orders.stopped else None
    if worker.info.grace is None:
        where = f"process {worker.info.pid} on {worker.info.host}"
        return BadInput(f"worker {id} is of a release that cannot be stopped remotely: send SIGTERM to {where}")
    return None


def _names(workers: Sequence[WorkerRow]) -> str:
    more = f" and {len(workers) - MAX_NAMED_WORKERS:,} more" if len(workers) > MAX_NAMED_WORKERS else ""
    return (", ".join(worker.info.id for worker in workers[:MAX_NAMED_WORKERS]) or "none") + more
