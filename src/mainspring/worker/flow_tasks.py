"""The internal tasks of flows, which every worker serves: large maps, and the jobs that a stopped flow has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from ..clock import Clock
from ..ids import JobId
from ..mask import brief_text
from ..records.flow import (
    BATCH,
    CANCEL_STEPS,
    CLOSE_BATCH,
    FAN_OUT,
    FLOW_DEADLINE,
    FLOW_STOPPED,
    JOBS_STEP,
    OPEN,
    PLANNED_FLOW,
    CloseBatch,
    Flow,
    FlowWithPlan,
    TimeOut,
)
from ..records.job import Action, Job, State
from ..records.outcome import Cancel, Discard, Skip, Snooze
from ..records.query import Filter
from ..records.step import MAX_INDEX, MAX_POSITION, StepRef, position_of
from ..store import Store
from ..task.context import Context
from ..task.options import CheckedOptions
from ..task.task import Task
from .flow_reads import flow_store

if TYPE_CHECKING:
    from ..engine import Engine

# Jobs that are cancelled at once.
PAGE_JOBS = 1000
# The last jobs of a batch that are looked at: some may be deleted.
MAX_LAST_JOBS = 10
_OPTIONS = CheckedOptions(max_retries=20, timeout=3600.0)


class FlowTasks:
    """The functions of the internal tasks, for one worker."""

    def __init__(self, clock: Clock, connect: Callable[[], Awaitable[Store]]) -> None:
        self._clock, self._connect = clock, connect

    async def fan_out(self, ctx: Context, items: msgspec.Raw, step: int) -> None:
        """Makes the items of a map, page by page. After a crash it goes on behind the last page."""
        from ..flow.graph import Graph
        from ..flow.moves import add_items
        from . import item_pages

        values, ref = _list_of(items), ctx.job.step
        if ref is None:
            raise Discard("no flow has made this job")
        store = await self._connect()
        while True:
            found = _still_maps(await _flow(store, ref.flow), ref)
            counts = found.row.counts[step]
            if counts.made >= len(values):
                return
            now = self._clock.now()
            if item_pages.room_for([counts]) < item_pages.PAGE_ITEMS:
                item_pages.snooze_until_room([counts], now)
            page = (bytes(value).decode() for value in values[counts.made : counts.made + item_pages.PAGE_ITEMS])
            move = add_items(Graph(found.plan), found.row, step, counts.made + 1, page, now, last=False)
            if not move.jobs:
                _stopped()
            await store.enqueue(move.jobs, now=now)

    async def cancel_steps(self, flow: JobId, steps: list[int]) -> None:
        """Cancels the unfinished jobs of these steps. If the flow was deleted, deletes what is left of it."""
        store = await self._connect()
        found = await _flow(store, flow)
        if found is None:
            await self._delete_steps(store, flow)
            return
        for n in steps:
            if _is_stopped(found.row, n):
                life, again = found.row.lives.get(n, 0), found.row.state == "aborting"
                await self._cancel(store, flow, position_of(n, 0, life), position_of(n, MAX_INDEX, life), again=again)

    async def stop_late_flow(self, ctx: Context, flow: JobId) -> None:
        """Stops the flow whose deadline has come. Run again, or for a flow with another deadline, it does nothing."""
        store = flow_store(await self._connect())
        await store.change_flow(flow, TimeOut(ctx.job.id), now=self._clock.now())

    async def close_batch(self, flow: JobId, complete: bool = False) -> None:
        """Closes a batch: one that was made in a transaction, or one that has gone without a further job for too long.
        Run again, or for a batch that is closed, it does nothing."""
        store = await self._connect()
        found = await _flow(store, flow)
        if found is None or not found.plan.steps or (step := found.plan.steps[JOBS_STEP]).open_seconds is None:
            return
        counts, now = found.row.counts[JOBS_STEP], self._clock.now()
        if counts.closed:
            return
        left = 0.0 if complete else step.open_seconds - (now - await _last_added(store, found.row)).total_seconds()
        if left > 0:
            raise Snooze(left, "jobs are still added to the batch")
        request = CloseBatch(None if complete else counts.made)
        if (refusal := await flow_store(store).change_flow(flow, request, now=now)) is not None:
            raise Snooze(step.open_seconds, refusal.error or "")

    async def _cancel(self, store: Store, flow: JobId, first: int, last: int, *, again: bool) -> None:
        while jobs := await flow_store(store).step_jobs(flow, first=first, last=last, limit=PAGE_JOBS):
            await self._change(store, Action.CANCEL, [job for job in jobs if _runs_on(job, again)])
            first = _position(jobs[-1]) + 1

    async def _delete_steps(self, store: Store, flow: JobId) -> None:
        first = 0
        while jobs := await flow_store(store).step_jobs(flow, first=first, last=MAX_POSITION, limit=PAGE_JOBS):
            await self._change(store, Action.DELETE, [job for job in jobs if job.state is not State.RUNNING])
            await self._change(store, Action.CANCEL, [job for job in jobs if job.state is State.RUNNING])
            first = _position(jobs[-1]) + 1

    async def _change(self, store: Store, action: Action, jobs: list[Job]) -> None:
        if jobs:
            ids = Filter(ids=tuple(job.id for job in jobs))
            await store.change(action, ids, now=self._clock.now(), limit=len(jobs), reason=FLOW_STOPPED)


async def _flow(store: Store, id: JobId) -> FlowWithPlan | None:
    return next(iter(await flow_store(store).flows([id])), None)


async def _last_added(store: Store, row: Flow) -> datetime:
    """When the last job of a batch was added, as far as its last ones are not deleted."""
    counts = row.counts[JOBS_STEP]
    first, last = (position_of(JOBS_STEP, max(1, counts.made - back)) for back in (MAX_LAST_JOBS - 1, 0))
    jobs = await flow_store(store).step_jobs(row.id, first=first, last=last, limit=MAX_LAST_JOBS)
    return max((job.created_at for job in jobs), default=counts.released_at or row.began_at)


def _list_of(items: msgspec.Raw) -> list[msgspec.Raw]:
    """The items. Ends the job if there are none to be made."""
    try:
        values: list[msgspec.Raw] | None = msgspec.json.decode(items, type=list[msgspec.Raw] | None)
    except msgspec.DecodeError:
        raise Discard(f"a map needs a list, and got {brief_text(bytes(items).decode(), 50)}") from None
    if values is None:
        raise Skip("a map over no value has no items")
    return values


def _still_maps(found: FlowWithPlan | None, ref: StepRef) -> FlowWithPlan:
    """The flow. Ends the job if the flow makes no more items of this step."""
    if found is None or found.row.lives.get(ref.number, 0) != ref.life or ref.number not in found.row.counts:
        _stopped()
    return found


def _stopped() -> NoReturn:
    raise Cancel(FLOW_STOPPED)


def _is_stopped(row: Flow, n: int) -> bool:
    """Whether the step's jobs are still to be cancelled: the flow may have been put back to work."""
    return row.state != "open" or row.statuses[n] not in OPEN or n in row.skipped


