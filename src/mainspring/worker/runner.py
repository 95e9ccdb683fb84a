"""Runner: decodes one job's payload, calls its task through the middleware, and returns how the run ended."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from ..bounds import MAX_SPAN_SECONDS, later
from ..clock import Clock
from ..codec import decode_or_text, encode_result, is_async
from ..config import Settings
from ..errors import BadFlow, ItemsFailed, StoreError, StoreUnavailable
from ..executor.threads import Threads
from ..failpoint import failpoint
from ..middleware import Middleware, Next, RunLayers, checked_thread_middleware, onion, within_layers
from ..middleware.recovery import recovery
from ..middleware.timeout import Timeout
from ..records.job import Job
from ..records.outcome import (
    Directive,
    Done,
    Finish,
    Policy,
    ProcessDied,
    ProcessExited,
    Released,
    RemoteFailure,
    RunEnd,
    StepNotCompleted,
    Stopped,
    UnreadableAbroad,
    bad_payload,
)
from ..records.run import Failure, Usage
from ..records.skew import UndecodablePayload
from ..task.context import Context, running
from ..task.durable import Suspended
from ..task.options import CheckedOptions
from ..task.task import Task
from .child_slots import ChildSlots
from .report_buffer import ReportBuffer

_DONE = Done()
# Tries of postponed jobs per worker, beyond the first try of each.
MAX_TRIES_PER_SECOND = 100

if TYPE_CHECKING:
    from ..executor.pool import ProcessPool
    from ..executor.protocol import Message, Raised
    from ..store import Store
    from ..store.retry import StoreRetry
    from .flow_runs import FlowRuns


class Pacer:
    """Spaces out the next tries of postponed jobs, so that they leave room for other jobs however many they are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def reserve(self) -> float:
        """Reserves the next free instant; returns the seconds until then."""
        now = self._clock.monotonic()
        self._until = max(now, self._until) + 1 / MAX_TRIES_PER_SECOND
        return self._until - now


class _Prepared(NamedTuple):
    """What every run of one task needs."""

    decode: Callable[[str], tuple[list[Any], dict[str, Any]]]
    call: Next
    timeout: float | None
    failed_ratio: float
    policy: Policy
    is_flow: bool


