"""Transactional completion: a task's own changes and the completion of its job are one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, cast

from msgspec.structs import replace

from ..clock import Clock
from ..errors import BadInput, LeaseLost
from ..failpoint import failpoint
from ..records.job import Job
from ..records.outcome import Outcome, decide
from ..records.run import Checkpoint
from ..store import Store, Transaction, TransactionalStore
from ..task.context import Context
from .reports import ReportSender
from .runner import Runner


class CompletionCommit:
    """The completion of a run that is committed together with its effects."""

    def __init__(self) -> None:
        self.result: Any = None
        self.under_way = False
        self.outcome: Outcome | None = None
        """The committed outcome. None before the commit."""

    def set_result(self, result: Any) -> None:
        self.result = result

    def begin(self) -> None:
        self.under_way = True

    def commit(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def end(self) -> None:
        self.under_way = False

    @property
    def irrevocable(self) -> bool:
        """Whether it is too late to end the run in another way."""
        return self.under_way or self.outcome is not None


class StepTransaction:
    """The transaction of one durable step."""

    def __init__(self, ctx: Context, clock: Clock, transaction: Transaction, store: Callable[[], Store]) -> None:
        self._ctx = ctx
        self._clock = clock
        self._transaction = transaction
        self._store = store

    async def call(self, fn: Callable[[Any], Awaitable[Any]]) -> Any:
        """What the function returns for the driver's connection."""
        with self._clock.outside(task=True):  # the store may be waiting for it
            return await fn(self._transaction.connection)

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Commits the effects of the step with this checkpoint. Raises LeaseLost if the run has lost its job."""
        with self._clock.outside():
            await _run_to_end(self._commit(checkpoint))

    async def _commit(self, checkpoint: Checkpoint) -> None:
        reports = self._ctx.reports
        await reports.number(self._store())
        report = reports.drain()
        try:
            kept = replace(report, checkpoints=(*report.checkpoints, checkpoint))
            if not await self._transaction.keep(kept):
                raise _lost(self._ctx)
        except BaseException:
            reports.restore(report)
            raise
        failpoint("transaction.after_commit")
        reports.sent(report, True)


class TransactionalCompletion:
    """Opens `ctx.transaction()` for the runs of one worker."""

    def __init__(
        self,
        runner: Runner,
        report_sender: ReportSender,
        clock: Clock,
        store: Callable[[], Store],
        with_deliveries: Callable[[Job, Outcome], Outcome],
    ) -> None:
        """`with_deliveries` adds webhook deliveries to an outcome."""
        self._runner = runner
        self._report_sender = report_sender
        self._clock = clock
        self._store = store
        self._with_deliveries = with_deliveries

    def transaction(self, ctx: Context) -> AbstractAsyncContextManager[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise BadInput(
                f"ctx.transaction() is awaited, and task {ctx.job.task!r} is a plain function: make it `async def`"
            ) from None
        if ctx.commitment is not None:
            done = "has completed its job" if ctx.commitment.outcome else "is open"
            raise BadInput(f"a ctx.transaction() of this run {done} already: there is one, and it comes last")
        self._store().capabilities.require_transactions("ctx.transaction()")
        return self._open(ctx)

    @asynccontextmanager
    async def step(self, ctx: Context) -> AsyncIterator[StepTransaction]:
        """A transaction whose commit keeps a checkpoint. What is not committed at the end of the block is undone."""
        self._store().capabilities.require_transactions("ctx.step_in_transaction()")
        await self._report_sender.flush(self._store())
        async with AsyncExitStack() as stack:
            with self._clock.outside():
                transaction = await stack.enter_async_context(cast(TransactionalStore, self._store()).transaction())
                is_held = await transaction.holds(ctx.job.id, ctx.lease)
            if not is_held:
                raise _lost(ctx)
            with ctx.reports.hold_back():
                yield StepTransaction(ctx, self._clock, transaction, self._store)

    @asynccontextmanager
    async def _open(self, ctx: Context) -> AsyncIterator[Any]:
        # Reports made so far need no transaction. Those made inside the block are stored with its commit: meanwhile
        # the store may be locked for other writers, and afterwards it accepts no reports of this run.
        await self._report_sender.flush(self._store())
        commitment = CompletionCommit()
        ctx.commit_with(commitment)
        try:
            async with AsyncExitStack() as stack:
                with self._clock.outside():
                    transaction = await stack.enter_async_context(cast(TransactionalStore, self._store()).transaction())
                    if not await transaction.holds(ctx.job.id, ctx.lease):
                        raise _lost(ctx)
                with ctx.reports.hold_back():
                    with self._clock.outside(task=True):  # the store may be waiting for it
                        yield transaction.connection
                    with self._clock.outside():
                        await _run_to_end(self._commit(ctx, commitment, transaction))
        finally:
            if commitment.outcome is None:
                ctx.commit_with(None)

    async def _commit(self, ctx: Context, commitment: CompletionCommit, transaction: Transaction) -> None:
        outcome = self._outcome(ctx, commitment)
        await ctx.reports.number(self._store())
        report = ctx.reports.drain()
        commitment.begin()
        try:
            if not await transaction.commit(outcome, [report]):
                raise _lost(ctx)
            commitment.commit(outcome)
        except BaseException:
            ctx.reports.restore(report)
            raise
        finally:
            commitment.end()
        failpoint("transaction.after_commit")
        ctx.reports.sent(report, True)
        self._report_sender.emit_stored([(ctx.job, report)])

    def _outcome(self, ctx: Context, commitment: CompletionCommit) -> Outcome:
        """The outcome as if the task returned now. Raises for too many failed items, or for a Snooze as the result."""
        ended = self._runner.end_of(ctx, commitment.result)
        if isinstance(ended, Exception):
            raise ended
        job = ctx.job
        policy, account = self._runner.policy(job), ctx.account()
        return self._with_deliveries(job, decide(job, ended, now=self._clock.now(), policy=policy, account=account))


def _lost(ctx: Context) -> LeaseLost:
    return LeaseLost(f"job {ctx.job.id} ({ctx.job.task}) was taken from this run; its transaction is rolled back")


async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work` to its end even if cancelled meanwhile: the caller must know whether the commit was made."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it: the cancellation takes precedence
        raise
