"""The report buffer: log lines, output and progress of the runs of a worker, until they are sent to the store."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from enum import IntEnum, auto
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..errors import BadInput
from ..ids import Lease
from ..records.job import Job
from ..records.run import Checkpoint, Items, LogLine, Progress, RunReport
from ..store import Store
from ..task.context import (
    DONE_AWAITABLE,
    MAX_COUNT,
    Context,
    check_counts,
    checked_number,
    clean_line,
    merged_notes,
    run_fields,
)
from ..task.durable import DurableRun
from .run_output import RunOutput, waited

if TYPE_CHECKING:
    from ..engine import Engine
    from ..task.batch import Batch

_logger = logging.getLogger("mainspring.task")
_Adapter = logging.LoggerAdapter[logging.Logger]

# Log lines kept of one run; further ones are counted.
MAX_LOG_LINES = 1000
# Progress is reported again after this many items, or after this many seconds.
PROGRESS_STEP_ITEMS = 10
PROGRESS_SECONDS = 1.0


class Urgency(IntEnum):
    """How soon the reports of a buffer are sent."""

    NONE = auto()
    OUTPUT = auto()
    """Readers wait for it."""
    WAITING = auto()
    """A writer is ahead, and waits."""


class RunReports:
    """The log lines, output, progress, items and notes of one run, and which of them the store does not have yet.

    Any thread may call it.
    """

    def __init__(self, job: Job, buffer: ReportBuffer) -> None:
        self.job = job
        self._buffer = buffer
        self._lock = threading.RLock()
        self._held_back, self._pending = False, False
        self._lines: list[LogLine] = []
        self._checkpoints: list[Checkpoint] = []
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        """What waits until checkpoints are stored, by their numbers."""
        self._line_count = 0
        self._progress: Progress | None = None
        self._reported: Progress | None = None
        self._sent: Progress | None = None
        self.output: RunOutput | None = None
        self.counted: Items | None = None
        self.metadata: dict[str, Any] = {}
        self.log = _TaskLog(_logger, run_fields(job), self.add_line)

    def add_line(self, level: int, text: str) -> None:
        with self._lock:
            self._line_count += 1
            kept = self._line_count <= MAX_LOG_LINES
            if kept:
                self._append_line(level, text)
        if kept:
            self._add_to_buffer()

    def progress(self, done: float, total: float | None, note: str) -> None:
        done, total = checked_number(done), None if total is None else checked_number(total)
        with self._lock:
            now, last = self._buffer.clock.now(), self._reported
            self._progress = Progress(self.job.runs, now, done, total, clean_line(note))
            due = last is None or abs(done - last.done) >= PROGRESS_STEP_ITEMS or done == total
            due = due or (last is not None and (now - last.at).total_seconds() >= PROGRESS_SECONDS)
            if due:
                self._reported = self._progress
        if due:
            self._add_to_buffer()

    def write(self, data: bytes, resumed: bool = False) -> Awaitable[None]:
        with self._lock:
            self.output = output = self.output or RunOutput(self.job)
        if output.add(data, self._buffer.clock.now(), resumed):
            self._add_to_buffer()
            self._buffer.urge(Urgency.OUTPUT)
        # In a transaction of the task nothing is sent before the commit, for which a waiting writer would wait in vain.
        if self._held_back or (room := output.room()) is None:
            return DONE_AWAITABLE
        self._buffer.urge(Urgency.WAITING)
        return waited(room)

    def items(self, success: int, failed: int, skipped: int) -> None:
        check_counts(success, failed, skipped)
        with self._lock:
            old = self.counted or Items()
            self.counted = Items(old.success + success, old.failed + failed, old.skipped + skipped)

    def note(self, metadata: Mapping[str, Any]) -> None:
        with self._lock:
            self.metadata = merged_notes(self.metadata, metadata)

    async def keep(self, checkpoint: Checkpoint) -> bool:
        """Waits until the store has the checkpoint. Returns whether it has accepted it."""
        kept: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._checkpoints.append(checkpoint)
            self._waiting[checkpoint.n] = kept
        self._add_to_buffer(Urgency.WAITING)
        return await kept

    def close(self) -> None:
        """Reports the latest progress and the number of dropped lines, at the end of the run."""
        with self._lock:
            dropped, self._line_count = self._line_count - MAX_LOG_LINES, min(self._line_count, MAX_LOG_LINES)
            newer = self._progress is not self._reported
            self._reported = self._progress
            if dropped > 0:
                text = f"{dropped} lines more were logged and not kept"
                self._append_line(logging.WARNING, text, MAX_LOG_LINES + 1)
        if dropped > 0 or newer:
            self._add_to_buffer()

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Keeps reports out of the buffer during the block: the caller sends what drain() returns."""
        self._held_back = True
        try:
            yield
        finally:
            self._held_back = False
            if self._pending:
                self._add_to_buffer()

    def _add_to_buffer(self, urgency: Urgency = Urgency.NONE) -> None:
        self._pending = self._held_back
        if not self._held_back:
            self._buffer.add(self.job, self, urgency)

    def drain(self) -> RunReport:
        """Everything that was not drained before. The caller sends it to the store, or calls restore()."""
        with self._lock:
            lines, self._lines, self._pending = self._lines, [], False
            progress, self._sent = None if self._reported is self._sent else self._reported, self._reported
            chunks = () if self.output is None else self.output.drain()
            kept, self._checkpoints = tuple(self._checkpoints), []
            return RunReport(
                id=self.job.id,
                lease=self.job.lease or "",
                lines=tuple(lines),
                progress=progress,
                chunks=chunks,
                checkpoints=kept,
            )

    def restore(self, report: RunReport) -> None:
        """Takes back a drained report that the store did not accept."""
        with self._lock:
            self._lines, self._sent, self._pending = [*report.lines, *self._lines], None, True
            self._checkpoints = [*report.checkpoints, *self._checkpoints]
            if self.output is not None:
                self.output.restore(report.chunks)

    async def number(self, store: Store) -> None:
        """Prepares output for drain(), which leaves out chunks without numbers."""
        if self.output is not None and self.output.unnumbered:
            await self.output.number(store)

    def sent(self, report: RunReport, accepted: bool) -> None:
        """The store has accepted or refused this report."""
        if self.output is not None:
            self.output.sent(report)
        for checkpoint in report.checkpoints:
            kept = self._waiting.pop(checkpoint.n, None)
            if kept is not None and not kept.done():
                kept.set_result(accepted)

    def _append_line(self, level: int, text: str, n: int | None = None) -> None:
        level = max(0, min(level, MAX_COUNT))
        now = self._buffer.clock.now()
        self._lines.append(LogLine(self.job.runs, n or self._line_count, now, level, clean_line(text)))