class Runner:
    """Runs jobs. Whatever can be prepared for a task is prepared once, in the constructor."""

    _threads_type = Threads

    def __init__(
        self,
        tasks: Mapping[str, Task[Any, Any]],
        layers: RunLayers,
        clock: Clock,
        reports: ReportBuffer,
        *,
        timeout: float,
        policy: Policy,
        result_limit: int,
        payload_limit: int = 1 << 20,
        max_crashes: int = 3,
        skew: float = 0.0,
        children: int = 0,
        store_calls: Callable[[], tuple[Store, StoreRetry]],
    ) -> None:
        """`children`: how many child processes run process tasks in turn; 0: as many as there are runs. `skew`: how
        long a job may wait (seconds) for a worker whose version of the task can decode its payload."""
        self._clock = clock
        self._reports = reports
        self.threads = self._threads_type(clock)
        self.children = ChildSlots(clock, children, tasks)
        self._process_pool: ProcessPool | None = None
        self._payload_limit = payload_limit
        self._max_crashes = max_crashes
        self._skew = skew
        self._pacer = Pacer(clock)
        self._result_limit = result_limit
        self._tasks = tasks
        self._store_calls = store_calls
        self._flows: FlowRuns | None = None
        # A child process handles its soft timeout itself.
        soft = {
            name: task.options.soft_timeout
            for name, task in tasks.items()
            if task.options.soft_timeout is not None and task.executor != "process"
        }
        # Jobs that are claimed together mostly have the same deadline.
        self._deadline = lru_cache(maxsize=16)(_deadline)
        self._child_setup = layers.child_setup
        self._thread_layers = checked_thread_middleware(layers.thread_middleware)
        around: list[Middleware] = [*layers.middleware, Timeout(clock, soft), recovery]
        self._prepared = {
            name: _Prepared(
                task.arguments.decode,
                onion([*task.middleware, *around], self._innermost(task)),
                timeout if task.is_flow else task.timeout(timeout),
                task.options.failed_ratio,
                _flow_policy(task.policy(policy)) if task.is_flow else task.policy(policy),
                task.is_flow,
            )
            for name, task in tasks.items()
        }

    @classmethod
    def of(
        cls,
        tasks: Mapping[str, Task[Any, Any]],
        layers: RunLayers,
        clock: Clock,
        reports: ReportBuffer,
        settings: Settings,
        store_calls: Callable[[], tuple[Store, StoreRetry]],
    ) -> Runner:
        return cls(
            tasks,
            layers,
            clock,
            reports,
            timeout=settings.default_timeout,
            policy=Policy(settings.retry_max, settings.backoff),
            result_limit=settings.result_limit,
            payload_limit=settings.payload_limit,
            max_crashes=settings.max_crashes,
            skew=settings.skew,
            children=settings.children,
            store_calls=store_calls,
        )

    def context(self, job: Job, watch: Callable[[Context], object], began_at: datetime | None = None) -> Context:
        """`began_at`: when the run begins, if that is later than its claim."""
        timeout, prepared = job.timeout, self._prepared[job.task]
        if timeout is UNSET or prepared.is_flow:  # a flow's timeout is of all of it, and not of the run that plans
            timeout = prepared.timeout
        elif timeout is not None:
            timeout = min(timeout, MAX_SPAN_SECONDS)  # jobs of earlier releases may exceed what a timer accepts
        # The deadline only informs the task; the timeout middleware enforces it, and starts microseconds later.
        deadline = self._deadline(began_at or job.started_at, timeout)
        return Context(job, timeout, deadline, self._reports, prepared.failed_ratio, watch)

    def fingerprints(self, tasks: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._tasks[name].arguments.fingerprint for name in tasks)

    async def run(self, ctx: Context) -> RunEnd:
        """Returns how the run ended; raises nothing but CancelledError."""
        job = ctx.job
        prepared = self._prepared[job.task]
        if job.cancel_reason is not None and not prepared.is_flow:  # a durable job whose children were to end first
            return Stopped(job.cancel_reason)
        running.set(ctx)
        try:
            if job.refs or prepared.is_flow:
                if (ended := await self._flow_runs().prepare(ctx, self._tasks[job.task])) is not None:
                    return ended
            else:
                ctx.arguments = prepared.decode(job.payload)
        except asyncio.CancelledError:
            raise
        except StoreUnavailable:  # only a worker that drains does not wait until the store answers
            return Released()
        except (StepNotCompleted, StoreError) as error:
            return error
        except BaseException as error:  # of any kind: validators of the arguments' classes run there
            return self._undecodable(job.task, bad_payload(job.task, error))
        failpoint("run.started")
        try:
            value = await prepared.call(ctx)
        except asyncio.CancelledError:
            raise
        except ProcessExited as exited:
            return ProcessDied(str(exited), self._max_crashes)
        except UnreadableAbroad as abroad:
            return self._undecodable(job.task, abroad.failure, abroad.version)
        except Finish as finish:
            value = finish
        except BaseException as error:
            return error
        finally:
            failpoint("run.returned")
        try:
            # Hot: nearly all runs end this way.
            return _DONE if value is None and not ctx.has_reports else self.end_of(ctx, value)
        except BaseException as error:  # of any kind: code of the value's class runs there
            return error

    def _undecodable(self, task: str, failure: Failure, version: tuple[str, str] | None = None) -> UndecodablePayload:
        """`version`: the task's fingerprint and parameters in the child process; None if it was decoded here."""
        arguments = self._tasks[task].arguments
        fingerprint, parameters = version or (arguments.fingerprint, arguments.parameters)
        return UndecodablePayload(failure, fingerprint, parameters, self._skew, self._pacer.reserve())

    def end_of(self, ctx: Context, value: Any) -> Done | Directive | ItemsFailed:
        """The end of a run whose task returned `value`."""
        if ctx.suspension is not None:  # the task has caught Suspended, which changes nothing
            return ctx.suspension
        if isinstance(value, Finish):
            return Done(*encode_result(value.value, self._result_limit), finish=True)
        if isinstance(value, Directive):
            return value
        items, verdict = ctx.counted, ctx.verdict
        if items is not None and verdict == "failed":
            return ItemsFailed(f"{items.failed} of {items.total} items failed; up to {ctx.failed_ratio:.0%} may")
        done = value if isinstance(value, Done) else self._done(value)
        return done if items is None or verdict == "success" else done.partly(items)

    def _done(self, value: Any) -> Done:
        return _DONE if value is None else Done(*encode_result(value, self._result_limit))

    def policy(self, job: Job) -> Policy:
        """The task's policy, overridden by the job's own options."""
        policy = self._prepared[job.task].policy
        if job.max_retries is None and job.backoff is None:
            return policy
        retries = policy.max_retries if job.max_retries is None else job.max_retries
        return replace(policy, max_retries=retries, backoff=job.backoff or policy.backoff)

    def close(self) -> None:
        if self._flows is not None:
            self._flows.reads.close()
        self.threads.close()
        if self._process_pool is not None:
            self._process_pool.close()

    def _innermost(self, task: Task[Any, Any]) -> Next:
        fn, context = task.fn, task.arguments.context
        if task.is_flow:
            return partial(self._plan, task)
        if task.yields:
            return partial(self._yield, task)
        if task.executor == "process":
            from ..executor.pool import ProcessPool, import_path_of

            self._process_pool = self._process_pool or ProcessPool(self._clock)
            return partial(self._in_process, task, import_path_of(fn))
        if is_async(fn):
            if context is None:
                return lambda ctx: fn(*ctx.arguments[0], **ctx.arguments[1])
            return lambda ctx: fn(ctx, *ctx.arguments[0], **ctx.arguments[1])
        return partial(self._in_thread, fn, context is not None)

    def _flow_runs(self) -> FlowRuns:
        """Made when the first flow, or the first step with values of others, runs here."""
        from .flow_runs import FlowRuns

        self._flows = self._flows or FlowRuns(self._store_calls, self._result_limit)
        return self._flows

    async def _yield(self, task: Task[Any, Any], ctx: Context) -> Any:
        from .item_pages import ItemPages, run_yielding

        pages = ItemPages(ctx, self._clock, self._store_calls, self._payload_limit)
        return await run_yielding(task, ctx, pages, partial(self._call_in_thread, ctx))

    async def _plan(self, task: Task[Any, Any], ctx: Context) -> Any:
        from .flow_runs import plan

        return await self._call_in_thread(ctx, partial(plan, task, ctx))

    async def _call_in_thread(self, ctx: Context, call: Callable[[], Any]) -> Any:
        return await self.threads.call(within_layers(self._thread_layers, ctx, call), ctx)

    async def _in_thread(self, fn: Callable[..., Any], wants_context: bool, ctx: Context) -> Any:
        args, kwargs = ctx.arguments
        call = partial(fn, ctx, *args, **kwargs) if wants_context else partial(fn, *args, **kwargs)
        value = await self.threads.call(
            within_layers(self._thread_layers, ctx, call) if self._thread_layers else call, ctx
        )
        # A sync function may still return a coroutine (functools.partial, a decorator without `async`).
        return await value if inspect.iscoroutine(value) else value

    async def _in_process(self, task: Task[Any, Any], path: tuple[str, str, str | None], ctx: Context) -> Any:
        """Runs the task in a child process, which can be killed."""
        from ..executor.protocol import ProcessDiedMessage as Gone
        from ..executor.protocol import Raised, RunRequest, RunSteered
        from .process_steps import answer

        assert self._process_pool is not None
        options = task.options
        ended = await self._process_pool.call(
            RunRequest(
                module=path[0],
                qualname=path[1],
                main=path[2],
                job=ctx.job,
                timeout=ctx.timeout,
                deadline=ctx.deadline,
                soft_timeout=options.soft_timeout,
                memory_limit=options.memory_limit,
                cpu_limit=options.cpu_limit,
                result_limit=self._result_limit,
                setup=None if self._child_setup is None else self._child_setup(),
            ),
            partial(_apply_message, ctx),
            partial(answer, ctx),
        )
        ctx.usage = ended.usage
        match ended:
            case Gone(reason=reason):
                raise ProcessExited(reason)
            case Raised(failure=failure, kind="unreadable", version=version):
                raise UnreadableAbroad(failure, version)
            case Raised(kind="suspended"):
                raise Suspended
            case Raised(failure=failure, kind=kind):
                raise RemoteFailure(failure, retryable=_is_retryable(ended, options), timeout=kind == "timeout")
            case RunSteered(steer=steer):
                raise steer
            case _:
                # Middleware sees the value; the child has already noted what of it could not be kept.
                return decode_or_text(ended.result or "null") if ended.note is None else Done(ended.result, ended.note)


