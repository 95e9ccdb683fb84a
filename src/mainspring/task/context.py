"""The context of a run: what a task can read of its own job, and how it reports and completes."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast, overload

import msgspec
from msgspec import UNSET

from ..bounds import MAX_METADATA_BYTES, MAX_TEXT_CHARACTERS
from ..codec import encode
from ..errors import BadInput
from ..ids import Lease
from ..records.job import Job
from ..records.run import Items, RunNotes, Usage
from ..span import Span
from ..suggest import renamed_value

if TYPE_CHECKING:
    from ..records.outcome import Suspend
    from .batch import Batch
    from .durable import DurableRun, SyncContext
    from .flow_failure import FlowEnd
    from .reporting import Commit, Reporting, Reports, Yielded
    from .task import Task

# Characters of a log line, or of a note on progress.
MAX_LINE_CHARACTERS = 4096
# Bytes of JSON that ctx.note() may collect.
MAX_NOTES_BYTES = MAX_METADATA_BYTES
# The largest item count or log level that every store can hold.
MAX_COUNT = 2**31 - 1

T = TypeVar("T")
D = TypeVar("D")
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
Next = Callable[["Context"], Awaitable[Any]]
Middleware = Callable[["Context", Next], Awaitable[Any]]
ThreadNext = Callable[["Context"], Any]
ThreadMiddleware = Callable[["Context", ThreadNext], Any]
"""A layer around plain functions, in the thread or the child process that runs them."""


def run_fields(job: Job) -> dict[str, object]:
    """The fields of a log record that identify its run."""
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "worker": job.worker,
        "schedule": job.schedule,
    }


class Context:
    """The context of one run. A task gets it as its first parameter, if that is annotated `Context`."""

    __slots__ = (
        "_durable",
        "_reporting",
        "_reports",
        "_yielded",
        "arguments",
        "cancelled",
        "commitment",
        "deadline",
        "failed_ratio",
        "flow_end",
        "interrupt",
        "job",
        "may_conclude",
        "timeout",
        "usage",
        "watch",
    )

    def __init__(
        self,
        job: Job,
        timeout: float | None,
        deadline: datetime | None,
        reporting: Reporting | None,
        failed_ratio: float = 0.5,
        watch: Callable[[Context], object] | None = None,
    ) -> None:
        """`reporting` is None in a subprocess, whose context sends its reports to the worker's process. `watch` is
        called once, when the run is to stop."""
        self.job = job
        self.timeout = timeout
        self.deadline = deadline
        """When the run is interrupted. None: never."""
        self.cancelled = False
        """True once the run is to stop: because of a cancel, a timeout or a stopping worker."""
        self.arguments: tuple[list[Any], dict[str, Any]] = ([], {})
        self.interrupt: Callable[[], object] | None = None
        """Interrupts the task itself, where cancelling the run would not let it answer."""
        self.watch = watch
        self.failed_ratio = failed_ratio
        """The share of the task's items that may fail."""
        self.usage: Usage | None = None
        self.commitment: Commit | None = None
        self.flow_end: FlowEnd | None = None
        """The end of the flow that the run concludes."""
        self.may_conclude = False
        """Whether the job may have a flow, which this run concludes or lets go on."""
        self._reporting = reporting
        self._reports: Reports | None = None
        self._yielded: Yielded  # of a task that yields
        self._durable: DurableRun  # of a task with durable steps

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def scheduled_at(self) -> datetime | None:
        """The instant of the tick this job is for, however late it runs. None if no schedule made the job."""
        return self.job.scheduled_at

    @property
    def made(self) -> int:
        """Of a task that yields: how many of its items are made. It goes on from there: who reads this before the first
        `yield` yields the items behind these. A task that does not read it yields all items, and these are passed over.
        """
        yielded = getattr(self, "_yielded", None)
        if yielded is None:
            raise BadInput("ctx.made is for tasks that yield")
        return cast("Yielded", yielded).asked_made()

    @property
    def batch(self) -> Batch:
        """The batch that this job is one of, or a callback: `await ctx.batch.enqueue(send.job(to))`. While it runs,
        its batch does not end. A plain function uses `ctx.batch.sync`."""
        if self._reporting is None:
            raise BadInput("ctx.batch is for tasks in a worker's own process, not for executor='process'")
        return self._reporting.batch(self.job)

    @property
    def lease(self) -> Lease:
        return self.job.lease or ""

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.job.metadata)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines are stored with the run. Its records have the run's job_id, attempt, worker and more."""
        return self.reports.log

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Reports progress, which is shown with the job. It is stored every ten items, or every second.

        It takes effect at once; it may be awaited, which does nothing more.
        """
        self.reports.progress(done, total, note)
        return DONE_AWAITABLE

    def write(self, chunk: Any) -> Awaitable[None]:
        """Adds a text, or another JSON value, to the output of the run, which `app.jobs.read()` follows.

        It takes effect at once. Awaiting it waits while the store is behind; a plain function waits without await.
        Raises BadInput for a chunk of more than 64 KiB. A run keeps 1 MiB and 10,000 chunks; later ones are dropped,
        and the output ends with a chunk that says so.
        """
        from .output import encoded_chunk

        return self.write_encoded(encoded_chunk(chunk))

    def items(self, *, success: int = 0, failed: int = 0, skipped: int = 0) -> None:
        """Adds to the counts of processed items. If more than the task's failed_ratio of them fail, the run fails."""
        self.reports.items(success, failed, skipped)

    def note(self, **metadata: Any) -> None:
        """Stores these values, as JSON, with the run's execution."""
        self.reports.note(metadata)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A connection to the store's own database: what the task does there and its completion are one commit.

        This must be the last thing a task does. The end of the block completes the job. An exception in it rolls
        everything back and fails the run. Raises LeaseLost if the run no longer holds its job; nothing is committed.
        """
        if hasattr(self, "_yielded"):
            raise BadInput("ctx.transaction() is not for tasks that yield: these complete when their items are stored")
        if self._reporting is None:
            raise BadInput("ctx.transaction() is for tasks in a worker's own process, not for executor='process'")
        return self._reporting.transaction(self)

    def complete(self, result: Any) -> None:
        """Inside ctx.transaction(): sets the job's result, in place of what the task returns."""
        if self.commitment is None or self.commitment.irrevocable:
            raise BadInput("ctx.complete() gives a result to an open ctx.transaction(): call it inside the block")
        self.commitment.set_result(result)

    # durable steps

    @property
    def resumed(self) -> bool:
        """Whether an earlier run of the job has begun: what it has stored in durable steps is not done again."""
        return self.job.runs > 1

    @overload
    def step(
        self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, name: str | None = None, **kwargs: Any
    ) -> Awaitable[T]: ...
    @overload
    def step(self, fn: Callable[..., T], *args: Any, name: str | None = None, **kwargs: Any) -> Awaitable[T]: ...
    def step(self, fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any) -> Awaitable[Any]:
        """Calls the function and stores its value as a checkpoint before it returns it. A later run of the job does not
        call it again, and gets the stored value, as the type of the function's return annotation.

        The name of the checkpoint is `name`, or that of the function; further calls of that name in a run are numbered.
        If the process dies before the value is stored, the function is called again: it runs at least once.
        """
        return self._awaited("ctx.step()").step(fn, args, kwargs, name)

    @overload
    def step_in_transaction(
        self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, name: str | None = None, **kwargs: Any
    ) -> Awaitable[T]: ...
    @overload
    def step_in_transaction(
        self, fn: Callable[..., T], *args: Any, name: str | None = None, **kwargs: Any
    ) -> Awaitable[T]: ...
    def step_in_transaction(
        self, fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any
    ) -> Awaitable[Any]:
        """As `step`, and the function's first argument is a connection to the store's own database: what it does there
        and the checkpoint are one commit, so it happens exactly once. The run goes on after it."""
        return self._awaited("ctx.step_in_transaction()").transaction(fn, args, kwargs, name)

    def sleep(
        self, span: Span = 0.0, *, days: float = 0, hours: float = 0, minutes: float = 0, name: str | None = None
    ) -> Awaitable[None]:
        """Sleeps for a span such as "10m", or for days, hours and minutes: the run ends, and the job is due again when
        the time has come. Its next run goes on behind this call. A sleep of less than a second keeps its slot."""
        from .durable import total_span

        return self._awaited("ctx.sleep()").sleep(total_span(span, days, hours, minutes), name)

    @property
    def sync(self) -> SyncContext:
        """`step`, `sleep`, `signal`, `run` and `map` for tasks that are plain functions."""
        from .durable import SyncContext

        return SyncContext(lambda what: self.durable_run(what).blocking())

    @overload
    def signal(self, name: str, type: type[T], *, timeout: Span | None = None) -> Awaitable[T]: ...
    @overload
    def signal(self, name: str, type: type[T], *, timeout: Span, default: D) -> Awaitable[T | D]: ...
    @overload
    def signal(
        self, name: str, type: Any = Any, *, timeout: Span | None = None, default: Any = UNSET
    ) -> Awaitable[Any]: ...
    def signal(
        self, name: str, type: Any = Any, *, timeout: Span | None = None, default: Any = UNSET
    ) -> Awaitable[Any]:
        """The value of a signal, which is given from outside. Without one the run ends, and the job waits for it in no
        slot; its next run goes on behind this call. One name has one value, however often it is asked for.

        The timeout counts from the first wait. Then it returns `default`, or raises SignalTimeout without one, in every
        later run, too.
        """
        return self._awaited("ctx.signal()").signal(name, type, timeout, default)

    def run(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Runs a task, or a flow, as a job of its own, and returns its result. Meanwhile the run ends, and the job
        waits in no slot; its next run goes on behind this call. The job is started once, whatever dies.

        Its name is that of the task, or `task.using(step=…)`. Raises ChildFailed if it does not complete.
        """
        return self._awaited("ctx.run()").run(task, args, kwargs)

    def map(
        self, task: Task[Concatenate[A, P], R], items: Iterable[A], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[list[R]]:
        """As `run`, with a job for each item, which is the task's first argument. Returns the results in the order of
        the items; they may be 64 MiB together."""
        return self._awaited("ctx.map()").map(task, items, args, kwargs)

    def _awaited(self, what: str) -> DurableRun:
        from .durable import in_event_loop

        if not in_event_loop():
            raise BadInput(f"{what} is awaited, and this is a plain function: use ctx.sync, or make it `async def`")
        return self.durable_run(what)

    # for the engine

    def durable_run(self, what: str) -> DurableRun:
        """The durable steps of the run, for the method of that name."""
        if (durable := getattr(self, "_durable", None)) is None:
            if hasattr(self, "_yielded"):
                raise BadInput(f"{what} is not for tasks that yield: these store how many items they have made")
            if self._reporting is None:
                raise BadInput(f"{what} is not for executor='process': write a plain function there, with ctx.sync")
            with self._reporting.lock:  # two threads of one task may call their first steps at once
                durable = getattr(self, "_durable", None)
                if durable is None:
                    durable = self._durable = self._reporting.durable(self)
        return cast("DurableRun", durable)

    @property
    def suspension(self) -> Suspend | None:
        """How the run is suspended. None: it is not."""
        durable = getattr(self, "_durable", None)
        return None if durable is None else cast("DurableRun", durable).suspension

    @property
    def has_checkpointed(self) -> bool:
        """Whether this run has stored a checkpoint."""
        durable = getattr(self, "_durable", None)
        return durable is not None and cast("DurableRun", durable).has_checkpointed

    def write_encoded(self, chunk: bytes) -> Awaitable[None]:
        """As write(), of a chunk that is JSON."""
        durable: DurableRun | None = getattr(self, "_durable", None)
        return self.reports.write(chunk, durable is not None and durable.goes_on)

    def prepare(self, job: Job, arguments: tuple[list[Any], dict[str, Any]]) -> None:
        """Sets the arguments of the run, and the job with the values that were put into its payload."""
        self.job, self.arguments = job, arguments

    def note_flow(self, *, may_conclude: bool) -> None:
        self.may_conclude = may_conclude

    def conclude(self, end: FlowEnd) -> None:
        """The run concludes a flow, which ends so."""
        self.flow_end = end

    def yield_into(self, yielded: Yielded) -> None:
        self._yielded = yielded

    @property
    def reports(self) -> Reports:
        """The reports of this run, opened at their first use: most runs report nothing."""
        if self._reports is None:
            if self._reporting is None:
                raise BadInput("this context has no reports")
            with self._reporting.lock:  # two threads of one task may report at once
                if self._reports is None:
                    self._reports = self._reporting.open(self.job)
        return self._reports

    @property
    def has_reports(self) -> bool:
        """Whether the run has reported anything."""
        return self._reports is not None

    @property
    def said(self) -> Reports:
        """Deprecated: `reports`."""
        return renamed_value("Context.said", "reports", self.reports)

    @property
    def counted(self) -> Items | None:
        return None if self._reports is None else self._reports.counted

    @property
    def verdict(self) -> Literal["success", "partial", "failed"]:
        """The result of the items counted so far."""
        items = self.counted
        return "success" if items is None else items.verdict(self.failed_ratio)

    def commit_with(self, commitment: Commit | None) -> None:
        """The run is completed by this commit; None: as other runs are."""
        self.commitment = commitment

    def stop(self) -> None:
        """Asks the run to end."""
        self.cancelled = True
        watch, self.watch = self.watch, None
        if watch is not None:
            watch(self)

    def account(self) -> RunNotes | None:
        """What is stored with the execution. None if there is nothing. Ends the reports of the run."""
        reports = self._reports
        if reports is None:
            return None if self.usage is None else RunNotes(usage=self.usage)
        reports.close()
        if reports.counted is None and self.usage is None and not reports.metadata:
            return None
        return RunNotes(reports.counted, self.usage, reports.metadata)


def check_counts(*counts: int) -> None:
    """Raises BadInput unless each is an item count that every store can hold."""
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
            raise BadInput(f"ctx.items() takes whole numbers of 0 or more, got {count!r:.80}")


def merged_notes(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The notes of a run with more of them, as JSON has them. Raises BadInput if they are too large."""
    data = encode({**known, **more})
    if len(data) > MAX_NOTES_BYTES:
        raise BadInput(f"ctx.note() keeps up to {MAX_NOTES_BYTES:,} bytes, got {len(data):,}: keep big data elsewhere")
    values: dict[str, Any] = msgspec.json.decode(data)
    return values


def checked_number(value: Any) -> float:
    """The value as a float. Raises BadInput if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise BadInput(f"ctx.progress() takes finite numbers, got {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        raise BadInput("ctx.progress() takes finite numbers, got one beyond every float") from None


def clean_line(text: str) -> str:
    """At most MAX_LINE_CHARACTERS characters that every store can hold. A text that has to be cut is masked first."""
    text = str(text)[: MAX_TEXT_CHARACTERS + 1].replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    from ..mask import mask_to_cut

    if len(text := mask_to_cut(text)) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[:MAX_LINE_CHARACTERS]} … {len(text) - MAX_LINE_CHARACTERS} characters more"


class _Done:
    """An awaitable that is done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE_AWAITABLE = _Done()

# The run that the current code belongs to, also in the task's thread. None outside of runs.
running: ContextVar[Context | None] = ContextVar("mainspring_running", default=None)
