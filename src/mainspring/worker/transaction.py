"""Ends runs inside transactions of their own: the effect and the completion are one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from ..clock import Clock
from ..errors import BadInput, LeaseLost
from ..failpoint import failpoint
from ..records.job import Job
from ..records.outcome import Outcome, decide
from ..store import Store, Transaction
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

    @property
    def irrevocable(self) -> bool:
        """Whether it is too late to end the run in another way."""
        return self.under_way or self.outcome is not None


class TransactionalCompletion:
    """What `ctx.transaction()` opens, for the runs of one worker."""

    def __init__(
        self,
        runner: Runner,
        courier: ReportSender,
        clock: Clock,
        store: Callable[[], Store],
        told: Callable[[Job, Outcome], Outcome],
    ) -> None:
        """`told` adds to an outcome what others are to be told of it."""
        self._runner = runner
        self._courier = courier
        self._clock = clock
        self._store = store
        self._told = told

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
        return self._opened(ctx)

    @asynccontextmanager
    async def _opened(self, ctx: Context) -> AsyncIterator[Any]:
        # What was said so far needs no transaction. What is said in the block is told with its end: meanwhile the store
        # may be locked for everybody else, and afterwards it takes no more words of this run.
        await self._courier.carry(self._store())
        ctx.commitment = commitment = CompletionCommit()
        try:
            async with AsyncExitStack() as stack:
                with self._clock.outside():
                    transaction = await stack.enter_async_context(self._store().transaction())
                    if not await transaction.holds(ctx.job.id, ctx.lease):
                        raise _lost(ctx)
                with ctx.reports.hold_back():
                    with self._clock.outside(task=True):  # the store may be waiting for it
                        yield transaction.connection
                    with self._clock.outside():
                        await _whole(self._commit(ctx, commitment, transaction))
        finally:
            if commitment.outcome is None:
                ctx.commitment = None

    async def _commit(self, ctx: Context, commitment: CompletionCommit, transaction: Transaction) -> None:
        outcome = self._outcome(ctx, commitment)
        report = ctx.reports.drain()
        commitment.under_way = True
        try:
            if not await transaction.commit(outcome, [report]):
                raise _lost(ctx)
            commitment.outcome = outcome
        except BaseException:
            ctx.reports.restore(report)
            raise
        finally:
            commitment.under_way = False
        failpoint("transaction.after_commit")
        self._courier.tell([(ctx.job, report)])

    def _outcome(self, ctx: Context, commitment: CompletionCommit) -> Outcome:
        """As if the task had returned now; too many failed items, or a Snooze given as the result, end the block."""
        ended = self._runner.judged(ctx, commitment.result)
        if isinstance(ended, Exception):
            raise ended
        job = ctx.job
        policy, account = self._runner.policy(job), ctx.account()
        return self._told(job, decide(job, ended, now=self._clock.now(), policy=policy, account=account))


def _lost(ctx: Context) -> LeaseLost:
    return LeaseLost(f"job {ctx.job.id} ({ctx.job.task}) was taken from this run; its transaction is rolled back")


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """To its end, even if cancelled meanwhile: a commit must be known to have been made or not."""
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
            task.exception()  # looked at: that the run was cancelled comes first
        raise
