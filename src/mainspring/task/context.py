"""Context: what a running task may know of its own job, and say about it."""

from __future__ import annotations

import logging
import math
import threading
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..bounds import MAX_METADATA_BYTES
from ..clock import Clock
from ..codec import encode
from ..errors import BadInput
from ..ids import Lease
from ..mask import MAX_TEXT_CHARACTERS, mask_to_cut
from ..records.job import Job
from ..records.run import Items, LogLine, Progress, RunNotes, RunReport, Usage

if TYPE_CHECKING:
    from ..records.outcome import Outcome

_logger = logging.getLogger("mainspring.task")
_Adapter = logging.LoggerAdapter[logging.Logger]

# What one run may log; the rest is counted. And how far it must come, or how long ago it must have told, before
# progress is told again.
MAX_LOG_LINES, MAX_LINE_CHARACTERS = 1000, 4096
PROGRESS_STEP_ITEMS, PROGRESS_SECONDS = 10, 1.0
# Bytes of JSON that ctx.note() may gather, and a count or a level that every store can hold.
MAX_NOTES_BYTES, MAX_COUNT = MAX_METADATA_BYTES, 2**31 - 1


Next = Callable[["Context"], Awaitable[Any]]
Middleware = Callable[["Context", Next], Awaitable[Any]]


def run_fields(job: Job) -> dict[str, object]:
    """What log records say of the run they are of."""
    return {
        "job_id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt, "worker": job.worker,
        "schedule": job.schedule,
    }  # fmt: skip


class Context:
    """Injected into the first parameter annotated `Context`; never sent."""

    __slots__ = (
        "_said", "arguments", "cancelled", "commitment", "deadline", "failed_ratio", "interrupt", "job", "timeout",
        "usage", "watch",
    )  # fmt: skip

    def __init__(
        self, job: Job, timeout: float | None, deadline: datetime | None, desk: ReportBuffer, failed_ratio: float = 0.5
    ) -> None:
        self.job = job
        self.timeout = timeout
        self.deadline = deadline
        """When the run is interrupted; None: never."""
        self.cancelled = False
        """True once the run was told to stop: by a cancel, a timeout or a stopping worker."""
        self.arguments: tuple[list[Any], dict[str, Any]] = ([], {})
        self.interrupt: Callable[[], object] | None = None
        """Interrupts the task itself, where cancelling the run would not let it answer."""
        self.watch: Callable[[Context], object] | None = None
        """Called once, when the run is told to stop."""
        self.failed_ratio = failed_ratio
        """The task's: the share of its items that may fail."""
        self.usage: Usage | None = None
        self.commitment: CompletionCommit | None = None
        self._said: RunReports | ReportBuffer = desk

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def scheduled_at(self) -> datetime | None:
        """The instant of the tick this job is for, however late it runs; None: no schedule made it."""
        return self.job.scheduled_at

    @property
    def lease(self) -> Lease:
        return self.job.lease or ""

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.job.metadata)

    @property
    def log(self) -> _Adapter:
        """A logger whose lines are kept with the run; its records say which it is: job_id, attempt, worker and more."""
        return self.said.log

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """How far the run has come: shown with the job, told every ten items or every second at most.

        Works at once; awaiting it is allowed and does nothing more.
        """
        self.said.progress(done, total, note)
        return DONE_AWAITABLE

    def items(self, *, success: int = 0, failed: int = 0, skipped: int = 0) -> None:
        """Counts items worked through: if more than the task's failed_ratio failed, so has the run."""
        self.said.items(success, failed, skipped)

    def note(self, **metadata: Any) -> None:
        """Keeps these values, as JSON has them, with the run's execution."""
        self.said.note(metadata)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A connection to the store's own database: what is done there and the job's completion are one commit.

        The last thing a task does. The block's end completes the job; an exception in it rolls all of it back, and
        counts as the run's. LeaseLost: the job is not this run's any more, and nothing was done.
        """
        desk = self._said if isinstance(self._said, ReportBuffer) else self._said.desk
        return desk.transaction(self)

    def complete(self, result: Any) -> None:
        """Inside ctx.transaction(): the job's result, in place of what the task returns."""
        if self.commitment is None or self.commitment.binding:
            raise BadInput("ctx.complete() gives a result to an open ctx.transaction(): call it inside the block")
        self.commitment.result = result

    # for the engine

    @property
    def said(self) -> RunReports:
        desk = self._said
        if not isinstance(desk, ReportBuffer):
            return desk
        with desk.lock:  # two threads of one task may speak up at once
            if isinstance(self._said, ReportBuffer):
                self._said = RunReports(self.job, desk)
            return self._said

    @property
    def counted(self) -> Items | None:
        return None if isinstance(self._said, ReportBuffer) else self._said.counted

    @property
    def verdict(self) -> Literal["success", "partial", "failed"]:
        """What the items counted so far say of the run."""
        items = self.counted
        return "success" if items is None else items.verdict(self.failed_ratio)

    def stop(self) -> None:
        """The run is told to end."""
        self.cancelled = True
        watch, self.watch = self.watch, None
        if watch is not None:
            watch(self)

    def account(self) -> RunNotes | None:
        """What is kept with the execution; None: nothing was said."""
        if isinstance(self._said, ReportBuffer):
            return None if self.usage is None else RunNotes(usage=self.usage)
        self._said.close()
        said = self._said
        if said.counted is None and self.usage is None and not said.metadata:
            return None
        return RunNotes(said.counted, self.usage, said.metadata)