class ReportBuffer:
    """Collects the reports of all runs of a worker until they are sent to the store. Any thread may add to it."""

    def __init__(
        self,
        clock: Clock,
        open_transaction: Callable[[Context], AbstractAsyncContextManager[Any]] | None = None,
        open_durable: Callable[[Context], DurableRun] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """`open_transaction` opens ctx.transaction(), `open_durable` the durable steps of a run; None outside of a
        worker. `engine` is that of ctx.batch."""
        self.clock = clock
        self._on_change: Callable[[], object] = lambda: None
        self.urgency = Urgency.NONE
        self._open_transaction, self._engine = open_transaction, engine
        self._open_durable = open_durable
        self.lock = threading.RLock()
        self._runs: dict[tuple[str, Lease], RunReports] = {}

    def watch(self, on_change: Callable[[], object]) -> None:
        """Calls `on_change` when a report is added to an empty buffer or the urgency rises, in that thread."""
        self._on_change = on_change

    def open(self, job: Job) -> RunReports:
        """The reports of a run, empty."""
        return RunReports(job, self)

    def transaction(self, ctx: Context) -> AbstractAsyncContextManager[Any]:
        if self._open_transaction is None:
            raise BadInput("ctx.transaction() is for tasks that a worker runs")
        return self._open_transaction(ctx)

    def durable(self, ctx: Context) -> DurableRun:
        if self._open_durable is None:
            raise BadInput("durable steps are for tasks that a worker runs")
        return self._open_durable(ctx)

    def batch(self, job: Job) -> Batch:
        if self._engine is None or job.step is None:
            raise BadInput(f"job {job.id} ({job.task}) is in no batch")
        from ..task.batch import Batch

        return Batch(self._engine, job.step.flow, job.step.queue)

    def add(self, job: Job, reports: RunReports, urgency: Urgency = Urgency.NONE) -> None:
        """Marks a run as having something to send, of this urgency."""
        with self.lock:
            first = not self._runs
            self._runs[job.id, job.lease or ""] = reports
        if not self.urge(urgency) and first:
            self._tell()

    def urge(self, urgency: Urgency) -> bool:
        """What is in the buffer has this urgency, or a higher one. Returns whether it had a lower one."""
        with self.lock:
            risen, self.urgency = urgency > self.urgency, max(urgency, self.urgency)
        if risen:
            self._tell()
        return risen

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the worker's loop is closed: reports are no longer sent
            self._on_change()

    def unnumbered(self) -> list[RunOutput]:
        """The outputs that have to be numbered before they can be drained."""
        with self.lock:
            outputs = [reports.output for reports in self._runs.values()]
        return [output for output in outputs if output is not None and output.unnumbered]

    def drain(self) -> list[tuple[RunReports, RunReport]]:
        """The reports of all marked runs. The buffer is empty afterwards, but for runs whose output has no numbers."""
        with self.lock:
            runs, self._runs, self.urgency = self._runs, {}, Urgency.NONE
            for key, reports in runs.items():
                if reports.output is not None and reports.output.unnumbered:
                    self._runs[key] = reports
        return [(reports, reports.drain()) for key, reports in runs.items() if key not in self._runs]

    def __bool__(self) -> bool:
        return bool(self._runs)


class _TaskLog(_Adapter):
    """The logger of a run: keeps each line with the run, whatever the process's own logging does with it."""

    def __init__(self, logger: logging.Logger, extra: Mapping[str, object], keep: Callable[[int, str], object]) -> None:
        super().__init__(logger, extra)
        self._keep = keep

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self._keep(level, _text(msg, args, kwargs.get("exc_info")))
        with suppress(Exception):  # a handler of this process that raises does not fail the task
            super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, object] = kwargs.get("extra") or {}
        return msg, {**kwargs, "extra": {**(self.extra or {}), **extra}}


def _text(msg: object, args: tuple[Any, ...], exc_info: Any) -> str:
    """The line as logging would write it. A bad format or a broken __str__ does not fail the task."""
    try:
        values = args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
        text = str(msg) % values if args else str(msg)
    except Exception as bad:
        text = f"a {type(msg).__name__} that cannot be written ({type(bad).__name__})"
        with suppress(Exception):
            text = f"{msg!r} {args!r} ({type(bad).__name__}: {bad})"
    return f"{text}\n{_stack(exc_info)}" if exc_info else text


def _stack(exc_info: Any) -> str:
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    with suppress(Exception):
        return "".join(traceback.format_exception(error)) if error is not True else traceback.format_exc()
    return "(its stack cannot be written)"
