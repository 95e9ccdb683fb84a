"""Runs one job: decode, middleware, call; says how it ended."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from ..bounds import MAX_SPAN_SECONDS, later
from ..clock import Clock
from ..codec import decode_or_text, encode_result, is_async
from ..errors import ItemsFailed
from ..executor.threads import Threads
from ..failpoint import failpoint
from ..middleware import Middleware, Next, onion
from ..middleware.recovery import recovery
from ..middleware.timeout import Timeout
from ..records.job import Job
from ..records.outcome import (
    Directive,
    Done,
    Policy,
    ProcessDied,
    ProcessExited,
    RemoteFailure,
    RunEnd,
    UnreadableAbroad,
    bad_payload,
)
from ..records.run import Failure, Usage
from ..records.skew import UndecodablePayload
from ..task.context import Context, running
from ..task.options import TaskOptions
from ..task.task import Task
from .report_buffer import ReportBuffer

# Tries of postponed jobs in a worker, beyond the first one of each.
TRIES_PER_SECOND = 100

if TYPE_CHECKING:
    from ..executor.pool import Processes
    from ..executor.protocol import Message, Raised


class Pace:
    """Spreads the next tries of postponed jobs, so that other jobs find room between them however many there are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def reserve(self) -> float:
        """Seconds until the next instant that no other job has."""
        now = self._clock.monotonic()
        self._until = max(now, self._until) + 1 / TRIES_PER_SECOND
        return self._until - now


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
        max_crashes: int = 3,
        skew: float = 0.0,
    ) -> None:
        """`skew`: seconds that a job may wait for a worker with the version of its task that made its payload."""
        self._clock = clock
        self.desk = ReportBuffer(clock)
        self.threads = Threads(clock)
        self._processes: Processes | None = None
        self._max_crashes = max_crashes
        self._skew = skew
        self._pace = Pace(clock)
        self._default_timeout = timeout
        self._result_limit = result_limit
        self._tasks = tasks
        # A process of its own is interrupted from within.
        soft = {
            name: task.options.soft_timeout
            for name, task in tasks.items()
            if task.options.soft_timeout is not None and task.executor != "process"
        }
        # Jobs that were claimed together mostly have the same.
        self._deadline = lru_cache(maxsize=16)(_deadline)
        around: list[Middleware] = [*middleware, Timeout(clock, soft), recovery]
        self._calls: dict[str, Next] = {}
        self._policies: dict[str, Policy] = {}
        for name, task in tasks.items():
            self._calls[name] = onion([*task.middleware, *around], self._core(task))
            self._policies[name] = task.policy(policy)

    def context(self, job: Job) -> Context:
        timeout = job.timeout
        if timeout is UNSET:
            timeout = self._tasks[job.task].timeout(self._default_timeout)
        elif timeout is not None:
            timeout = min(timeout, MAX_SPAN_SECONDS)  # a job of an earlier release may have more than a timer takes
        # The deadline is only told, the timeout middleware keeps it: they start within microseconds.
        ratio = self._tasks[job.task].options.failed_ratio
        return Context(job, timeout, self._deadline(job.started_at, timeout), self.desk, ratio)

    def fingerprints(self, tasks: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._tasks[name].arguments.fingerprint for name in tasks)

    async def run(self, ctx: Context) -> RunEnd:
        """How the run ended; lets nothing through but its own cancellation."""
        job = ctx.job
        running.set(ctx)
        try:
            ctx.arguments = self._tasks[job.task].arguments.decode(job.payload)
        except BaseException as error:  # of any kind: validators of the arguments' classes run there
            return self._unreadable(job.task, bad_payload(job.task, error))
        failpoint("run.started")
        try:
            value = await self._calls[job.task](ctx)
        except asyncio.CancelledError:
            raise
        except ProcessExited as gone:
            return ProcessDied(str(gone), self._max_crashes)
        except UnreadableAbroad as abroad:
            return self._unreadable(job.task, abroad.failure, abroad.version)
        except BaseException as error:
            return error
        finally:
            failpoint("run.returned")
        try:
            return self.judged(ctx, value)
        except BaseException as error:  # of any kind: code of the value's class runs there
            return error

    def _unreadable(self, task: str, failure: Failure, version: tuple[str, str] | None = None) -> UndecodablePayload:
        """`version`: the fingerprint and the parameters of the task where it was to run, if that is elsewhere."""
        arguments = self._tasks[task].arguments
        fingerprint, parameters = version or (arguments.fingerprint, arguments.parameters)
        return UndecodablePayload(failure, fingerprint, parameters, self._skew, self._pace.reserve())

    def judged(self, ctx: Context, value: Any) -> Done | Directive | ItemsFailed:
        """What it means that the task returned this."""
        if isinstance(value, Directive):
            return value
        items, verdict = ctx.counted, ctx.verdict
        if items is not None and verdict == "failed":
            return ItemsFailed(f"{items.failed} of {items.total} items failed; up to {ctx.failed_ratio:.0%} may")
        done = value if isinstance(value, Done) else self._done(value)
        return done if items is None or verdict == "success" else done.partly(items)

    def _done(self, value: Any) -> Done:
        return Done() if value is None else Done(*encode_result(value, self._result_limit))

    def policy(self, job: Job) -> Policy:
        """The task's rules, with the job's own wishes first."""
        policy = self._policies[job.task]
        if job.max_retries is None and job.backoff is None:
            return policy
        retries = policy.max_retries if job.max_retries is None else job.max_retries
        return replace(policy, max_retries=retries, backoff=job.backoff or policy.backoff)

    def close(self) -> None:
        self.threads.close()
        if self._processes is not None:
            self._processes.close()

    def _core(self, task: Task[Any, Any]) -> Next:
        fn, context = task.fn, task.arguments.context
        if task.executor == "process":
            from ..executor.pool import Processes, place_of

            self._processes = self._processes or Processes(self._clock)
            return partial(self._in_process, task, place_of(fn))
        if is_async(fn):
            if context is None:
                return lambda ctx: fn(*ctx.arguments[0], **ctx.arguments[1])
            return lambda ctx: fn(ctx, *ctx.arguments[0], **ctx.arguments[1])
        return partial(self._in_thread, fn, context is not None)

    async def _in_thread(self, fn: Callable[..., Any], wants_context: bool, ctx: Context) -> Any:
        args, kwargs = ctx.arguments
        value = await self.threads.call(
            partial(fn, ctx, *args, **kwargs) if wants_context else partial(fn, *args, **kwargs), ctx
        )
        # A sync function may still hand back a coroutine (functools.partial, a decorator without `async`).
        return await value if inspect.iscoroutine(value) else value

    async def _in_process(self, task: Task[Any, Any], place: tuple[str, str, str | None], ctx: Context) -> Any:
        """In a process of its own, for what may have to be killed."""
        from ..executor.protocol import ProcessDiedMessage as Gone
        from ..executor.protocol import Raised, RunRequest, RunSteered

        assert self._processes is not None
        options = task.options
        ended = await self._processes.call(
            RunRequest(
                module=place[0], qualname=place[1], main=place[2], job=ctx.job, timeout=ctx.timeout,
                deadline=ctx.deadline, soft_timeout=options.soft_timeout, memory_limit=options.memory_limit,
                cpu_limit=options.cpu_limit, result_limit=self._result_limit,
            ),
            partial(_hear, ctx),
        )  # fmt: skip
        ctx.usage = ended.usage
        match ended:
            case Gone(reason=reason):
                raise ProcessExited(reason)
            case Raised(failure=failure, kind="unreadable", version=version):
                raise UnreadableAbroad(failure, version)
            case Raised(failure=failure, kind=kind):
                raise RemoteFailure(failure, retryable=_worth_a_retry(ended, options), timeout=kind == "timeout")
            case RunSteered(steer=steer):
                raise steer
            case _:
                # Layers see the value; what could not be kept of it was said in the process.
                return decode_or_text(ended.result or "null") if ended.note is None else Done(ended.result, ended.note)


def _deadline(began: datetime | None, timeout: float | None) -> datetime | None:
    return None if timeout is None or began is None else later(began, timeout)


def _worth_a_retry(raised: Raised, options: TaskOptions) -> bool:
    """What the task's rules say of an error that only its process has seen."""
    from ..executor.pool import bases_of

    if not raised.bases:
        return raised.kind != "unreadable"
    wanted, unwanted = (
        any(bases_of(kind)[0] in raised.bases for kind in kinds) for kinds in (options.retry_on, options.no_retry_on)
    )
    return wanted and not unwanted


def _hear(ctx: Context, message: Message | Usage) -> None:
    """What a task says in its process, said here."""
    from ..executor.protocol import ItemsMessage, LogMessage, NoteMessage, ProgressMessage

    match message:
        case LogMessage(level=level, text=text):
            ctx.log.log(level, "%s", text)
        case ProgressMessage(done=done, total=total, note=note):
            ctx.progress(done, total, note)
        case ItemsMessage(success=success, failed=failed, skipped=skipped):
            ctx.items(success=success, failed=failed, skipped=skipped)
        case NoteMessage(metadata=metadata):
            ctx.note(**metadata)
        case _:
            ctx.usage = message
