"""Batch: jobs of any task that belong together, with callbacks when they fail, succeed and end."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack, cast

from msgspec.structs import replace

from ..bounds import BATCH_PAGE_JOBS, MAX_REASON_CHARACTERS
from ..errors import BadInput, BatchEnded, BatchFailed, JobDead
from ..ids import JobId, new_id
from ..records.batch import BatchCounts, batch_counts
from ..records.flow import CLOSE_BATCH, JOBS_STEP, CloseBatch, Flow
from ..records.job import Enqueued, NewJob
from ..records.outcome import clean
from ..records.step import NEXT_INDEX, StepRef, position_of
from ..span import Span
from .handle import Handle, job_not_found
from .new_jobs import checked_jobs

if TYPE_CHECKING:
    from types import TracebackType

    from ..engine import Engine
    from ..store import FlowStore
    from ..sync import SyncBatch
    from .batch_options import BatchOptions


class Batch:
    """A batch. `async with app.batch("newsletter") as batch:` begins it, and closes it at the end of the block."""

    def __init__(
        self, engine: Engine, id: JobId, queue: str = "default", *, new: NewJob | None = None, within: Any = None
    ) -> None:
        """`queue` is that of its own job. `new` is the job of a batch that does not exist yet."""
        self.id = id
        self._engine, self._queue, self._new, self._within = engine, queue, new, within

    def __repr__(self) -> str:
        return f"<Batch {self.id}>"

    async def __aenter__(self) -> Batch:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif self._within is None:  # else the caller's transaction is rolled back
            text = f"its maker raised {type(error).__name__}: {error}"
            await self._engine.jobs.cancel(self.id, clean(text, MAX_REASON_CHARACTERS))

    async def begin(self) -> None:
        """Stores the batch, which is open from then on. The block does it."""
        if (new := self._new) is None:
            raise BadInput(f"batch {self.id} exists already: add jobs with enqueue_many(), and end it with close()")
        await self._begin(new)
        self._new = None

    async def _begin(self, new: NewJob) -> None:
        await self._insert([new])

    def changed(self, change: Callable[[NewJob], NewJob]) -> Batch:
        """The same batch with its own job changed, before it has begun."""
        assert self._new is not None, "the batch has begun"
        new = change(self._new)
        return type(self)(self._engine, new.id, self._queue, new=new, within=self._within)

    # adding jobs

    async def enqueue(self, job: NewJob) -> Handle[Any]:
        """Adds a job: await batch.enqueue(send.job(to)). It is durable, and runs, when this returns."""
        (handle,) = await self.insert(checked_jobs([job], "batch.enqueue"))
        return handle

    async def enqueue_many(self, jobs: Iterable[NewJob] | AsyncIterable[NewJob]) -> int:
        """Adds any number of jobs, and stores them page by page: enqueue_many(send.job(to) for to in
        people). Returns how many are new: a job whose key is held is none of the batch."""
        count = 0
        async for page in _pages(jobs):
            handles = await self.insert(checked_jobs(page, "batch.enqueue_many"))
            count += sum(handle.status == "new" for handle in handles)
        return count

    def batch(self, name: str, **options: Unpack[BatchOptions]) -> Batch:
        """A batch that is one job of this one: `async with batch.batch("page 1") as inner:`. It ends after its own
        callbacks have."""
        from .batch_options import new_batch_job

        if options.get("within") is not None:
            raise BadInput("a batch in a batch is part of the same transaction: leave out within=")
        new, _ = new_batch_job(self._engine, name, options)
        new = replace(new, step=self._next())
        return type(self)(self._engine, new.id, new.queue, new=new, within=self._within)

    def _next(self) -> StepRef:
        return StepRef(self.id, position_of(JOBS_STEP, NEXT_INDEX), self._queue)

    async def insert(self, jobs: Sequence[NewJob]) -> list[Handle[Any]]:
        """Adds new jobs, all or none, unchecked: they come from task.job() or app.job()."""
        self._check_begun(jobs)
        step = self._next()
        return await self._insert([replace(job, step=step) for job in jobs])

    def _check_begun(self, jobs: Sequence[NewJob]) -> None:
        if self._new is not None:
            raise BadInput(f"batch {self.id} has not begun: add its jobs inside of `async with`")
        if collecting := [job.task for job in jobs if job.collect is not None]:
            raise BadInput(
                f"task {collecting[0]!r} collects items, and no job of a batch does: enqueue it from a job of the batch"
            )

    async def _insert(self, jobs: list[NewJob]) -> list[Handle[Any]]:
        handles = await self._engine.insert(jobs, self._within)
        for job, handle in zip(jobs, handles, strict=True):
            if handle.status == "refused" and job.step is not None:
                raise BatchEnded(job.step.flow)
        return handles

    @property
    def sync(self) -> SyncBatch:
        """The same names for code that does not await: `with app.batch("newsletter").sync as batch:`."""
        from ..sync import SyncBatch

        return SyncBatch(self)

    # ending

    async def close(self) -> None:
        """No more jobs are added from outside: it ends when all have ended. The block does it. Closed again, it stays
        as it is."""
        now = self._engine.clock.now()
        if self._within is not None:  # once that is committed, and only then
            payload = f'{{"flow":"{self.id}","complete":true}}'
            await self._insert([NewJob(id=new_id(now), task=CLOSE_BATCH, payload=payload, queue=self._queue)])
            return
        refusal = await (await self._store()).change_flow(self.id, CloseBatch(), now=now)
        if refusal is not None:
            raise BadInput(f"batch {self.id} cannot be closed: {refusal.error}")

    async def cancel(self, reason: str = "its maker has cancelled it") -> None:
        """Cancels the batch with its unfinished jobs. Only on_complete is called."""
        await self._engine.jobs.cancel(self.id, clean(reason, MAX_REASON_CHARACTERS))

    # reading

    async def counts(self) -> BatchCounts:
        """Its jobs, counted: one row is read, however many they are."""
        return batch_counts((await self._row()).counts[JOBS_STEP])

    async def result(self, timeout: Span | None = None) -> BatchCounts:
        """Waits until its jobs and callbacks have ended, and returns the counts.

        Raises BatchFailed, which has the counts, if a job is dead or it was never closed; JobCancelled, and after
        `timeout` ResultTimeout, as for any job.
        """
        try:
            await Handle[None](self._engine, Enqueued(self.id)).result(timeout)
        except JobDead as dead:
            raise BatchFailed(str(dead), await self.counts()) from None
        return await self.counts()

    async def _row(self) -> Flow:
        found = await (await self._store()).flows([self.id])
        if not found:
            raise job_not_found(self.id)
        return found[0].row

    async def _store(self) -> FlowStore:
        store = await self._engine.connect()
        store.capabilities.require_flows()
        return cast("FlowStore", store)


async def _pages(jobs: Iterable[NewJob] | AsyncIterable[NewJob]) -> AsyncIterator[list[NewJob]]:
    if not isinstance(jobs, AsyncIterable):
        source = iter(jobs)
        while page := list(islice(source, BATCH_PAGE_JOBS)):
            yield page
        return
    page = []
    async for job in jobs:
        page.append(job)
        if len(page) >= BATCH_PAGE_JOBS:
            yield page
            page = []
    if page:
        yield page