class CompletionCommit:
    """The end of a run that is committed together with its effect."""

    def __init__(self) -> None:
        self.result: Any = None
        self.under_way = False
        self.outcome: Outcome | None = None
        """What was committed."""

    @property
    def binding(self) -> bool:
        """Too late to end the run in another way."""
        return self.under_way or self.outcome is not None


class RunReports:
    """What one run has said so far, and what of it the store does not know yet. Any thread may add."""

    def __init__(self, job: Job, desk: ReportBuffer) -> None:
        self.job = job
        self.desk = desk
        self._lock = threading.RLock()
        self._kept, self._due = False, False
        self._lines: list[LogLine] = []
        self._count = 0
        self._progress: Progress | None = None
        self._told: Progress | None = None
        self._sent: Progress | None = None
        self.counted: Items | None = None
        self.metadata: dict[str, Any] = {}
        self.log = _Log(_logger, run_fields(job))
        self.log.keep = self.line

    def line(self, level: int, text: str) -> None:
        with self._lock:
            self._count += 1
            kept = self._count <= MAX_LOG_LINES
            if kept:
                self._add(level, text)
        if kept:
            self._lay()

    def progress(self, done: float, total: float | None, note: str) -> None:
        done, total = checked_number(done), None if total is None else checked_number(total)
        with self._lock:
            now, told = self.desk.clock.now(), self._told
            self._progress = Progress(self.job.runs, now, done, total, clean_line(note))
            due = told is None or abs(done - told.done) >= PROGRESS_STEP_ITEMS or done == total
            due = due or (told is not None and (now - told.at).total_seconds() >= PROGRESS_SECONDS)
            if due:
                self._told = self._progress
        if due:
            self._lay()

    def items(self, success: int, failed: int, skipped: int) -> None:
        check_counts(success, failed, skipped)
        with self._lock:
            old = self.counted or Items()
            self.counted = Items(old.success + success, old.failed + failed, old.skipped + skipped)

    def note(self, metadata: Mapping[str, Any]) -> None:
        with self._lock:
            self.metadata = merged_notes(self.metadata, metadata)

    def close(self) -> None:
        """The run is over: what was held back is told as well."""
        with self._lock:
            more, self._count = self._count - MAX_LOG_LINES, min(self._count, MAX_LOG_LINES)
            held = self._progress is not self._told
            self._told = self._progress
            if more > 0:
                self._add(logging.WARNING, f"{more} lines more were logged and not kept", MAX_LOG_LINES + 1)
        if more > 0 or held:
            self._lay()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What is said meanwhile waits for whoever takes the report here."""
        self._kept = True
        try:
            yield
        finally:
            self._kept = False
            if self._due:
                self._lay()

    def _lay(self) -> None:
        self._due = self._kept
        if not self._kept:
            self.desk.lay(self.job, self)

    def report(self) -> RunReport:
        """Everything new; the store has it when the call that carries this returns."""
        with self._lock:
            lines, self._lines, self._due = self._lines, [], False
            progress, self._sent = None if self._told is self._sent else self._told, self._told
            return RunReport(id=self.job.id, lease=self.job.lease or "", lines=tuple(lines), progress=progress)

    def untold(self, report: RunReport) -> None:
        """The store does not have it after all."""
        with self._lock:
            self._lines, self._sent, self._due = [*report.lines, *self._lines], None, True

    def _add(self, level: int, text: str, n: int | None = None) -> None:
        level = max(0, min(level, MAX_COUNT))
        line = LogLine(self.job.runs, n or self._count, self.desk.clock.now(), level, clean_line(text))
        self._lines.append(line)


class ReportBuffer:
    """Where runs lay what they say, until the worker carries it to the store. Any thread may lay."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ring: Callable[[], object] = lambda: None
        """Called when something was laid on an empty desk, from whatever thread did it."""
        self.transaction: Callable[[Context], AbstractAsyncContextManager[Any]] = _nowhere
        """Opens ctx.transaction()."""
        self.lock = threading.RLock()
        self._laid: dict[tuple[str, Lease], RunReports] = {}

    def lay(self, job: Job, said: RunReports) -> None:
        with self.lock:
            first = not self._laid
            self._laid[job.id, job.lease or ""] = said
        if first:
            with suppress(RuntimeError):  # the worker's loop is closed: nobody carries any more
                self.ring()

    def take(self) -> list[tuple[Job, RunReport]]:
        with self.lock:
            laid, self._laid = self._laid, {}
        return [(said.job, said.report()) for said in laid.values()]

    def __bool__(self) -> bool:
        return bool(self._laid)


