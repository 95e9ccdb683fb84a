"""Reads of flows for the runs of a worker: runs that need one at the same time share a call of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context as ContextVars
from typing import Any, TypeVar, cast

from ..ids import JobId
from ..records.flow import FlowWithPlan
from ..records.job import Job, State
from ..records.plan import KeptStep
from ..records.run import Failure
from ..records.step import MAX_INDEX, StepRef, position_of, split_position
from ..store import FlowStore, Store
from ..store.retry import StoreRetry

# Jobs of steps that are read at once.
PAGE_JOBS = 1000
# Failure.type of an item whose task raised Skip: the item completed without a value.
SKIPPED = "Skipped"
StepKey = tuple[JobId, int]
K = TypeVar("K")
V = TypeVar("V")
ItemPage = list[tuple[int, "str | Failure"]]


class FlowReads:
    """Reads flows and jobs of steps. What is asked for while a read is under way is read together after it."""

    def __init__(self, store_calls: Callable[[], tuple[Store, StoreRetry]]) -> None:
        """`store_calls` returns the worker's store, and what retries its calls."""
        self._store_calls = store_calls
        self._flows: dict[JobId, asyncio.Future[FlowWithPlan | None]] = {}
        self._steps: dict[StepKey, asyncio.Future[Job | None]] = {}
        self._reader: asyncio.Task[None] | None = None

    @property
    def possible(self) -> bool:
        """Whether the store has flows."""
        return self._store_calls()[0].capabilities.flows

    async def flow(self, id: JobId) -> FlowWithPlan | None:
        """The flow of this job; None if it has none."""
        return await self._ask(self._flows, id)

    async def step_job(self, flow: JobId, position: int) -> Job | None:
        """The job at this position; None if there is none."""
        return await self._ask(self._steps, (flow, position))

    async def kept_step(self, flow: JobId, position: int) -> KeptStep | None:
        """The step at this position, which has no jobs, if its flow has taken it over from another one."""
        life, n, _ = split_position(position)
        found = None if life else await self.flow(flow)
        return None if found is None else found.plan.kept.get(n)

    async def _ask(self, asked: dict[K, asyncio.Future[V]], key: K) -> V:
        if (future := asked.get(key)) is None:
            loop = asyncio.get_running_loop()
            future = asked[key] = loop.create_future()
            if self._reader is None:
                # In an empty context, since it reads for other runs, too.
                self._reader = loop.create_task(self._read(), context=ContextVars())
        return await asyncio.shield(future)  # others may wait for it, too

    async def _read(self) -> None:
        try:
            while self._flows or self._steps:
                await self._gather()
                flows, self._flows = self._flows, {}
                steps, self._steps = self._steps, {}
                await self._resolve(flows, steps)
        finally:
            self._reader = None

    async def _gather(self) -> None:
        """Lets the runs of a claim begin, one each time, while each of them asks for something."""
        before = 0
        while (count := len(self._flows) + len(self._steps)) > before:
            before = count
            await asyncio.sleep(0)

    async def _resolve(
        self,
        flows: Mapping[JobId, asyncio.Future[FlowWithPlan | None]],
        steps: Mapping[StepKey, asyncio.Future[Job | None]],
    ) -> None:
        try:
            if flows:
                store, retry = self._store_calls()
                found = await retry("reading flows", lambda: flow_store(store).flows(list(flows)))
                by_id = {one.row.id: one for one in found}
                for id, future in flows.items():
                    future.set_result(by_id.get(id))
            for (flow, position), step in steps.items():
                jobs = await self._step_jobs(flow, position, position, 1)
                step.set_result(jobs[0] if jobs else None)
        except BaseException as error:
            asked: list[asyncio.Future[Any]] = [*flows.values(), *steps.values()]
            for waiting in asked:
                if not waiting.done():
                    _fail(waiting, error)
            if not isinstance(error, Exception):
                raise

    async def _step_jobs(self, flow: JobId, first: int, last: int, limit: int) -> list[Job]:
        store, retry = self._store_calls()
        return await retry(
            "reading steps", lambda: flow_store(store).step_jobs(flow, first=first, last=last, limit=limit)
        )

    async def items(self, flow: JobId, position: int, after: int, limit: int = PAGE_JOBS) -> ItemPage:
        """The next results of a map at this position, or why an item has none, by index from 0 on.

        After -1 the first ones; an empty page is the end. Items that were skipped are left out. Those that the flow has
        taken over from another one are a single page.
        """
        is_first = after == -1
        while jobs := await self.item_jobs(flow, position, after, limit):
            page = [(index_of(job), result) for job in jobs if (result := result_of(job)) is not None]
            if page:
                return page
            after, is_first = index_of(jobs[-1]), False
        kept = await self.kept_step(flow, position) if is_first else None
        return [] if kept is None or kept.items is None else list(kept.items)

    async def item_jobs(self, flow: JobId, position: int, after: int, limit: int = PAGE_JOBS) -> list[Job]:
        """The next jobs of a map's items, by index."""
        ref = StepRef(flow, position, "")
        first, last = (position_of(ref.number, index, ref.life) for index in (after + 2, MAX_INDEX))
        return await self._step_jobs(flow, first, last, limit)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


def flow_store(store: Store) -> FlowStore:
    """The store as one that has flows: see Capabilities.flows."""
    return cast(FlowStore, store)


def index_of(job: Job) -> int:
    """The index of an item's job, from 0 on."""
    assert job.step is not None
    return job.step.index - 1


def result_of(job: Job) -> str | Failure | None:
    """The result of an item as JSON, or why it has none. None if it was skipped."""
    if job.state is not State.COMPLETED:
        return job.failure or Failure("Cancelled", job.cancel_reason or f"it is {job.state}")
    skipped = job.failure is not None and job.failure.type == SKIPPED
    return None if skipped else job.result or "null"


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if isinstance(error, Exception):
        future.set_exception(error)
        future.exception()  # retrieved, so that asyncio does not log it if no run waits any more
    else:
        future.cancel()