def _runs_on(job: Job, again: bool) -> bool:
    """Whether the job is to be cancelled: it was not yet, or it is a flow, and its parent was cancelled `again`. A
    second cancel of a flow stops more than the first one."""
    return not job.state.final and (job.cancel_reason is None or (again and job.state is State.WAITING))


def _position(job: Job) -> int:
    assert job.step is not None
    return job.step.position


def conclude() -> Any:
    """Stands for the function of a flow whose plan came with its job: there is nothing to run but its steps."""
    raise Discard("the flow of this job is gone")


def flow_tasks(engine: Engine) -> dict[str, Task[Any, Any]]:
    """The internal tasks of flows, for one worker."""
    functions, registry = FlowTasks(engine.clock, engine.connect), engine.registry
    return {
        FAN_OUT: registry.new_task(FAN_OUT, functions.fan_out, _OPTIONS),
        CANCEL_STEPS: registry.new_task(CANCEL_STEPS, functions.cancel_steps, _OPTIONS),
        FLOW_DEADLINE: registry.new_task(FLOW_DEADLINE, functions.stop_late_flow, _OPTIONS),
        CLOSE_BATCH: registry.new_task(CLOSE_BATCH, functions.close_batch, _OPTIONS),
        BATCH: registry.new_task(BATCH, conclude, CheckedOptions(), kind="flow"),
        PLANNED_FLOW: registry.new_task(PLANNED_FLOW, conclude, CheckedOptions(), kind="flow"),
    }
