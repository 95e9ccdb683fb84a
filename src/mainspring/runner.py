"""Runs one job: decode, middleware, call; says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import UNSET

from .clock import Clock
from .codec import encode_result, is_async
from .context import Context
from .failpoint import failpoint
from .job import Failure, Job
from .middleware import Middleware, Next, onion
from .middleware.recovery import recovery
from .middleware.timeout import Timeout
from .outcome import Done, Ended, Policy, Steer, Unreadable, clean
from .task import Task
from .threads import Threads


class Runner:
    """Everything about a task that can be prepared is prepared here, once."""

    def __init__(
        self,
        tasks: Mapping[str, Task[Any, Any]],
        middleware: Sequence[Middleware],
        clock: Clock,
        *,
        timeout: float,
        policy: Policy,
        result_limit: int,
    ) -> None:
        self._clock = clock
        self._threads = Threads(clock)
        self._default_timeout = timeout
        self._result_limit = result_limit
        self._tasks = tasks
        around: list[Middleware] = [*middleware, Timeout(clock), recovery]
        self._calls: dict[str, Next] = {}
        self._policies: dict[str, Policy] = {}
        for name, task in tasks.items():
            self._calls[name] = onion([*task.middleware, *around], self._core(task))
            self._policies[name] = task.policy(policy)

    def context(self, job: Job) -> Context:
        timeout = job.timeout
        if timeout is UNSET:
            timeout = self._tasks[job.task].timeout(self._default_timeout)
        # The deadline is only told, the timeout middleware keeps it: they start within microseconds.
        deadline = None if timeout is None or job.started_at is None else job.started_at + timedelta(seconds=timeout)
        return Context(job, timeout, deadline)

    async def run(self, ctx: Context) -> Ended:
        """How the run ended; lets nothing through but its own cancellation."""
        job = ctx.job
        try:
            ctx.arguments = self._tasks[job.task].arguments.decode(job.payload)
        except Exception as error:
            text = f"the payload does not fit task {job.task!r}: {error}"
            return Unreadable(Failure("BadPayload", clean(text, 4096)))
        failpoint("run.started")
        try:
            value = await self._calls[job.task](ctx)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return error
        finally:
            failpoint("run.returned")
        if isinstance(value, Steer):
            return value
        return Done() if value is None else Done(*encode_result(value, self._result_limit))

    def policy(self, job: Job) -> Policy:
        """The task's rules, with the job's own wishes first."""
        policy = self._policies[job.task]
        if job.max_retries is None and job.backoff is None:
            return policy
        retries = policy.max_retries if job.max_retries is None else job.max_retries
        return Policy(retries, job.backoff or policy.backoff, policy.retry_on, policy.no_retry_on)

    def close(self) -> None:
        self._threads.close()

    def _core(self, task: Task[Any, Any]) -> Next:
        fn, context = task.fn, task.arguments.context
        if is_async(fn):
            if context is None:
                return lambda ctx: fn(*ctx.arguments[0], **ctx.arguments[1])
            return lambda ctx: fn(ctx, *ctx.arguments[0], **ctx.arguments[1])
        return partial(self._in_thread, fn, context is not None)

    async def _in_thread(self, fn: Callable[..., Any], wants_context: bool, ctx: Context) -> Any:
        args, kwargs = ctx.arguments
        value = await self._threads.call(
            partial(fn, ctx, *args, **kwargs) if wants_context else partial(fn, *args, **kwargs)
        )
        # A sync function may still hand back a coroutine (functools.partial, a decorator without `async`).
        return await value if asyncio.iscoroutine(value) else value