def _nowhere(ctx: Context) -> AbstractAsyncContextManager[Any]:
    raise BadInput("ctx.transaction() is for tasks in a worker's own process, not for executor='process'")


class _Log(_Adapter):
    """Keeps each line, whatever the process's own logging does with it."""

    keep: Callable[[int, str], object]

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self.keep(level, _text(msg, args, kwargs.get("exc_info")))
        with suppress(Exception):  # a handler of this process that raises is no failure of the task
            super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, object] = kwargs.get("extra") or {}
        return msg, {**kwargs, "extra": {**(self.extra or {}), **extra}}


def _text(msg: object, args: tuple[Any, ...], exc_info: Any) -> str:
    """The line as logging would write it; a bad format or a broken __str__ must not break the task."""
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


def check_counts(*counts: int) -> None:
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
            raise BadInput(f"ctx.items() takes whole numbers of 0 or more, got {count!r:.80}")


def merged_notes(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What a run has noted so far, with more of it."""
    data = encode({**known, **more})
    if len(data) > MAX_NOTES_BYTES:
        raise BadInput(f"ctx.note() keeps up to {MAX_NOTES_BYTES:,} bytes, got {len(data):,}: keep big data elsewhere")
    values: dict[str, Any] = msgspec.json.decode(data)
    return values


def checked_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise BadInput(f"ctx.progress() takes finite numbers, got {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        raise BadInput("ctx.progress() takes finite numbers, got one beyond every float") from None


def clean_line(text: str) -> str:
    """At most LINE_LIMIT characters that every store can hold; what has to be cut is masked first."""
    text = str(text)[: MAX_TEXT_CHARACTERS + 1].replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_LINE_CHARACTERS or len(text := mask_to_cut(text)) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[:MAX_LINE_CHARACTERS]} … {len(text) - MAX_LINE_CHARACTERS} characters more"


class _Nothing:
    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE_AWAITABLE = _Nothing()

# The run that the code which asks is part of, in its thread too; None: it is part of none.
running: ContextVar[Context | None] = ContextVar("mainspring_running", default=None)