def _flow_policy(policy: Policy) -> Policy:
    """The retry rules of a flow: an invalid plan would be invalid again."""
    return replace(policy, no_retry_on=(*policy.no_retry_on, BadFlow))


def _deadline(began: datetime | None, timeout: float | None) -> datetime | None:
    return None if timeout is None or began is None else later(began, timeout)


def _is_retryable(raised: Raised, options: CheckedOptions) -> bool:
    """Whether the task's retry rules allow another attempt after an error that only the child process has seen."""
    from ..executor.pool import bases_of

    if not raised.bases:
        return raised.kind != "unreadable"
    wanted, unwanted = (
        any(bases_of(kind)[0] in raised.bases for kind in kinds) for kinds in (options.retry_on, options.no_retry_on)
    )
    return wanted and not unwanted


def _apply_message(ctx: Context, message: Message | Usage) -> None:
    """Applies a message of the child process to the context here."""
    from ..executor.protocol import ItemsMessage, LogMessage, NoteMessage, OutputMessage, ProgressMessage

    match message:
        case LogMessage(level=level, text=text):
            ctx.log.log(level, "%s", text)
        case ProgressMessage(done=done, total=total, note=note):
            ctx.progress(done, total, note)
        case OutputMessage(text=text):
            ctx.write_encoded(text.encode())
        case ItemsMessage(success=success, failed=failed, skipped=skipped):
            ctx.items(success=success, failed=failed, skipped=skipped)
        case NoteMessage(metadata=metadata):
            ctx.note(**metadata)
        case _:
            ctx.usage = message
